# make          what there is to do
# make test     what continuous integration runs

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install test storms check lint fast-tests kills demo bench soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## the virtual environment .venv, with situ and its tools in it

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "situ needs Python 3.11 or newer, and finds none: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "situ needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

test: $(INSTALLED) ## lint, all tests, some of Spark's once more on Spark Connect, and the kernel's without the JIT
	$(BIN)/python tests/lanes.py

storms: $(INSTALLED) ## before an issue is resolved: experiments, long sweeps and kills, which make test leaves out
	$(BIN)/python -m pytest -m "storm or kills"

check: lint fast-tests ## before every commit: lint and the tests that are not slow

lint: $(INSTALLED) ## style, types, and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fast-tests: $(INSTALLED)
	$(BIN)/python -m pytest -m "not slow and not storm and not kills"

kills: $(INSTALLED) ## exactly once: streaming queries that are killed again and again
	$(BIN)/python -m pytest tests/runtime/spark -m kills

demo: $(INSTALLED) ## twenty minutes of traffic in Ingolstadt, on Spark: tables and a map
	$(BIN)/python examples/traffic/demo.py

bench: $(INSTALLED) ## situ beside FlinkCEP (needs a JDK 17), and how situ grows
	$(BIN)/python -m situ.bench

soak: $(INSTALLED) ## 20 million events with ever-new keys through one streaming query: is its state flat?
	$(BIN)/python -m situ.bench.soak

clean: ## remove the virtual environment and everything that was made
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
