"""Fixtures for all tests: one embedded broker per session, unique names; and the Hypothesis profiles."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import groupreplay
from groupreplay.streaming.local.broker import EmbeddedBroker
from support import class_archives
from support.installed_code import differing_modules
from support.kafka.blank_brokers import IN_USE, close_free
from support.kafka.formatted_folders import format_once
from support.paths import ROOT
from support.rest_tests import REST

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EmbeddedBroker.common_jvm_options = class_archives.options(class_archives.BROKER)
EmbeddedBroker._format = format_once()  # type: ignore[method-assign]
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    " ".join((*class_archives.SHORT_LIVED, *class_archives.options(class_archives.SPARK))),
)

# jsonschema would compile a grammar of IRIs when it is imported, a second in each process; no schema here has one.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# The width of a terminal, which readline leaves in the environment of xdist's workers: tests set their own.
os.environ.pop("COLUMNS", None)

# A shell lets programs in its background ignore these, and their children inherit that: tests send them.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

# No deadline: a slow example proves nothing on a machine that also runs a broker and Spark.
# The same examples in every `make test`, so that a change and not chance decides; `make test-long` looks for new ones.
settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", parent=settings.get_profile("ci"), derandomize=False, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuses to test an install that is not the code of the checkout: green, it would prove nothing."""
    if hasattr(session.config, "workerinput"):  # xdist's workers begin after their controller has passed
        return
    differing = differing_modules(Path(groupreplay.__file__).parent, ROOT)
    if differing:
        raise pytest.UsageError(
            f"the installed groupreplay is not this checkout: {len(differing)} modules differ, such as "
            f"{differing[0]}. `make dev` installs the checkout itself, `make test` the wheel that it builds"
        )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what ``tests/rest.txt`` lists: a case of a test, a test, or a file."""
    test, file = item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]
    if not REST.isdisjoint({item.nodeid, test, file}):
        item.add_marker("rest")


@pytest.hookimpl(trylast=True)  # behind the choice of -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives xdist's workers the files of brokers, jobs and browsers first: the small ones behind leave none idle."""
    if not hasattr(config, "workerinput"):
        return
    starts: dict[Path, set[str]] = {}
    for item in items:
        names = {mark.name for mark in item.iter_markers()}.union(getattr(item, "fixturenames", ()))
        starts.setdefault(item.path, set()).update(names & {"broker", "spark", "browser"})
    items.sort(key=lambda item: -len(starts[item.path]))


def pytest_sessionfinish() -> None:
    """Ends the broker that no test uses any more."""
    close_free()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """One broker for the whole session: tests must give topics and groups names from ``unique``."""
    with EmbeddedBroker() as running:
        IN_USE.append(running)
        yield running
        IN_USE.remove(running)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Levels of logs are those of a new process again.

    A shared broker is started again if it ended under the test before: that costs one test, not all behind it.
    """
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("groupreplay").setLevel(logging.NOTSET)
    for running in IN_USE:
        running.start()


@pytest.fixture(scope="module")
def one_session() -> Iterator[None]:
    """All runs of the job in this process are in one JVM, which is not ended by them."""
    # Here, because it imports Spark.
    from support.job.own_process import keep_session

    with pytest.MonkeyPatch.context() as patch:
        keep_session(patch)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module; longer, and its event loop would be in the way of other tests."""
    # Here, because a session must find other code that is installed before it is imported.
    from support.pictures import report_pages

    if report_pages.browser_program() is None:
        pytest.skip(report_pages.NO_BROWSER)
    with report_pages.running_browser() as running, report_pages.kept_contexts(running):
        yield running


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes a name of a topic or group that no other test uses: ``unique("orders")``."""
    test = re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)[:60]
    return lambda name: f"{name}-{test}-{next(_NUMBERS)}"


_NUMBERS = itertools.count(1)
