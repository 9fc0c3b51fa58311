# Every target sets up what it needs by itself: a .venv at the root, from uv.lock.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.ready-demo

# Compiled modules are written once, at the installation: every later start is faster by seconds.
export UV_COMPILE_BYTECODE := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check site compiled suites ibis dbt regress django clients bench soak manifests format proto clean
help:            ## show the targets
	@grep -E '^[a-z]+: .*##|^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

$(BIN)/uv:
	@sh tools/make-venv.sh $(PYTHON) $(VENV)

$(DEMO): $(BIN)/uv pyproject.toml uv.lock
	@$(BIN)/uv sync --quiet --frozen --inexact --extra server --extra dev
	@touch $(DEMO)

$(READY): $(DEMO)
	@$(BIN)/uv sync --quiet --frozen --inexact --extra server --extra dev --extra spark --extra docs
	@touch $(READY)

demo: $(DEMO)    ## the main job on the embedded default: load flights, query, kill, lose nothing
	@$(BIN)/python examples/demo.py

# SQLAlchemy's older line, beside the one in uv.lock.
OLDER := $(VENV)/sqlalchemy-2.0/.ready
$(OLDER): $(READY) tests/sqlalchemy/requirements-2.0.txt
	@rm -rf $(VENV)/sqlalchemy-2.0
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(VENV)/sqlalchemy-2.0 \
		-r tests/sqlalchemy/requirements-2.0.txt
	@touch $(OLDER)

# Tools that pin what they need: an environment each, with this checkout in those that use it.
AIRFLOW := $(VENV)/airflow/.ready
CHECKS  := $(VENV)/great-expectations/.ready
IBIS    := $(VENV)/ibis/.ready
$(AIRFLOW): $(READY) tests/airflow/requirements.txt
$(CHECKS): $(READY) tests/great_expectations/requirements.txt
$(IBIS): $(READY) tests/ibis/requirements.txt
$(AIRFLOW) $(CHECKS) $(IBIS):
	@rm -rf $(@D)
	@$(BIN)/uv venv --quiet --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python -r $(filter %/requirements.txt,$^)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python --no-deps -e ./client -e .
	@touch $@

# dbt pins many packages: it, its test suite for adapters and our adapter have an environment of their own.
DBT := $(VENV)/dbt/.ready
$(DBT): $(READY) tests/dbt/requirements.txt $(shell find orchestration/dbt_herdpy -type f -not -name '*.pyc')
	@rm -rf $(VENV)/dbt
	@$(BIN)/uv venv --quiet --python $(BIN)/python $(VENV)/dbt
	@$(BIN)/uv pip install --quiet --python $(VENV)/dbt/bin/python -r tests/dbt/requirements.txt
	@$(BIN)/uv pip install --quiet --python $(VENV)/dbt/bin/python --no-deps --no-build-isolation ./orchestration/dbt_herdpy
	@touch $(DBT)

# Celery and Procrastinate, the peers of the broker's benchmark, have an environment of their own.
PEERS := $(VENV)/broker-peers/.ready
$(PEERS): $(READY) bench/broker_peers/requirements.txt
	@rm -rf $(@D)
	@$(BIN)/uv venv --quiet --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python -r bench/broker_peers/requirements.txt
	@touch $@

test: $(READY) $(OLDER) $(DBT)  ## all tests but the long runs: two at a time, and beside them Spark's and the suites for dialects
	@sh tools/install-postgres.sh
	@sh tools/install-java.sh
	@sh tools/install-chromium.sh
	@$(BIN)/python -m herdpy.testing >/dev/null
	$(BIN)/python tools/run_tests.py

check: $(READY)  ## ruff, mypy --strict, import rules, figures of the structure, the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -q tests/house
	@$(MAKE) --no-print-directory site

site: $(READY)   ## the documentation as a site, in out/site; a broken link or a page outside of the nav is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

suites: $(OLDER) ## the suites for dialects: SQLAlchemy 2.1 on a directory, 2.0 on a server, and Alembic's
	$(BIN)/python tests/sqlalchemy/run.py --listed
	PYTHONPATH=$(CURDIR)/$(VENV)/sqlalchemy-2.0 $(BIN)/pytest -q -n 0 tests/sqlalchemy/test_aio_dialect.py

ibis: $(IBIS)    ## ibis' own suite of backends on HerdPy and on PostgreSQL, compared with what passed before
	@sh tools/install-postgres.sh
	$(BIN)/python tests/ibis/run.py

dbt: $(DBT)      ## dbt's test suite for adapters, with dbt in an environment of its own
	$(BIN)/python tests/dbt/run.py

regress: $(READY) ## PostgreSQL's own regression scripts on HerdPy and on PostgreSQL, statement by statement
	@sh tools/install-postgres.sh
	$(BIN)/python tests/suites/run.py regress

# Django and psycopg as Django's tests want them: an environment of their own.
DJANGO := $(VENV)/suites/django/.ready
$(DJANGO): $(READY) tests/suites/requirements-django.txt
	@rm -rf $(@D)
	@$(BIN)/uv venv --quiet --seed --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python -r tests/suites/requirements-django.txt
	@touch $@

django: $(DJANGO) ## Django's own tests on PostgreSQL and on HerdPy, an app at a time
	@sh tools/install-postgres.sh
	$(BIN)/python tests/suites/run.py django

clients: $(READY) ## the tests of psycopg and asyncpg on PostgreSQL and on HerdPy
	@sh tools/install-postgres.sh
	$(BIN)/python tests/suites/run.py psycopg
	$(BIN)/python tests/suites/run.py asyncpg

bench: $(READY) $(PEERS)  ## measure against sqlite3, PostgreSQL, DuckDB and BookKeeper's Java client, in the same runs
	$(BIN)/python bench/embedded.py
	$(BIN)/python bench/serving.py
	$(BIN)/python bench/frames.py
	@sh tools/install-postgres.sh
	$(BIN)/python bench/server.py
	$(BIN)/python bench/sql.py
	@sh tools/install-java.sh
	$(BIN)/python bench/bookkeeper.py
	$(BIN)/python bench/cluster.py
	$(BIN)/python bench/driver.py
	$(BIN)/python bench/backup.py
	$(BIN)/python bench/spark.py
	@sh tools/install-redis.sh
	$(BIN)/python bench/broker.py

soak: $(READY) $(OLDER) $(AIRFLOW) $(CHECKS) $(IBIS) $(DBT) $(PEERS) $(DJANGO)  ## long runs: hundreds of kills, thousands of seeds, dialects' suites on every database
	@sh tools/install-postgres.sh
	@sh tools/install-java.sh
	@sh tools/install-chromium.sh
	@sh tools/install-containers.sh
	@sh tools/install-redis.sh
	@$(BIN)/python -m herdpy.testing >/dev/null
	$(BIN)/pytest -q -m soak --timeout 7200
	HERDPY_EXAMPLES=2000 $(BIN)/pytest -q -m "hypothesis and not soak and not spark" --timeout 7200
	$(BIN)/python tests/sqlalchemy/run.py --rest
	$(BIN)/python tests/ibis/run.py
	$(BIN)/python tests/dbt/run.py
	$(BIN)/python tests/suites/run.py regress
	$(BIN)/python tests/suites/run.py django
	$(BIN)/python tests/suites/run.py psycopg
	$(BIN)/python tests/suites/run.py asyncpg

manifests: $(READY) ## render deploy/kubernetes of the chart, and copy conf/ into the chart
	$(BIN)/python tools/make_manifests.py $$(sh tools/install-kubernetes-tools.sh | tail -n 1)/bin/helm

format: $(READY) ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compiled: $(READY) ## compile the hot modules in place (5 minutes); HERDPY_PURE=1 runs their sources nevertheless
	$(BIN)/python tools/compile_modules.py

proto: $(READY)  ## generate the protobuf modules again
	$(BIN)/python tools/generate_proto.py

clean:           ## remove the environment and caches
	$(PYTHON) tools/compile_modules.py --remove
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
