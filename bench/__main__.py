"""`make bench`, or `python -m bench NAME...`: every benchmark, ratios against peers in one run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

#: name: what it measures. Each is a module here with `run(report)`.
BENCHMARKS = {
    "startup": "P7: --help and a dry run against a bare interpreter",
    "merge": "P4: merging 1,024 outputs against parsing the same bytes",
    "overhead": "P8: fio through hcio against fio alone",
    "skew": "P3: start skew at 16 and 128 workers",
    "transport": "P1: the full cycle on 128 and 512 workers against bare paramiko and others",
    "series": "P5: reducing per-second logs against scanning the same bytes",
    "vsphere": "deploying and destroying 64 workers on the simulator",
    "mutants": "100,000 damaged outputs through the parsers",
    "judgement": "A/A comparisons and a true change of 5 %, on real fio",
}


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all; an unknown name is an error."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
        return 2
    for name in names or BENCHMARKS:
        print(f"\n== {name}: {BENCHMARKS[name]}", flush=True)
        run: Callable[[Callable[[str], None]], object] = importlib.import_module(
            f"bench.{name}"
        ).run
        run(lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
