# Two commands need nothing but Python 3.11 or newer, git and make:
#   make serve    the service on 127.0.0.1:8778, with an SQLite database
#   make test     every check and every test
# Each installs what it needs into .venv at first, and again when setup.cfg changes.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SPHINX = $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees
SERVE_BIND ?= 127.0.0.1:8778
WORKERS ?=
STESTR_ARGS ?=
NOVA_ARGS ?=
OLDEST_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=
MIRROR_ARGS ?=
FUZZ_ARGS ?= --seconds 600
FAULTS_ARGS ?=

.DEFAULT_GOAL = help

.PHONY: help serve shell test test-nova test-oldest test-faults test-engines lint soak fuzz bench docs releasenotes samples screenshots clean

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST) | awk -F': ' '{printf "  make %-12s %s\n", $$1, $$2}'

serve: $(VENV)/installed ## serve on 127.0.0.1:8778 with a database in placement.sqlite
	exec env \
	OS_PLACEMENT_DATABASE__CONNECTION="$${OS_PLACEMENT_DATABASE__CONNECTION:-sqlite:///$(CURDIR)/placement.sqlite}" \
	OS_API__AUTH_STRATEGY="$${OS_API__AUTH_STRATEGY:-noauth2}" \
	OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT="$${OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT:-true}" \
	OS_DASHBOARD__ENABLED="$${OS_DASHBOARD__ENABLED:-true}" \
	$(BIN)/placement-core serve --bind $(SERVE_BIND) $(if $(WORKERS),--workers $(WORKERS))

shell: $(VENV)/installed ## a shell that has the placement-core command
	@echo 'placement-core is on the path of this shell; "exit" leaves it.'
	@PATH="$(abspath $(BIN)):$$PATH" exec "$${SHELL:-/bin/sh}"

test: $(VENV)/installed-test ## check and test everything
	$(BIN)/python -m tests.run $(STESTR_ARGS)

test-nova: $(VENV)/installed-test ## play leases against a real nova, with RabbitMQ on this machine
	$(BIN)/python .ci/with_databases.py -- $(BIN)/python -m tests.nova $(NOVA_ARGS)

test-oldest: $(VENV)/installed-test ## test with the oldest dependencies that setup.cfg allows
	$(BIN)/python -m tests.packages.oldest $(OLDEST_ARGS)

lint: $(VENV)/installed-test ## ruff, import-linter and mypy alone
	$(BIN)/python -m tests.run lint

soak: $(VENV)/installed-test ## managers and copies die, twenty times; costly requests; new random claims; fifty runs of mirrors; fuzz; an hour of faults
	$(BIN)/python -m tests.soak $(SOAK_ARGS)
	PLACEMENT_TEST_KILLS=20 $(BIN)/python -m testtools.run tests.functional.cli.test_migrate_killed
	$(BIN)/python -m testtools.run tests.bench.long_smoke
	$(BIN)/python -m tests.costly_requests
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m testtools.run \
		tests.functional.quota.test_grouped_writes tests.functional.quota.test_guard_random \
		tests.functional.reservations.test_grouped_writes
	$(BIN)/python -m tests.mirrors $(MIRROR_ARGS)
	$(BIN)/python -m tests.fuzz.contract $(FUZZ_ARGS)
	for kind in postgresql mysql; do $(BIN)/python .ci/with_databases.py -- \
		$(BIN)/python -m tests.fuzz.contract --kind $$kind $(FUZZ_ARGS) || exit 1; done
	$(BIN)/python -m tests.faults --seconds 900

fuzz: $(VENV)/installed-test ## send requests made from the OpenAPI document, for ten minutes
	$(BIN)/python -m tests.fuzz.contract $(FUZZ_ARGS)

test-faults: $(VENV)/installed-test ## break databases, processes and networks under load; check what came of it
	$(BIN)/python -m tests.faults $(FAULTS_ARGS)

test-engines: $(VENV)/installed-test ## test on newer PostgreSQL, MariaDB and MySQL, of newer suites of Debian
	$(BIN)/python -m tests.suites $(ENGINES_ARGS)

bench: $(VENV)/installed-bench ## measure against Placement and Keystone, on the databases that PLACEMENT_TEST_... name
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/installed-docs ## the documentation: HTML in build/docs, man pages in build/man
	$(SPHINX) --fresh-env --builder html doc build/docs
	$(SPHINX) --builder man doc build/man
	$(BIN)/python -m doc.man_pages build/man
	@echo build/docs/index.html

releasenotes: $(VENV)/installed-docs ## check the release notes
	$(BIN)/reno lint

samples: $(VENV)/installed-test ## write anew what is made from the code: samples, API history, who may do what
	$(BIN)/python -m doc.samples
	$(BIN)/python -m tests.access

screenshots: $(VENV)/installed-test ## take the pictures of the dashboard in the documents
	$(BIN)/python -m doc.screenshots

clean: ## remove what was made, the database of "make serve" too
	rm -rf $(VENV) build .stestr .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	rm -f placement.sqlite placement.sqlite-shm placement.sqlite-wal
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ": make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg setup.py pyproject.toml | $(BIN)/python
	@echo "Installing placement-core, and what it needs, into $(VENV):"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dashboard]'
	@touch $@

# By uv, which takes a seventh of the time of pip, from the index that pip was told to ask. Much of it
# is never imported, and need not be compiled.
$(VENV)/installed-test: setup.cfg setup.py pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	index=$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}; \
	env $${index:+UV_DEFAULT_INDEX="$$index"} \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[test]'
	@touch $@ $(VENV)/installed $(VENV)/installed-docs

$(VENV)/installed-docs: setup.cfg setup.py pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-bench: setup.cfg setup.py pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/installed
