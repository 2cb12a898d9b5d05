# What one does with this repository. Needs Rust, Python 3.11 or later, and make; everything else comes from the lock files.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where Python stands.
SOURCES := python tests/python tools benches

.DEFAULT_GOAL := help
.PHONY: help build demo test test-rust test-python lint format bench check-slow lock clean

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | \
		while IFS='|' read -r target text; do printf '  make %-12s %s\n' "$$target" "$$text"; done

# The tools and packages in the versions of the lock file; made anew when that changes.
$(VENV)/locked: requirements-dev.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "onionlab needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	touch $@

build: $(VENV)/locked ## Build the simulator and install onionlab into .venv
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --quiet

demo: build ## Compare three circuit schedulers on the built-in network: the table and a report, in about three minutes
	$(BIN)/onionlab run experiments/swrr/demo.toml

# Real consensuses and measurements lie beside the repository, if anywhere: what needs them does nothing without.
DATA = ../shared/data

test: test-rust test-python ## Run all tests but the slow ones
	@test -d $(DATA) || echo "note: there is no $(DATA): tests that need real documents passed without testing anything"

test-rust:
	cargo test --workspace --locked --quiet

test-python: build
	$(BIN)/python -m pytest -q

lint: $(VENV)/locked ## Check form: rustfmt, clippy, ruff, mypy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/mypy tools/*.py tools/measure_tor tools/shadow_113 benches/*.py

format: $(VENV)/locked ## Bring all sources into form
	cargo fmt --all
	$(BIN)/ruff check --fix --quiet $(SOURCES)
	$(BIN)/ruff format --quiet $(SOURCES)

bench: build ## Measure events and cell-hops a second on fixed worlds
	cargo run --release --locked --quiet -p onionlab-benches --features jemalloc -- target/bench.json
	$(BIN)/python benches/shared_links.py --out target/bench-shared-links.json
	$(BIN)/python benches/predictor_casadi.py --out target/bench-predictor-casadi.json

check-slow: build ## Run the slow tests too
	cargo test --workspace --locked --release -- --include-ignored
	$(BIN)/python -m pytest -q -m 'slow or not slow'

lock: ## Renew the Python lock files (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
		pyproject.toml --output-file requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
		--extra dev --constraint requirements.lock pyproject.toml --output-file requirements-dev.lock

clean: ## Remove what was built; results in out/ stay
	rm -rf target $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis python/onionlab/*.so
