# Every target works in a fresh clone on a machine that has Python 3.10 to 3.14; the first one creates .venv.
# `make test`, `make test-rest` and `make test-long` run on the built wheel, not on the checkout. All other targets take
# what is installed: the wheel, which they keep up to date, or the editable install of `make dev`, which they leave alone.

# PYTHON=… overrides the choice. Each candidate is executed, because version managers install names that cannot run.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.10 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo $$p && break; \
	done)

# The lines of Spark beside the one of .venv, each in an environment of its own, with the newest release of the line.
# Only `make LINES=…` counts: shells put the height of the terminal into a variable of this name.
ifneq "$(origin LINES)" "command line"
LINES := 3.5 4.0 4.1
endif
# Python 3.10 to 3.12 for Spark 3.5, which runs on no later one.
OLD_PYTHON ?= $(shell for p in python3.12 python3.11 python3.10 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo $$p && break; \
	done)

# The newest line that the job was tuned for: the extra alone would bring a later one, with PySpark's own worker.
SPARK := pyspark==4.2.*

BIN := .venv/bin
# The versions that the tests were last run with: a release of somebody else's library must not turn a checkout red.
# `make dev CONSTRAINTS=` takes the newest ones; `python release/lock.py --upgrade` writes them down.
CONSTRAINTS := tests/constraints.txt
PIP_BOUNDS := $(addprefix --constraint ,$(CONSTRAINTS))
DEPENDENCIES := pyproject.toml $(CONSTRAINTS)
# Without files of compiled code every process that a test starts would compile the tests' modules again.
unexport PYTHONDONTWRITEBYTECODE
# Asked when a target runs, of pip's own file: a mark of ours would know nothing of an install by hand.
IS_EDITABLE := ls .venv/lib/python*/site-packages/__editable__.groupreplay-* >/dev/null 2>&1
PACKAGE := pyproject.toml README.md LICENSE \
	$(shell find src -type f ! -path '*.egg-info/*' ! -name '*.pyc')

.PHONY: demo test test-rest test-fast test-lines test-long lint types layers jars archives bench bench-page browser docs site release screenshots dev setup installed wheel clean help
.NOTPARALLEL:

help:
	@echo 'make demo        runs a broker, consumers and the job, prints the events, and writes demo.html (ARGS="--seconds 60")'
	@echo 'make test        lint, and the tests that fit into ten minutes, on the built wheel'
	@echo 'make test-rest   the tests of tests/rest.txt, half an hour'
	@echo 'make test-fast   tests that need neither a broker nor a JVM'
	@echo 'make test-lines  a live run, a restart and a stored checkpoint on each other line of Spark (LINES="3.5 4.1")'
	@echo 'make test-long   the long tests'
	@echo 'make lint        ruff, mypy and the layer contracts'
	@echo 'make bench       compares the speed with the bare Kafka connector and other tools (ARGS="--shape many"); ARGS="--scale 200000": the job at this size'
	@echo 'make bench-page  runs all benchmarks and writes the figures into docs/performance.md'
	@echo 'make docs        writes the generated pages again'
	@echo 'make site        builds the docs as a static site in site/, with every link checked'
	@echo 'make release     builds sdist, wheel, SBOM and checksums of the last commit in dist/release; publishes nothing'
	@echo 'make screenshots takes the screenshots of the docs again; needs Chromium'
	@echo 'make dev         replaces the wheel by an editable install, until the next make test'
	@echo 'make clean       removes .venv and everything that was built'

demo: installed
	$(BIN)/groupreplay demo $(ARGS)

# Tests of a broker or of the job mostly wait: a third worker saves a fifth of the time on two cores, and needs 2 GB more.
# tests/conftest.py orders the files.
WORKERS := -n $(shell awk '/^MemTotal/ {print $$2 < 12000000 ? 2 : 3}' /proc/meminfo 2>/dev/null || echo 2) \
	--dist loadfile --no-loadscope-reorder

# Runs the tests of a mark. What fails with other tests beside it, runs once more with none, and decides: a broker, a
# session and a browser on two cores can be too slow for each other. The first run's report names these tests. A test that
# fails alone too is red, and after three of them the others are not run.
passes_alone = { $(1) -m '$(2)' $(WORKERS) $(ARGS); code=$$?; [ $$code -ne 1 ] || { \
	echo 'the tests that failed run once more, alone'; \
	$(1) -m '$(2)' --last-failed --last-failed-no-failures none --maxfail 3 $(ARGS); code=$$?; }; [ $$code -eq 0 ]; }

# Both take one core: mypy reads while the archives are made and the modules of the tests are compiled, which in a fresh clone
# each of pytest's workers would do.
test: wheel jars browser
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(MAKE) --no-print-directory archives; made=$$?; \
	$(BIN)/pytest --collect-only -qq > /dev/null || true; \
	wait $$lint && exit $$made
	$(call passes_alone,$(BIN)/pytest,not long and not rest)

# What does not fit into the ten minutes of `make test`: other releases, kinds, pages and places of what that shows.
test-rest: wheel jars archives browser
	$(call passes_alone,$(BIN)/pytest,rest and not long)

test-fast: installed
	$(BIN)/pytest -m 'not broker and not spark and not long and not rest' $(ARGS)

# The files with that mark: each worker on each line would import the tests of all others as well.
LINE_TESTS = tests/streaming/spark $(shell grep -rlwF 'mark.line' tests --include='test_*.py')

test-lines: $(LINES:%=.lines/%/.wheel)
	for line in $(LINES); do \
		echo "Spark $$line: $$(.lines/$$line/bin/python -c 'import pyspark, sys; print(pyspark.__version__, "with Python", sys.version.split()[0])')"; \
		.lines/$$line/bin/python -I -m groupreplay.streaming.local.jars fetch && \
		(cd tests && ../.lines/$$line/bin/python -m support.class_archives) && \
		$(call passes_alone,.lines/$$line/bin/pytest $(LINE_TESTS),line) || exit 1; \
	done

test-long: wheel jars archives
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -m 'long' --timeout 3600 $(ARGS)

lint: installed types layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# In src/, where both tools find the package; at the root, the folder codecs/ would hide the standard library's module.
# With all that only long tests and people run: a call that no longer fits would break it unseen.
types: installed
	cd src && ../$(BIN)/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache \
		groupreplay ../tests/support ../tests/golden ../benchmarks ../docs ../release

layers: installed
	cd src && ../$(BIN)/lint-imports --config ../pyproject.toml --no-cache

# Runs before the tests, so that a download does not count as a test's time. Does nothing when the cache has them.
jars: installed
	@$(BIN)/python -I -m groupreplay.streaming.local.jars fetch

# Class data for the JVMs of the tests, which start in half the time with it.
archives: installed jars
	@cd tests && ../$(BIN)/python -m support.class_archives

bench: installed jars
	$(BIN)/python benchmarks/bench.py $(ARGS)

# Takes about 45 minutes; run nothing else on the machine meanwhile.
bench-page: installed jars
	$(BIN)/python benchmarks/bench.py --shape steady --shape wide --shape many --shape churn --page
	$(BIN)/python benchmarks/live.py help demo --page
	$(BIN)/python benchmarks/live.py restart --groups 20000 --page
	$(BIN)/python benchmarks/live.py idle --groups 20000 --page
	$(BIN)/python benchmarks/live.py idle --groups 100000 --page
	$(BIN)/python benchmarks/live.py busy --groups 5000 --page
	$(BIN)/python benchmarks/growth.py --page
	$(BIN)/python benchmarks/linear.py --page
	$(BIN)/python benchmarks/storms.py --page
	$(BIN)/python benchmarks/memory/captures.py --page
	$(BIN)/python benchmarks/folders.py --page
	$(BIN)/python benchmarks/browser/report.py --page
	$(BIN)/python benchmarks/served/load.py --page
	$(BIN)/python benchmarks/spark_cluster.py --page

# Tests of pages need a browser. It is installed where that is allowed without a question: for root, by apt, as in a
# container of CI. Elsewhere they are skipped, and say so. NO_BROWSER=1 leaves the machine as it is.
browser:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || { \
		[ -z '$(NO_BROWSER)' ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
			apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; \
		} >/dev/null 2>&1; } || echo 'no Chromium: the tests of pages in a browser are skipped'

screenshots: installed
	$(BIN)/python docs/screenshots.py

docs: installed
	$(BIN)/python docs/refresh.py

site: installed
	$(BIN)/mkdocs build --strict

release: installed
	$(BIN)/python release/make_release.py $(ARGS)

setup: installed

dev: .venv/.created
	@rm -f .venv/.editable
	@$(MAKE) --no-print-directory .venv/.editable

installed: .venv/.created
	@$(MAKE) --no-print-directory .venv/.$$($(IS_EDITABLE) && echo editable || echo wheel)

wheel: .venv/.created
	@! $(IS_EDITABLE) || { rm -f .venv/.wheel; echo 'the wheel replaces the editable install; make dev brings that back'; }
	@$(MAKE) --no-print-directory .venv/.wheel

# Also when the dependencies have changed.
.venv/.editable: .venv/.created $(DEPENDENCIES)
	@echo 'installing the checkout and its dependencies into .venv (the first time 1 to 3 minutes)'
	@$(BIN)/pip install --quiet --no-build-isolation --editable '.[spark,dev]' '$(SPARK)' $(PIP_BOUNDS)
	@rm -f .venv/.wheel
	@cat $(DEPENDENCIES) > .venv/.installed
	@touch $@

.venv/.created:
	@[ -n '$(PYTHON)' ] || { echo 'Python 3.10 to 3.14 is required and was not found. Install it, or name it: make PYTHON=…'; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo 'Creating .venv failed. Is the venv module of $(PYTHON) installed?'; exit 1; }
	@$(BIN)/pip install --quiet --upgrade pip 'setuptools>=77' wheel 'build>=1.2'
	@touch $@

# `build/` is removed first: setuptools would pack modules that have been deleted since.
.venv/.built: .venv/.created $(PACKAGE)
	@rm -rf build dist
	@$(BIN)/python -m build --wheel --no-isolation . > .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
	@touch $@

.venv/.wheel: .venv/.built $(DEPENDENCIES)
	@# The wheel is installed each time, dependencies only when they have changed.
	@cat $(DEPENDENCIES) | cmp -s - .venv/.installed || { \
		echo 'installing dependencies into .venv (once; 1 to 3 minutes)'; \
		$(BIN)/pip install --quiet "$$(echo dist/*.whl)[spark,dev]" '$(SPARK)' $(PIP_BOUNDS) && \
		cat $(DEPENDENCIES) > .venv/.installed; }
	@$(BIN)/pip install --quiet --no-deps --force-reinstall dist/*.whl
	@rm -f .venv/.editable
	@touch $@

.lines/%/.wheel: .venv/.built $(DEPENDENCIES)
	@python='$(if $(filter 3.5,$*),$(OLD_PYTHON),$(PYTHON))'; \
	[ -n "$$python" ] || { echo 'Spark $* needs Python 3.10 to 3.12, which was not found. Name it: make OLD_PYTHON=…'; exit 1; }; \
	[ -d .lines/$* ] || $$python -m venv .lines/$* || { rm -rf .lines/$*; exit 1; }
	@cat $(DEPENDENCIES) | cmp -s - .lines/$*/.installed || { \
		echo 'installing Spark $* into .lines/$* (once; 1 to 2 minutes)'; \
		.lines/$*/bin/pip install --quiet --upgrade pip 'setuptools>=77' wheel && \
		.lines/$*/bin/pip install --quiet "$$(echo dist/*.whl)[spark,dev]" 'pyspark==$*.*' $(PIP_BOUNDS) && \
		cat $(DEPENDENCIES) > .lines/$*/.installed; }
	@.lines/$*/bin/pip install --quiet --no-deps --force-reinstall dist/*.whl
	@touch $@

clean:
	rm -rf .venv .lines build dist site *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
