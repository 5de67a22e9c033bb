# Two commands: `make study` runs the paper's curvature study on this machine, `make test` checks everything;
# `make check` is for between two edits: lint, types, and the package's tests that start neither Ray, W&B nor a browser.
PYTHON ?= python3
BIN := .venv/bin
STUDY := results/curvature_bottleneck

.PHONY: study test check lint slow clean

study: .venv/ready
	$(BIN)/raypfrl sweep tune_configs/curvature_bottleneck.py --out $(STUDY)
	$(BIN)/python -m analysis figures curvature_bottleneck --results results --out $(STUDY)
	$(BIN)/python -m analysis report $(STUDY)

test: lint
	$(BIN)/pytest -q -n 2 --dist loadfile

check: lint
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not ray and not slow" --ignore tests/analysis --ignore tests/tracking

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

slow: .venv/ready
	$(BIN)/pytest -q -n 2 --dist loadfile -m "slow or not slow"

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "raypfrl needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv
