# `make demo` runs the main job, `make test` the whole suite; both make .venv first and are safe to repeat.
PYTHON ?= python3
BIN := .venv/bin
FEDBALLOT := $(BIN)/fedballot

.PHONY: demo test check clean

demo: .venv/demo
	rm -rf runs/demo
	$(FEDBALLOT) run pate-fl --preset demo --out runs/demo

test: .venv/test
	$(BIN)/python -m pytest

check: .venv/test
	$(BIN)/ruff check fedballot tests benchmarks
	$(BIN)/ruff format --check fedballot tests benchmarks
	$(BIN)/mypy

.venv/pip: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedballot needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv || { echo 'no venv module: apt-get install python3-venv' >&2; exit 1; }
	$(BIN)/python -m pip install -q --upgrade pip
	touch $@

.venv/demo: .venv/pip
	$(BIN)/python -m pip install -q --no-compile -e '.[torch,demo]'
	touch $@

.venv/test: .venv/pip
	$(BIN)/python -m pip install -q --no-compile -e '.[torch,dev]'
	touch $@ .venv/demo

clean:
	rm -rf .venv runs build dist *.egg-info
