# Two commands do it all: `make story` and `make test`. Both set up what they need in .venv and reuse it.
PYTHON ?= python3
PROMPT ?= The fox who lost his hat
export PROMPT
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: story test check docs clean

story: .venv/story.ready
	@$(BIN)/discodvt generate --show-plan --best-of 8 "$$PROMPT"

test: .venv/dev.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

check: .venv/dev.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/make_cli.py --check

docs: .venv/dev.ready
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_picture.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "discodvt needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/story.ready: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable .
	@touch $@

.venv/dev.ready: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable '.[dev]'
	@touch $@ .venv/story.ready
