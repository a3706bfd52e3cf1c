# Every target makes its own environment in .venv; nothing needs to be installed before.
# For another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Byte code is made of what is imported, when it is: half of what pip would compile never is.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
OUT ?= out

# Agents and workers are processes of their own: without byte code kept, each would compile all anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run demo test coverage test-slow test-chaos torture mutants fuzz soak matrix check bench bench-gpu docs notebooks clean

run: $(VENV)/.base
	$(BIN)/coopbandits reproduce --out $(OUT)

# Six real agents, a minute, one kill; then a figure in $(OUT)/demo.
demo: $(VENV)/.demo
	$(BIN)/coopbandits demo --out $(OUT)/demo $(DEMO)

# Tests come in tiers, by their marks:
#   make test       everything unmarked: units, contracts, a covering set of every product, a smoke test per slow feature
#   make test-slow  marked `slow`: full products, oracles, statistics, browsers, notebooks; SHARD=2/4 for a part
#   make coverage   lines and branches of what plays nothing (marked `plays`); all of `core`, 90 % of the rest
#   make test-chaos, soak, mutants, torture, fuzz, matrix: each a table of its own, see CONTRIBUTING
#   make check      formatting, lint, types, imports; runs beside the preparation of `make test`
# Many tests wait for real agents and processes, so there are more workers than cores; workers take
# tests from each other at the end. Byte code and kernels are compiled once, not by every worker.
# Threads of kernels sleep while they wait: where others use the cores, spinning takes most of the time.
PYTEST = $(BIN)/python -m pytest -n 3 --dist worksteal
STARTED := $(shell date +%s)
TOOK = seconds=$$(($$(date +%s) - $(STARTED))); echo "make $@ took $$((seconds / 60)) min $$((seconds % 60)) s"

test test-slow coverage: export OPENBLAS_NUM_THREADS = 1
test test-slow coverage: export OMP_WAIT_POLICY = passive
test: $(VENV)/.dev
	$(MAKE) -j2 check $(VENV)/.kernels
	$(PYTEST) --durations=20
	@$(TOOK)

test-slow: $(VENV)/.dev $(VENV)/.kernels
	$(PYTEST) -m slow -v -rP --durations=50 $(if $(SHARD),--shard $(SHARD))
	@$(TOOK)

# Counting lines while agents play, or while kernels are compiled, takes minutes: agents of `core` are
# covered by their own tests.
OTHERS = adapters cli dashboard demo evaluate experiments fleet literature network page plots problems results sim testing theory
UNPLAYED = $(PYTEST) -m "not plays and not slow and not chaos"

coverage: $(VENV)/.dev $(VENV)/.kernels
	$(UNPLAYED) tests/core --cov=coopbandits.core --cov-fail-under=100
	$(UNPLAYED) tests --ignore=tests/core $(OTHERS:%=--cov=coopbandits.%) --cov-fail-under=90
	@$(TOOK)

# Real agents in network namespaces, for ten minutes; COOPBANDITS_CHAOS_SECONDS tells otherwise.
test-chaos: $(VENV)/.dev
	$(BIN)/python -m pytest -m chaos -s tests/chaos

# A virtual fleet in which everything goes wrong: SEEDS=1000 FROM=100 POLICY=tree-ts WORKERS=2, and
# ARGS for all else, such as ARGS="--seed 7 --trace"; see `python -m tests.torture --help`.
torture: $(VENV)/.dev
	$(BIN)/python -m tests.torture $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FROM),--first $(FROM)) \
		$(if $(POLICY),--policy '$(POLICY)') $(if $(WORKERS),--workers $(WORKERS)) $(ARGS)

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants.hunt

# Seconds for each of the targets frames, messages, journal, toml and http; TARGETS="http" for some.
fuzz: FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS) $(TARGETS)

# Three agents at 100 pulls a second each: memory, descriptors and journals must stay flat.
soak: SECONDS ?= 3600
soak: $(VENV)/.dev
	COOPBANDITS_SOAK_SECONDS=$(SECONDS) $(BIN)/python -m pytest -m slow -s tests/soak

$(VENV)/.fuzz: $(VENV)/.dev
	$(PIP) atheris || echo "atheris does not install here; hypothesis takes its place"
	touch $@

# Installs wheels into clean environments of every Python here, and tries them; PYTHONS="3.12 3.13"
# for some, SUITE=--suite to run the tests in each as well.
matrix: $(VENV)/.matrix
	$(BIN)/python -m tests.install.matrix $(SUITE) $(if $(PYTHONS),--python $(PYTHONS))

$(VENV)/.matrix: $(VENV)/.dev
	$(PIP) pipx uv
	touch $@

$(VENV)/.kernels: $(VENV)/.dev $(shell find src -name '*.py')
	$(BIN)/python -m pytest --collect-only -q >$@.log 2>&1 || { cat $@.log; exit 1; }
	$(BIN)/python -m tests.compile_kernels
	touch $@

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# BESIDE names a checkout, or the Python, of another version, for load over HTTP; ARGS="--engine"
# for a part, see `python -m benchmarks --help`.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(if $(BESIDE),--beside $(BESIDE)) $(ARGS)

# The GPU engine against the CPU engine, and its times; needs a CUDA device. With COOPBANDITS_GPU=
# emulated it goes without one, slowly. CASES="W1 W2" for some.
bench-gpu: $(VENV)/.dev
	[ "$$COOPBANDITS_GPU" = emulated ] || $(PIP) --editable '.[gpu]'
	$(BIN)/python -m benchmarks.gpu $(CASES)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Executes examples/*.ipynb and writes them as pages, which `make docs` takes as they are.
notebooks: $(VENV)/.dev
	$(BIN)/python docs/notebooks/render.py

clean:
	rm -rf .venv $(OUT) docs/_build

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "coopbandits needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python pyproject.toml
	$(PIP) --editable . ./packages/complete
	touch $@

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(PIP) --editable '.[simulation,fleet]'
	$(PIP) --no-deps ./packages/complete
	touch $(VENV)/.base $@

$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps ./packages/complete  # by itself: older pips do not see that its needs are met
	touch $(VENV)/.base $(VENV)/.demo $(VENV)/.docs $@
