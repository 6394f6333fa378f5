# Everything from a fresh clone with nothing but Python 3.10 to 3.13: `make demo`, `make test`.
# Set-up happens once, in .venv; what is tested is the built wheel, never the checkout.

# Pass PYTHON=… to choose. A version manager may offer names it cannot run, hence the trial.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.10 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; \
	done)

BIN := .venv/bin
PACKAGE := pyproject.toml README.md LICENSE \
	$(shell find -L src -type f ! -path '*.egg-info/*' ! -name '*.pyc')

.PHONY: demo test test-fast test-long lint types layers jars bench bench-page docs dev setup clean help

help:
	@echo 'make demo        a broker, consumers, the job, and its events as they happen (ARGS="--seconds 60")'
	@echo 'make test        everything but the long tests, on the built wheel'
	@echo 'make test-fast   tests that need neither broker nor JVM'
	@echo 'make test-long   the rest'
	@echo 'make lint        ruff, mypy and the layer contracts'
	@echo 'make bench       how fast it is beside the bare connector and others (ARGS="--shape many")'
	@echo 'make bench-page  all benchmarks of docs/performance.md, and their figures into that page'
	@echo 'make docs        the generated pages anew'
	@echo 'make dev         an editable install instead of the wheel'
	@echo 'make clean       back to the fresh clone'

demo: .venv/.wheel
	$(BIN)/groupreplay demo $(ARGS)

# Two at a time: most of the time a test of a broker or of the job waits for something. The files in their order, because
# those that take longest come early.
test: lint jars
	$(BIN)/pytest -m 'not long' -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: .venv/.wheel
	$(BIN)/pytest -m 'not broker and not spark and not long' $(ARGS)

test-long: .venv/.wheel jars
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -m 'long' --timeout 3600 $(ARGS)

lint: .venv/.wheel types layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# From docs/, because a folder codecs/ in the working directory hides the standard library's module of that name.
types: .venv/.wheel
	cd docs && ../$(BIN)/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p groupreplay

layers: .venv/.wheel
	cd docs && ../$(BIN)/lint-imports --config ../pyproject.toml --no-cache

# Before the tests, so that a slow network counts against no test's time. Nothing to do when they are in the cache.
jars: .venv/.wheel
	$(BIN)/python -I -m groupreplay.streaming.local.jars fetch

bench: .venv/.wheel jars
	$(BIN)/python benchmarks/bench.py $(ARGS)

# About three quarters of an hour on a machine that does nothing else.
bench-page: .venv/.wheel jars
	$(BIN)/python benchmarks/bench.py --shape steady --shape wide --shape many --shape churn --page
	$(BIN)/python benchmarks/live.py help --page
	$(BIN)/python benchmarks/live.py restart --groups 20000 --page
	$(BIN)/python benchmarks/live.py idle --groups 20000 --page
	$(BIN)/python benchmarks/live.py idle --groups 100000 --page
	$(BIN)/python benchmarks/live.py busy --groups 5000 --page
	$(BIN)/python benchmarks/growth.py --page

docs: .venv/.wheel
	$(BIN)/python docs/refresh.py

setup: .venv/.wheel

dev: .venv/.wheel
	$(BIN)/pip install --quiet --no-build-isolation --no-deps --editable .
	@rm .venv/.wheel  # so that the next `make test` puts the wheel back

.venv/.created:
	@[ -n '$(PYTHON)' ] || { echo 'Python 3.10 to 3.13 is needed and was not found: install one, or make PYTHON=…'; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; echo 'making .venv failed: is the venv module of $(PYTHON) installed?'; exit 1; }
	$(BIN)/pip install --quiet --upgrade pip 'setuptools>=77' wheel 'build>=1.2'
	@touch $@

# `build/` is removed first: setuptools would pack modules that were deleted meanwhile.
.venv/.wheel: .venv/.created $(PACKAGE)
	@rm -rf build dist
	$(BIN)/python -m build --wheel --no-isolation . > .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
	@# Dependencies only when they changed; the wheel itself each time.
	@cmp -s pyproject.toml .venv/.installed || { \
		echo 'installing dependencies into .venv (once; 1 to 3 minutes)'; \
		$(BIN)/pip install --quiet "$$(echo dist/*.whl)[spark,dev]" && cp pyproject.toml .venv/.installed; }
	@$(BIN)/pip install --quiet --no-deps --force-reinstall dist/*.whl
	@touch $@

clean:
	rm -rf .venv build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
