"""`python -m orchestrator` is `hcio`."""

from orchestrator.cli.main import entry

if __name__ == "__main__":
    entry()
