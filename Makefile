# make test   a virtual environment with everything, then lint, types and tests
# make demo   an autoencoder on real digits: SFO beside L-BFGS and Adam (under two minutes)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The optimizer's own algebra is small: more threads than one make it slower.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: test lint types unit demo convergence clean

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/python -m pytest -n 2

demo: $(VENV)/.bench
	$(BIN)/python examples/digits.py

convergence: $(VENV)/.bench
	$(BIN)/python -m benchmarks.convergence

$(VENV)/.test $(VENV)/.bench: $(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
