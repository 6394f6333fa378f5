"""When a job counts as working, by its last document."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.app.exporter.freshness import Limits, heartbeat_age, is_fresh, is_up
from groupreplay.streaming.contract.job_document import JOB_KEY
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import SINCE_MS, job_document

NOW = SINCE_MS + 200_000
HOUR_MS = 3_600_000


def written(at_ms: int, **fields: Any) -> TopicsSnapshot:
    """The job's document, written at this time."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(at_ms, **fields))
    return seen


@pytest.mark.parametrize(
    ("silent_ms", "timeout_seconds", "fresh"),
    [
        (30_000, None, True),
        (30_001, None, False),
        (30_001, 60.0, True),
        (5_001, 5.0, False),
        (-60_000, None, True),  # a clock that is ahead of ours
    ],
)
def test_a_heartbeat_is_fresh(silent_ms: int, timeout_seconds: float | None, fresh: bool) -> None:
    """For three triggers of ten seconds, or as long as the flag sets."""
    seen = written(NOW - silent_ms)
    assert is_fresh(seen, NOW, Limits(timeout_seconds=timeout_seconds)) is fresh


@pytest.mark.parametrize(
    ("age_ms", "phase", "caught_up_ms", "timeout_seconds", "fresh"),
    [
        # Between two runs the time up to which the last one has read counts.
        (HOUR_MS, "stopped", NOW - 2 * HOUR_MS, None, True),
        (HOUR_MS, "stopped", NOW - 2 * HOUR_MS - 1, None, False),
        (HOUR_MS, "stopped", NOW - 3 * HOUR_MS, 3 * 3_600.0, True),
        (0, "stopped", NOW - 901_000, 900.0, False),
        # One run after the other that fails writes documents, and reads nothing.
        (0, "stopped", None, 900.0, False),
        # A run that has just begun lives.
        (10_000, "catching_up", None, 900.0, True),
        (30_001, "catching_up", None, 900.0, False),
    ],
)
def test_single_runs_are_fresh(
    age_ms: int, phase: str, caught_up_ms: int | None, timeout_seconds: float | None, fresh: bool
) -> None:
    """No alert between two runs, and one when they fail or are not started any more."""
    seen = written(NOW - age_ms, once=True, phase=phase, caught_up_ms=caught_up_ms)
    limits = Limits(timeout_seconds=timeout_seconds)
    assert (is_fresh(seen, NOW, limits), is_up(seen, NOW, limits)) == (fresh, fresh)


@pytest.mark.parametrize("off_ms", [-3_600_000, 0, 3_600_000])
def test_the_clock_of_the_job_does_not_matter(off_ms: int) -> None:
    """The broker has dated its document: a job is down when it writes nothing more, and only then."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(NOW + off_ms), NOW)
    assert [is_fresh(seen, NOW + age_ms, Limits()) for age_ms in (30_000, 30_001)] == [True, False]
    assert heartbeat_age(seen, NOW + 4_000) == 4


def test_a_quick_job_may_miss_a_beat() -> None:
    """With a trigger of a second, three of them are shorter than a scrape."""
    seen = written(NOW, trigger_seconds=1)
    assert [is_fresh(seen, NOW + age_ms, Limits()) for age_ms in (10_000, 10_001)] == [True, False]


def test_a_stopped_query_is_no_job() -> None:
    """Its heartbeat is fresh; also when a scheduler has ended a single run in an outage."""
    stopped = {"running": False, "since_ms": 1, "error": None}
    for seen in (written(NOW, query=stopped), written(NOW, query=stopped, once=True, phase="stopped")):
        assert (is_fresh(seen, NOW, Limits()), is_up(seen, NOW, Limits())) == (True, False)


def test_nothing_is_known_of_a_job() -> None:
    """Before it has written anything."""
    assert not is_fresh(TopicsSnapshot(), NOW, Limits())
    assert not is_up(TopicsSnapshot(), NOW, Limits())
