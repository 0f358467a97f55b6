# Two commands need nothing but Python 3.11 or newer, git and make:
#   make serve    the service on 127.0.0.1:8778, with an SQLite database
#   make test     every check and every test
# Each installs what it needs into .venv at first, and again when setup.cfg changes.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SERVE_BIND ?= 127.0.0.1:8778
WORKERS ?=
STESTR_ARGS ?=
NOVA_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=

.DEFAULT_GOAL = help

.PHONY: help serve test test-nova lint soak bench docs releasenotes samples clean

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST) | awk -F': ' '{printf "  make %-12s %s\n", $$1, $$2}'

serve: $(VENV)/installed ## serve on 127.0.0.1:8778 with a database in placement.sqlite
	exec env \
	OS_PLACEMENT_DATABASE__CONNECTION="$${OS_PLACEMENT_DATABASE__CONNECTION:-sqlite:///$(CURDIR)/placement.sqlite}" \
	OS_API__AUTH_STRATEGY="$${OS_API__AUTH_STRATEGY:-noauth2}" \
	$(BIN)/placement-core serve --bind $(SERVE_BIND) $(if $(WORKERS),--workers $(WORKERS))

test: $(VENV)/installed-test ## check and test everything
	$(BIN)/python -m tests.run $(STESTR_ARGS)

test-nova: $(VENV)/installed-test ## play leases against a real nova, with RabbitMQ on this machine
	$(BIN)/python .ci/with_databases.py -- $(BIN)/python -m tests.nova $(NOVA_ARGS)

lint: $(VENV)/installed-test ## ruff, import-linter and mypy alone
	$(BIN)/python -m tests.run lint

soak: $(VENV)/installed-test ## kill and stop managers of leases, twenty times
	$(BIN)/python -m tests.soak $(SOAK_ARGS)

bench: $(VENV)/installed-bench ## measure against Placement and Keystone, on the databases that PLACEMENT_TEST_... name
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/installed-test ## the documentation as HTML in build/docs
	$(BIN)/python -m doc.build

releasenotes: $(VENV)/installed-test ## check the release notes
	$(BIN)/reno lint

samples: $(VENV)/installed-test ## write the samples in etc/placement and the API history anew
	$(BIN)/python -m doc.samples

clean: ## remove what was made, the database of "make serve" too
	rm -rf $(VENV) build .stestr .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	rm -f placement.sqlite placement.sqlite-shm placement.sqlite-wal
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ": make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg setup.py pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-test: setup.cfg setup.py pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-bench: setup.cfg setup.py pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/installed
