# make          what there is to do
# make test     what continuous integration runs

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

# The releases of Spark that `make sparks` runs on, each in an environment of its own; 3.5 is to be refused.
RELEASES := 3.5 4.0 4.1 4.2 4.3
ON_SPARK := tests/runtime/spark
BATCHES := tests/sparks/test_older_sparks.py $(addprefix $(ON_SPARK)/test_,versions.py workers.py session.py errors.py detect.py detection.py catalyst.py)
STREAMS := $(addprefix $(ON_SPARK)/test_,detect_stream.py stream_sinks_spark.py kafka.py mqtt_spark.py mqtt_writer.py mqtt_without_limits.py)

.DEFAULT_GOAL := help
.PHONY: help install test storms check lint fast-tests kills sparks connect client cluster $(RELEASES:%=spark-%) demo bench soak clean

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

test: $(INSTALLED) ## lint, all tests but the long ones, and the kernel's once more without the JIT
	$(BIN)/python tests/lanes.py

storms: $(INSTALLED) ## before a release: experiments, long sweeps and kills, which make test leaves out
	$(BIN)/python -m pytest -m "storm or kills"

check: lint fast-tests ## before every commit: lint and the tests that are not slow

lint: $(INSTALLED) ## style, types, and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fast-tests: $(INSTALLED)
	$(BIN)/python -m pytest -m "not slow and not storm and not kills and not environments"

kills: $(INSTALLED) ## exactly once: streaming queries that are killed again and again
	$(BIN)/python -m pytest tests/runtime/spark -m kills

sparks: $(RELEASES:%=spark-%) connect client ## chosen tests on each release of Spark, and on Spark Connect

spark-3.5: .venvs/spark-3.5/.installed
	.venvs/$@/bin/python -m pytest tests/sparks/test_older_sparks.py

spark-4.0: .venvs/spark-4.0/.installed
	.venvs/$@/bin/python -m pytest $(BATCHES)

spark-4.1 spark-4.2 spark-4.3: spark-4.%: .venvs/spark-4.%/.installed
	.venvs/$@/bin/python -m pytest $(BATCHES) $(STREAMS)

connect: $(INSTALLED)
	SPARK_REMOTE='local[2]' $(BIN)/python -m pytest tests/runtime/spark tests/conformance -m "connect and not kills"

client: $(INSTALLED) .venvs/client/.installed
	$(BIN)/python -m pytest tests/sparks/test_thin_client.py

cluster: $(INSTALLED) .venvs/environment.tar.gz ## an environment that is shipped to a master and two workers
	$(BIN)/python -m pytest tests/sparks/test_cluster.py

.venvs/spark-3.5/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable . 'pyspark==3.5.*' pytest
	@touch $@

.venvs/spark-4.%/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 'pyspark[connect]==4.$*.*'
	@touch $@

.venvs/client/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[spark-client]'
	@touch $@

# As docs/production.md says it: not editable, with what Spark's workers need, and with Numba's cache filled.
.venvs/environment.tar.gz: pyproject.toml $(shell find src -name '*.py')
	$(PYTHON) -m venv .venvs/environment
	.venvs/environment/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps .
	.venvs/environment/bin/python -m pip install --quiet --disable-pip-version-check . 'pandas<3' protobuf
	.venvs/environment/bin/situ run examples/kafka/braking.situ --source Vehicle=examples/traffic/vehicles.parquet --engine embedded --limit 0
	tar --format=posix -czf $@ -C .venvs/environment .

demo: $(INSTALLED) ## twenty minutes of traffic in Ingolstadt, on Spark: tables and a map
	$(BIN)/python examples/traffic/demo.py

bench: $(INSTALLED) ## situ beside FlinkCEP (needs a JDK 17), and how situ grows
	$(BIN)/python -m situ.bench

soak: $(INSTALLED) ## 20 million events with ever-new keys through one streaming query: is its state flat?
	$(BIN)/python -m situ.bench.soak

clean: ## remove the virtual environment and everything that was made
	rm -rf .venv .venvs out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
