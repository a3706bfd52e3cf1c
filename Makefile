# Every target makes its own environment in .venv; nothing needs to be installed before.
PYTHON ?= python3
BIN := .venv/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
OUT ?= out

# Agents and workers are processes of their own: without byte code kept, each would compile all anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run test test-slow check bench docs clean

run: .venv/.base
	$(BIN)/coopbandits reproduce --out $(OUT)

# Agents are measured by their own tests alone, kernels compiled before, and what plays most is played
# apart: to count lines while agents play, or while kernels are compiled, takes minutes.
OTHERS = cli experiments fleet network plots problems results sim testing theory
PLAYED = tests/testing $(wildcard tests/core/test_naive*.py tests/sim/test_*engines.py) \
         tests/sim/test_equalities.py tests/sim/test_determinism.py tests/sim/test_shuffle.py \
         tests/sim/test_oracles.py tests/sim/test_faults.py tests/sim/test_asynchronous.py \
         tests/fleet/test_equality.py tests/fleet/test_trouble.py tests/fleet/protocol/test_frames.py
REST = $(PLAYED:%=--ignore=%)

test: export OPENBLAS_NUM_THREADS = 1
test: .venv/.dev
	$(MAKE) -j2 check .venv/.kernels
	$(BIN)/python -m pytest -n 2 $(PLAYED)
	$(BIN)/python -m pytest -n 2 tests/core $(REST) --cov=coopbandits.core --cov-fail-under=100
	$(BIN)/python -m pytest -n 2 tests --ignore=tests/core $(REST) $(OTHERS:%=--cov=coopbandits.%) --cov-fail-under=90

test-slow: .venv/.dev
	$(BIN)/python -m pytest -m slow -s

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
