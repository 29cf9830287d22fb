# Every entry to the project. `make demo` and `make test` set up all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := python -m pip install --quiet --disable-pip-version-check
KERNEL := $(wildcard src/levada/records/*.pyx src/levada/records/*.pxd src/levada/records/*.pxi src/levada/records/*.h src/levada/broker/*.pyx src/levada/client/producer/*.pyx)

.PHONY: install demo tour check test lint fmt sim soak fuzz bench bench-ab interop docs site pythons coverage release-check clean

install: $(STAMP)

$(STAMP): pyproject.toml setup.py requirements/dev.lock $(KERNEL)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Levada needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo 'Installing Levada and all that its tests need, Spark and a Java too, into $(VENV): 1.5 GB, a minute or two.'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/$(PIP) -r requirements/dev.lock
	@$(BIN)/$(PIP) --no-build-isolation --no-deps --editable .
	@# Spark starts many short-lived Pythons, and each would compile what it loads.
	@$(BIN)/python -m compileall -q src
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m examples.shop $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE))

tour: $(STAMP)
	$(BIN)/python examples/tour.py

check: $(STAMP)
	$(BIN)/python -m tests.run lint tidy unit scenarios

test: $(STAMP)
	$(BIN)/python -m tests.run

sim: $(STAMP)
	$(BIN)/python -m levada.sim --count $(or $(SEEDS),200)
	$(BIN)/python -m levada.sim --scenario groups --count $(or $(SEEDS),50)
	$(BIN)/python -m levada.sim --scenario transactions --count $(or $(SEEDS),50)
	$(BIN)/python -m levada.sim --scenario clients --count $(or $(SEEDS),50)
	$(BIN)/python -m levada.sim --scenario members --count $(or $(SEEDS),50)

soak: $(STAMP)
	$(BIN)/python -m tests.soak $(if $(NEW),--new) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz.fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

bench: $(STAMP)
	$(BIN)/python -m benchmarks.codec --json benchmarks/results/codec.json
	$(BIN)/python -m benchmarks.records --json benchmarks/results/records.json
	$(BIN)/python -m benchmarks.log --json benchmarks/results/log.json
	$(BIN)/python -m benchmarks.groups --json benchmarks/results/groups.json
	$(BIN)/python -m benchmarks.transactions --json benchmarks/results/transactions.json
	$(BIN)/python -m benchmarks.compaction --json benchmarks/results/compaction.json
	$(BIN)/python -m benchmarks.clients --json benchmarks/results/clients.json
	$(BIN)/python -m benchmarks.client_defaults --json benchmarks/results/client_defaults.json
	$(BIN)/python -m benchmarks.spark --json benchmarks/results/spark.json
	$(BIN)/python -m benchmarks.micro_batches --json benchmarks/results/micro_batches.json
	$(BIN)/python -m benchmarks.cluster --json benchmarks/results/cluster.json
	$(BIN)/python -m benchmarks.broker --json benchmarks/results/broker.json --plot benchmarks/results/broker.svg

interop: $(STAMP)
	$(BIN)/python -m pytest -q -rs tests/interop

bench-ab: $(STAMP)
	$(BIN)/python -m benchmarks.ab --base $(BASE)

docs: $(STAMP)
	$(BIN)/python -m tools.compatibility
	$(BIN)/python -m tools.configuration
	$(BIN)/python -m tools.client_configuration
	$(BIN)/python -m tools.flags
	$(BIN)/python -m tools.pipeline_keys

site: .venv-site/.installed
	.venv-site/bin/python -m tools.docs_site

pythons:
	$(PYTHON) -m tools.pythons $(ONLY)

coverage: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q tests/unit tests/scenarios
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover
	@echo "The quick tests run $$($(BIN)/coverage report --format=total) % of the lines and branches of src/levada."

release-check: .venv-release/.installed
	.venv-release/bin/python -m tools.release_check

# Tools that only one target needs have an environment of their own.
.venv-%/.installed: requirements/%.lock
	@test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/$(PIP) -r requirements/$*.lock
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .venv-* build dist site .coverage* src/*.egg-info src/levada/records/_*.c src/levada/records/*.so src/levada/broker/_*.c src/levada/broker/*.so src/levada/client/producer/_*.c src/levada/client/producer/*.so .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis levada-data levada-cluster
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
