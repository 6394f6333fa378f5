"""What every test may ask for: one embedded broker per session, names of its own, Hypothesis profiles."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

# Spark's JVMs live for a minute here: what its second compiler takes it does not give back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

# No deadline: on a machine that is shared with a broker and Spark, a slow example proves nothing.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", parent=settings.get_profile("ci"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """One broker for the whole session: give topics and groups names of your own (`unique`)."""
    from groupreplay.streaming.local.broker import EmbeddedBroker

    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names for topics and groups that no other test of the session uses: `unique("orders")`."""
    test = re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)[:60]
    return lambda name: f"{name}-{test}-{next(_NUMBERS)}"


_NUMBERS = itertools.count(1)
