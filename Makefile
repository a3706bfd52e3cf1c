# Every target makes its own environment in .venv; nothing needs to be installed before.
PYTHON ?= python3
BIN := .venv/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
OUT ?= out

# Agents and workers are processes of their own: without byte code kept, each would compile all anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run test test-slow test-chaos mutants check bench docs clean

run: .venv/.base
	$(BIN)/coopbandits reproduce --out $(OUT)

# Agents are covered by their own tests alone, kernels are compiled before, and tests marked `plays`
# run apart: counting lines while agents play, or while kernels are compiled, takes minutes. The
# three steps together run what plain `pytest` runs.
OTHERS = cli experiments fleet network plots problems results sim testing theory
PYTEST = $(BIN)/python -m pytest -n 2 --durations=20
STARTED := $(shell date +%s)

test: export OPENBLAS_NUM_THREADS = 1
test: .venv/.dev
	$(MAKE) -j2 check .venv/.kernels
	$(PYTEST) -m "plays and not slow and not chaos"
	$(PYTEST) -m "not plays and not slow and not chaos" tests/core --cov=coopbandits.core --cov-fail-under=100
	$(PYTEST) -m "not plays and not slow and not chaos" tests --ignore=tests/core $(OTHERS:%=--cov=coopbandits.%) --cov-fail-under=90
	@seconds=$$(($$(date +%s) - $(STARTED))); echo "make test took $$((seconds / 60)) min $$((seconds % 60)) s"

test-slow: .venv/.dev
	$(BIN)/python -m pytest -m slow -s

# Real agents in network namespaces, for ten minutes; COOPBANDITS_CHAOS_SECONDS tells otherwise.
test-chaos: .venv/.dev
	$(BIN)/python -m pytest -m chaos -s tests/chaos

mutants: .venv/.dev
	$(BIN)/python -m tests.mutants.hunt

.venv/.kernels: .venv/.dev $(shell find src -name '*.py')
	$(BIN)/python tests/compile_kernels.py
	touch $@

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.dev
	$(BIN)/coopbandits bench

docs: .venv/.dev
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv $(OUT) docs/_build

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "coopbandits needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/.base: .venv/bin/python pyproject.toml
	$(PIP) --editable .
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(PIP) --editable '.[dev]'
	touch .venv/.base $@
