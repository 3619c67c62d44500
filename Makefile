# Two commands do everything on a fresh machine with Python 3.11+: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
SECONDS ?= 300
TEST_WORKERS ?= 2

.PHONY: help demo test test-oldest lint format docs package bench fuzz soak clean

help:
	@echo "make demo   set up, train on data that comes with scikit-learn, print certificates, draw demo.png"
	@echo "make test   set up, lint, type-check, build the package and run every test"
	@echo "make test-oldest  every test with exactly the lower bounds of pyproject.toml, in .venv-oldest"
	@echo "make lint   ruff and mypy"
	@echo "make docs   build the documentation site, warnings as errors, and test its pages: docs/_build/html/index.html"
	@echo "make package  build the wheel and the source archive and check them, in dist"
	@echo "make fuzz   mutated files for every reader and command, for SECONDS (300), going on where the last run ended"
	@echo "make soak   random problems against exact arithmetic, and kills, for SECONDS (300) each, going on likewise"
	@echo "make bench  every benchmark; needs the data folder (see benchmarks/README.md)"

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/demo.py

test: lint package
	$(BIN)/python -m pytest -n $(TEST_WORKERS)

test-oldest: $(OLDEST)/test.stamp
	$(OLDEST)/bin/python -m pytest -p no:cacheprovider

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python -m pytest tests/test_site.py

package: $(VENV)/test.stamp
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks.dcd_algorithm
	$(BIN)/python -m benchmarks.linear_fit
	$(BIN)/python -m benchmarks.linear_grid
	$(BIN)/python -m benchmarks.raw_data
	$(BIN)/python -m benchmarks.limits
	$(BIN)/python -m benchmarks.small_fits
	$(BIN)/python -m benchmarks.crammer_singer
	$(BIN)/python -m benchmarks.sparse_models
	$(BIN)/python -m benchmarks.many_labels
	$(BIN)/python -m benchmarks.files
	$(BIN)/python -m benchmarks.footprint
	$(BIN)/python -m benchmarks.first_fit
	$(BIN)/python -m benchmarks.papers.dual_coordinate_descent
	$(BIN)/python -m benchmarks.papers.adaptive_variable_selection_frequencies
	$(BIN)/python -m benchmarks.papers.bounds_on_change_in_the_margin
	$(BIN)/python -m benchmarks.papers.safe_screening
	$(BIN)/python -m benchmarks.papers.irwls_svc
	$(BIN)/python -m benchmarks.certified_predictions
	$(BIN)/python -m benchmarks.kernel_fit
	$(BIN)/python -m benchmarks.kernel_predict
	$(BIN)/python -m benchmarks.kernel_multiclass
	$(BIN)/python -m benchmarks.kernel_memory
	$(BIN)/python -m benchmarks.regimes
	$(BIN)/python -m benchmarks.out_of_core
	$(BIN)/python -m benchmarks.dask_fits

fuzz: $(VENV)/test.stamp
	$(BIN)/python -m fuzz.run --seconds $(SECONDS)

soak: $(VENV)/test.stamp
	$(BIN)/python -m fuzz.soak --seconds $(SECONDS)
	$(BIN)/python -m fuzz.soak --kills --seconds $(SECONDS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[plots]"
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,onnx,dask,publish,dev]"
	@touch $@

$(VENV)/docs.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

$(OLDEST)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/oldest.py > $(OLDEST)/pins.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $(OLDEST)/pins.txt -e .
	@touch $@

$(VENV)/bench.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .cache dist build docs/_build docs/auto_examples docs/api/generated docs/api/backreferences docs/benchmarks/results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
