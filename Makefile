# Everything runs in .venv, which `setup` makes; PYTHON picks the interpreter that makes it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup constraints format lint test golden calibration bench docs check

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(BIN)/.complete ## install meshplan and its tools into .venv

$(BIN)/.complete: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	touch $@

constraints: ## resolve the newest dependencies and pin them in constraints.txt
	rm -rf build/resolve && $(PYTHON) -m venv build/resolve
	build/resolve/bin/python $(PIP) '.[dev]'
	build/resolve/bin/python -m pip freeze --exclude meshplan > constraints.txt

format: setup ## rewrite the sources in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup ## formatting, lint, types, package layers, Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

test: setup ## run the tests; ARGS adds pytest options
	$(BIN)/python -m pytest $(ARGS)

golden: setup ## rewrite tests/golden from the current model; review the diff
	$(BIN)/python -m pytest tests/golden --rewrite-golden

calibration: setup ## fit the shipped calibrations to calibration/runs (six minutes); review the diff
	$(BIN)/python scripts/calibrate_shipped.py

bench: setup ## measure speed; each benchmark prints its own table
	@for file in benchmarks/[a-z]*.py; do $(BIN)/python -m "benchmarks.$$(basename "$$file" .py)" || exit; done

docs: setup ## regenerate the documents that scripts write (the accuracy page takes two minutes)
	@for file in scripts/write_*.py; do [ ! -e "$$file" ] || $(BIN)/python "$$file" || exit; done

check: lint test ## what CI runs: lint, then every test
