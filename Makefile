# `make test` on a fresh clone needs nothing but Python 3.11 or newer; it sets up .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt
# Where to look for torch, if not where pip is set up to look. For a small CPU build on Linux:
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
# Two test processes with one thread each are faster than one process whose threads fight over small arrays.
TEST_ENV := OMP_NUM_THREADS=1 MPLBACKEND=Agg

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test unit fuzz test-faults mutants test-slow test-lowest test-without-torch dist lint types bench bench-again docs pictures train clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# torch comes first and by its exact version. A CPU build such as 2.13.0+cpu, from wherever pip is
# set up to look, answers to ==2.13.0 and then satisfies the package's own "torch>=2.4". Any other
# request lets pip choose the default build, which on Linux brings gigabytes of CUDA packages along.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clusterwise needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(PIP) -e '.[all,dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e '.[docs]'
	@touch $@

# Both test processes would compile the same loops otherwise, each for itself.
$(VENV)/.compiled: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -W ignore -c 'import clusterwise as cw; X = cw.datasets.load_demo()[0][:400]; [getattr(cw, one)().fit(X) for one in ("Clusterer", "AMCP", "DPMixture")]'
	@touch $@

demo: $(VENV)/.installed  ## cluster four data sets, draw a picture and write a report
	$(BIN)/python examples/demo.py

# Linters and tests side by side: mypy alone would leave a core idle for half a minute.
test: $(VENV)/.installed  ## lint, types, unit tests and doctests
	@$(MAKE) --no-print-directory -j 2 lint unit

# Each process takes whole files as long as it can, so that what a file sets up is set up once.
unit: $(VENV)/.compiled
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow"

test-slow: $(VENV)/.installed  ## the tests that `make test` leaves out
	$(TEST_ENV) $(BIN)/python -m pytest -q -m slow

# Each in an environment of its own. TESTS="tests/clusterer tests/dp" runs some of them; TORCH=2.13.0 is another torch.
TORCH ?= 2.4.0
TESTS ?= tests

# Old libraries use what is deprecated in newer ones that they do not limit.
test-lowest:  ## the tests with the lowest versions that pyproject.toml names
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(PYTHON) .ci/lowest.py torch > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet torch==$(TORCH) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(VENV)-lowest/bin/python -m pip install --quiet -c $(VENV)-lowest/constraints.txt -e '.[all,test]'
	$(TEST_ENV) $(VENV)-lowest/bin/python -m pytest -q -W ignore::DeprecationWarning -m "not slow" $(TESTS)

test-without-torch:  ## the tests that can do without torch
	$(PYTHON) -m venv --clear $(VENV)-without-torch
	$(VENV)-without-torch/bin/python -m pip install --quiet -c constraints.txt -e '.[cli,report,excel,h5ad,dask,test]'
	! $(VENV)-without-torch/bin/python -c "import torch" 2>/dev/null
	$(TEST_ENV) $(VENV)-without-torch/bin/python -m pytest -q -m "not slow" $(TESTS)

# The wheel is made from the sdist, and tried outside the checkout, where nothing but the wheel can be imported.
dist:  ## build wheel and sdist, check them, and run the demo with the wheel in a new environment
	rm -rf dist
	$(PYTHON) -m venv --clear $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet build twine
	$(VENV)-dist/bin/python -m build
	$(VENV)-dist/bin/python -m twine check --strict dist/*
	@find dist -name '*.whl' -size +9000k -o -size +12000k | grep . && echo "too large: see above" && exit 1 || true
	$(PYTHON) -m venv --clear $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet "$$(echo dist/*.whl)[cli,report]"
	rm -rf build && mkdir -p build/examples && cp examples/demo.py tests/smoke.py build/examples
	cd build && MPLBACKEND=Agg ../$(VENV)-dist/bin/python examples/smoke.py && ../$(VENV)-dist/bin/python examples/demo.py

fuzz: $(VENV)/.compiled  ## read strange files for a while, each in a process of its own; MINUTES=30 SEED=0
	$(TEST_ENV) $(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0) --keep fuzz-found

test-faults: $(VENV)/.compiled  ## killed processes, full disks, read-only places, lost workers, two runs at once
	$(TEST_ENV) $(BIN)/python -m pytest -q tests/faults tests/rows/test_dask_faults.py

mutants: $(VENV)/.compiled  ## changes of core files that no test notices; FILES=src/clusterwise/dp N=50 MINUTES=60
	$(TEST_ENV) $(BIN)/python -m benchmarks.mutants $(FILES) --minutes $(or $(MINUTES),60) $(if $(N),--sample $(N))

lint: $(VENV)/.installed types  ## ruff, the import contracts, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed  ## mypy
	$(BIN)/mypy

bench: $(VENV)/.installed  ## run the benchmarks (hours); NAME=speed for one suite
	$(BIN)/python -m benchmarks $(or $(NAME),all)

bench-again: $(VENV)/.installed  ## repeat the benchmarks that the code has changed since (hours); resumes if interrupted
	$(BIN)/python -m benchmarks all --stale

docs: $(VENV)/.installed-docs  ## build the documentation; warnings are errors
	$(TEST_ENV) $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

pictures: $(VENV)/.installed  ## redraw the pictures of the documentation (minutes)
	for script in docs/pictures/*.py; do $(TEST_ENV) $(BIN)/python $$script || exit 1; done

train: $(VENV)/.installed  ## list the recipes that rebuild the shipped weights
	@for recipe in recipes/*.toml; do echo "$(BIN)/clusterwise train $$recipe"; done

clean:  ## remove what was built, but not .venv
	rm -rf build dist docs/_build docs/api docs/results docs/auto_examples docs/sg_execution_times.rst .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
