# `make demo` and `make test` each do everything on a machine that has Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-slow lint bench bench-check clean
demo: .venv/package
	$(BIN)/dpmsnc demo

test: lint
	$(BIN)/pytest -m "not slow"

test-slow: .venv/installed
	$(BIN)/pytest -m slow

# Needs the data sets in DPMSNC_DATA; `bench` rewrites benchmarks/latest.json, `bench-check` compares with it.
bench: .venv/installed
	$(BIN)/python -m benchmarks.speed

bench-check: .venv/installed
	$(BIN)/python -m benchmarks.speed --check --cases 'cora/gcn/*' 'cora/gcn-amortised/*'

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The demo needs the package alone; tests, lint and benchmarks need the rest too.
.venv/package: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

.venv/installed: .venv/package
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
