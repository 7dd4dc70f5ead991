# `make run` runs the main job, `make test` everything a change must pass; each sets up what it needs.
# Debian 12, Python 3.11, git, make, root (or the packages below already there).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More than the two cores: tests wait for real timers and processes as long as they compute. Not many more, for some have
# deadlines of seconds to keep.
JOBS ?= 3
ARGS ?=

# package:command or file whose absence means that it is missing; the second list is for the RTL's benches
APT := iproute2:ip tshark:tshark default-jre-headless:java
APT_RTL := iverilog:iverilog g++:g++ perl:perl liblz4-dev:/usr/include/lz4.h zlib1g-dev:/usr/include/zlib.h

.PHONY: help setup apt run test test-torch verify lint proofs format clean
# Only what tests the RTL needs its tools.
test verify: APT += $(APT_RTL)

help: ## what the targets do
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

# Bytecode too: hundreds of processes of the tests import our modules, and where the environment has
# PYTHONDONTWRITEBYTECODE each would compile them.
setup: apt $(VENV)/.stamp ## apt packages where missing, and .venv with .venv/bin/epic
	@$(BIN)/python -m compileall -q -j 0 spec models host p4 testbed

apt:
	@missing=""; \
	for entry in $(APT); do \
		sign="$${entry#*:}"; test -e "$$sign" || command -v "$$sign" >/dev/null 2>&1 || missing="$$missing $${entry%%:*}"; \
	done; \
	$(PYTHON) -c "import ensurepip, venv" 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ]; then \
		echo "setup: installing$$missing"; \
		if [ "$$(id -u)" != 0 ]; then echo "setup: not root; install them with apt-get, then run make again" >&2; exit 1; fi; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

$(VENV)/.stamp: pyproject.toml requirements.lock
	@echo "setup: $(VENV) with the versions of requirements.lock"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	@touch $@

# All at once where both are wanted.
$(VENV)/.stamp-rtl: pyproject.toml requirements.lock
	@echo "setup: $(VENV) with the versions of requirements.lock, tools for the RTL in it"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev,rtl]'
	@touch $(VENV)/.stamp $@

# The real P4Runtime client needs an old protobuf, so it has an environment of its own.
build/p4rt-shell-venv/.stamp: tests/p4/p4runtime/shell_requirements.txt $(VENV)/.stamp
	@echo "setup: p4runtime-shell in build/p4rt-shell-venv"
	@$(BIN)/python tests/p4/p4runtime/shell_env.py
	@touch $@

run: setup ## the main job: a tree of switches and ranks over real sockets, every result checked
	@echo "run: epic run $(ARGS)"
	@$(BIN)/epic run $(ARGS)

lint: setup ## style, types, the import contract, generated files, spec text against data, rules of the P4 programs
	@echo "lint: ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@echo "lint: mypy"; $(BIN)/mypy
	@echo "lint: imports"; $(BIN)/lint-imports --no-logo 2>/dev/null | tail -n 3 || $(BIN)/lint-imports
	@echo "lint: generated files"; $(BIN)/epic spec gen --check
	@echo "lint: spec"; $(BIN)/epic spec lint
	@echo "lint: p4"; $(BIN)/epic check p4 --no-compilers

proofs: setup ## models of level test, all but the three largest
	@echo "proofs: all of level test but the three largest"; $(BIN)/epic check tla --level test $(addprefix --skip MCCollective_,calls four window)

# Types and set-up have one core busy, proofs any number. Tests have deadlines to keep, so nothing else runs beside them.
test: apt $(VENV)/.stamp-rtl ## lint and proofs, then every test
	@$(MAKE) --no-print-directory --jobs 3 --output-sync lint proofs build/p4rt-shell-venv/.stamp
	@echo "test: pytest on $(JOBS) processes"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# torch is a large package, so its tests have an environment of their own and are no part of `make test`.
test-torch: setup ## tests of the torch.distributed backend
	@echo "setup: torch in build/torch-venv"
	@test -x build/torch-venv/bin/python || $(PYTHON) -m venv build/torch-venv
	@build/torch-venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock torch==2.13.0 --editable '.[dev]'
	@build/torch-venv/bin/python -m pytest tests/host/torch $(ARGS)

verify: apt $(VENV)/.stamp-rtl ## the long campaigns: larger proofs, and many more random worlds than `make test` tries
	@$(BIN)/epic check tla --level verify
	@EPIC_EXAMPLES=40 $(BIN)/python -m pytest -n $(JOBS) tests/models tests/spec tests/testbed/test_conformance_seeds.py $(ARGS)

format: setup ## apply the style
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean: ## remove what set-up and tests made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
