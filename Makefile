# Every target makes what it needs; nothing has to be installed before but Python 3.11 or newer.

SHELL := /bin/bash
CANDIDATES := python3 python3.13 python3.12 python3.11
IS_FIT := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(or $(shell for python in $(CANDIDATES); do \
	$$python -c '$(IS_FIT)' 2>/dev/null && echo $$python && break; done),python3)
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --require-hashes
INSTALL := $(BIN)/python $(PIP_INSTALL)
BENCH := .venv-bench/bin/python
BENCH_INSTALL := $(BENCH) $(PIP_INSTALL)
ARGS ?=
DJANGO ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test matrix coverage check format bench bench-profile conformance crash crash-mutants docs proto lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22
	@echo '  Hand arguments on with ARGS, for example: make test ARGS="-k outbox -x"'
	@echo '  With the newest Django:    make test VENV=.venv-next DJANGO=next PYTHON=python3.12'

setup: $(VENV)/.development  ## make .venv with everything that tests and checks need

demo: $(VENV)/.runtime  ## show the product at work: runtime, worker and example shop on this machine
	@$(BIN)/python -m example_project.demo $(ARGS)

test: $(VENV)/.development  ## run the suite on every database that answers
	@$(BIN)/python tests/run.py $(ARGS)

coverage: $(VENV)/.development  ## run the suite and tell which branches it left out
	@$(BIN)/coverage erase
	@ORBIT_TEST_COVERAGE=1 $(BIN)/python tests/run.py $(ARGS)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report

matrix:  ## run the suite under each Python with each line of Django; ARGS="--only 3.13-django-next -x"
	@$(PYTHON) tests/matrix.py $(ARGS)

check: $(VENV)/.development  ## linters, types, import walls, Django's checks, sdist and wheel, the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py check --fail-level WARNING
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python tests/check_package.py
	@$(MAKE) --no-print-directory docs

format: $(VENV)/.development  ## let ruff repair and format what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv-bench/.ready  ## measure the worker beside a hand-written loop and other packages; ARGS="growth --by threads"
	@$(BENCH) -m benchmarks $(ARGS)

bench-profile: .venv-bench/.ready  ## where the worker's time goes, layer by layer
	@$(BENCH) -m benchmarks profile $(ARGS)

conformance: $(VENV)/.development  ## prove each clause of the protocol, and write docs/conformance.md
	@$(BIN)/python -m tests.conformance $(ARGS)

crash: $(VENV)/.development  ## the crash laboratory, on every database that answers; ARGS="--db sqlite --schedules 20"
	@$(BIN)/python -m tests.crash $(ARGS)
	@$(if $(ARGS),true,CRASH_LONG=1 $(BIN)/python tests/run.py tests/crash/test_provider.py)

crash-mutants: $(VENV)/.development  ## break the package on purpose and see that the laboratory notices
	@$(BIN)/python -m tests.crash.mutants $(ARGS)

docs: .venv-docs/.ready  ## build the documentation's site into build/site; a warning is an error
	@.venv-docs/bin/sphinx-build --fail-on-warning --keep-going --quiet --fresh-env \
		-d build/doctrees -b html docs build/site
	@echo "the site is in build/site/index.html"

proto: $(VENV)/.development  ## generate the modules of the gRPC messages again
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
		orbit_django/transports/proto/worker.proto

lock: $(VENV)/.development  ## pin the requirement files again, to the newest versions
	UV=$(abspath $(BIN)/uv) requirements/lock.sh

clean:  ## remove .venv and everything that was made here
	rm -rf $(VENV) .venv-bench .venv-docs .venv-matrix build dist *.egg-info htmlcov .coverage .coverage.* \
		.pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON) here. Install Python 3.11, 3.12 or 3.13, or name it: make PYTHON=/path/to/python3"; \
		exit 1; }
	@$(PYTHON) -c '$(IS_FIT)' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1), but Python 3.11, 3.12 or 3.13 is needed." \
			"Name one: make PYTHON=/path/to/python3.12"; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)

.venv-docs/.ready: requirements/docs.txt | $(BIN)/python
	$(BIN)/python -m venv .venv-docs
	.venv-docs/bin/python $(PIP_INSTALL) -r requirements/docs.txt
	@touch $@

.venv-bench/.ready: requirements/base.txt requirements/postgres.txt requirements/mysql.txt requirements/bench.txt \
		| $(BIN)/python
	$(BIN)/python -m venv .venv-bench
	$(BENCH_INSTALL) -r requirements/base.txt -r requirements/postgres.txt
	@$(BENCH_INSTALL) -r requirements/bench.txt \
		|| $(call left_out,the other packages,they could not be installed from requirements/bench.txt)
	@$(BENCH_INSTALL) --no-build-isolation -r requirements/mysql.txt \
		|| $(call left_out,MariaDB,mysqlclient could not be built)
	@touch $@

$(VENV)/.runtime: requirements/base.txt | $(BIN)/python
	$(INSTALL) -r requirements/base.txt
	@touch $@

$(VENV)/.development: requirements/dev.txt requirements/postgres.txt requirements/mysql.txt pyproject.toml | $(BIN)/python
	$(INSTALL) -r requirements/dev.txt
	@$(INSTALL) -r requirements/postgres.txt || $(call left_out,PostgreSQL,psycopg could not be installed)
	@$(INSTALL) --no-build-isolation -r requirements/mysql.txt \
		|| $(call left_out,MariaDB,mysqlclient could not be built (it needs a C compiler$(comma) pkg-config and libmariadb-dev))
	$(if $(filter next,$(DJANGO)),$(INSTALL) -r requirements/django-next.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.runtime

comma := ,
define left_out
{ echo; \
  echo '!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!'; \
  echo '!!  GOING ON WITHOUT $(1): $(2).'; \
  echo '!!  Repair that, then: make clean setup'; \
  echo '!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!'; \
  echo; }
endef
