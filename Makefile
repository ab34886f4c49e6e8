# One command each. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	"$$p" -c '$(SUPPORTED)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --no-input
WORKERS ?= 2
ARGS ?=

.PHONY: help install java demo test lint format bench docs clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.warm ## virtual environment from the pins, the package, warm kernels

java: # Spark runs on it; installed where that can be done without asking
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing Java, which Spark runs on"; \
			apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends openjdk-17-jre-headless >/dev/null; \
		else \
			echo "Spark needs Java 17 or newer, and none was found; install one (Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; \
		fi; }

demo: install ## two live streams joined before your eyes (about ten seconds)
	@$(BIN)/slidejoin demo $(ARGS)

test: install java ## every test, in parallel (ARGS="-k band" to choose)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q $(ARGS)

lint: install ## style, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: install ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## measure on this machine (ARGS=--list to see the programs)
	$(BIN)/slidejoin bench $(ARGS)

docs: install ## run every example and follow every link of README and docs/
	$(BIN)/python -m pytest -q tests/test_docs.py $(ARGS)

clean: ## remove what the commands above made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a second call does nothing until the pins, the metadata or the kernels change.
$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 to 3.13 found; install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV) || { echo "could not create $(VENV); on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.python requirements/base.txt requirements/dev.txt requirements/spark.txt pyproject.toml
	@echo "installing the pinned dependencies and slidejoin into $(VENV)"
	@$(PIP) install -r requirements/spark.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.warm: $(VENV)/.installed $(wildcard src/slidejoin/kernels/*.py)
	@$(BIN)/python -m slidejoin.kernels
	@touch $@

$(VENV)/.bench: $(VENV)/.warm requirements/bench.txt
	@$(PIP) install -r requirements/bench.txt
	@touch $@
