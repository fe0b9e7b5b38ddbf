# The commands set up what they need, in virtual environments of their own.
PYTHON ?= python3
BIN = $(if $(filter Windows_NT,$(OS)),Scripts,bin)
RUN = .venv/$(BIN)/python

.PHONY: help demo test test-all test-core test-oldest docs bench release-check format clean

help:
	@echo "make demo           compare all methods on halves of handwritten digits; writes build/demo/report.html"
	@echo "make test           style, types, layers and tests"
	@echo "make test-all       the same, and then fuzzing, kills, clusters, browsers, pages and other slow tests"
	@echo "make test-core      the tests that need neither faiss, torch nor a browser"
	@echo "make test-oldest    the tests with the oldest supported releases of the dependencies"
	@echo "make docs           the documentation site, with all examples run; writes build/docs/index.html"
	@echo "make bench          speed and memory; writes benchmarks/README.md (a quarter of an hour)"
	@echo "make release-check  build the distributions into dist, check them, and run the README's code with the wheel alone"
	@echo "make format         put the code in shape"
	@echo "make clean          remove environments and what was built"

demo: .venv/demo
	.venv/$(BIN)/crossview compare --output build/demo

test: .venv/test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	.venv/$(BIN)/lint-imports
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal -m "not exhaustive"

test-all: test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal -m exhaustive

test-core: .venv/test-core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal

test-oldest: .venv-oldest/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-oldest/$(BIN)/python -m pytest -n auto --dist worksteal

docs: .venv/docs
	$(RUN) -m sphinx --fail-on-warning --keep-going --builder html docs build/docs

release-check: .venv/release
	rm -rf dist build/release
	$(RUN) -m pytest -q tests/test_release.py
	$(RUN) -m build  # the wheel is built from the sdist
	$(RUN) -m twine check --strict dist/*
	.venv/$(BIN)/check-wheel-contents dist
	$(RUN) scripts/check_distributions.py dist
	$(PYTHON) -m venv build/release
	build/release/$(BIN)/python -m pip install --quiet --upgrade pip
	build/release/$(BIN)/python -m pip install --quiet dist/*.whl
	build/release/$(BIN)/python -m pip check
	build/release/$(BIN)/python -I tests/code_blocks.py README.md

bench: .venv/test
	$(RUN) benchmarks/run.py

format: .venv/test
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

clean:
	rm -rf .venv .venv-oldest build dist docs/api docs/benchmarks docs/gallery .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

.venv/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crossview needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --upgrade pip
	@touch $@

.venv/demo: .venv/pip pyproject.toml
	$(RUN) -m pip install --quiet --editable '.[cli,onnx]'
	@touch $@

.venv/test: .venv/pip pyproject.toml
	$(RUN) -m pip install --quiet --editable . --group test --group peers
	@touch $@

.venv/test-core: .venv/pip pyproject.toml
	$(RUN) -m pip install --quiet --editable . --group test-core
	@touch $@

.venv/docs: .venv/pip pyproject.toml
	$(RUN) -m pip install --quiet --editable . --group docs
	@touch $@

.venv/release: .venv/pip pyproject.toml
	$(RUN) -m pip install --quiet --editable . --group release
	@touch $@

.venv-oldest/test: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/$(BIN)/python -m pip install --quiet --upgrade pip
	.venv-oldest/$(BIN)/python -m pip install --quiet --editable . --group test --constraint tests/oldest.txt
	@touch $@
