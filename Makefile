# The gate, the demo and the set-up. CI runs `make check` and `make test`, as the README says.
SHELL := /bin/sh
PY := .venv/bin/python
SUITE ?= smoke
JOBS ?= 4

.PHONY: setup system-demo system-test demo quick test check bench clean

setup: .venv/.ready

.venv/.ready: pyproject.toml scripts/setup-venv
	@sh scripts/setup-venv

system-demo:
	@sh scripts/setup-system fio

system-test:
	@sh scripts/setup-system fio sshd
	@sh scripts/setup-vcsim >/dev/null

demo: setup system-demo
	.venv/bin/hcio run $(SUITE) --local

quick: setup
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "not real and not slow"

test: setup system-test
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal

check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: setup system-test
	$(PY) -m bench

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
