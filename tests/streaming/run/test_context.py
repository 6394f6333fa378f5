"""What a query is started with, and when it must be started again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from groupreplay.state import Context
from groupreplay.state.policy.rules import Policy
from groupreplay.streaming.base.clock import AppendedMessage, BrokerClock
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, RunSettings
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.run.context import QuerySettings
from groupreplay.streaming.run.identity import Identity
from groupreplay.streaming.run.status import JobIdentity, JobReport
from groupreplay.version import __version__

CLUSTER = Cluster(bootstrap_servers="b:9092")
RETENTION = RetentionFlags(retention_minutes=1, check_interval_ms=5)
IDENTITY = Identity(
    cluster_id="c", era="e", event_era="e.1", partitions=1, probes="p", first_start_ms=7, job_id="j"
)


@pytest.fixture(autouse=True)
def _no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: what is asked beside the retention is not known."""
    monkeypatch.setattr(Connection, "broker_settings", lambda *_: {})


def query_settings(settings: RunSettings, clock: BrokerClock) -> QuerySettings:
    """Those of a run, with rules that never change."""
    rules = cast("RulesWatch", SimpleNamespace(policy=Policy(), changed=lambda: False, error=None, changes=0))
    job = JobIdentity(
        cluster_id="c", era="e", job_id="j", run_id="run", first_start_ms=7, started_ms=7, trigger_seconds=1
    )
    return QuerySettings(
        settings=settings, identity=IDENTITY, rules=rules, clock=clock, report=JobReport(job)
    )


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize(("backfill", "emit_since_ms"), [(False, 7), (True, 0)])
def test_the_context_of_a_run(
    monkeypatch: pytest.MonkeyPatch, backfill: bool, emit_since_ms: int, retry: bool
) -> None:
    """Events start with the first start on the checkpoint, unless those of the past are asked for."""
    monkeypatch.setattr(Connection, "topic_names", lambda _: {"id": "orders"})
    settings = RunSettings(
        source=CLUSTER,
        checkpoint="/c",
        trigger_seconds=30,
        backfill_events=backfill,
        retry_quarantined=retry,
        labels={"team": "pay"},
        retention=RETENTION,
    )
    assert query_settings(settings, BrokerClock()).begin() == Context(
        cluster_id="c",
        era="e.1",
        emit_since_ms=emit_since_ms,
        complete_since_ms=7,
        catch_up_after_ms=90_000,
        topic_names={"id": "orders"},
        labels={"team": "pay"},
        probing=True,
        retention_ms=60_000,
        retention_check_interval_ms=5,
        release=__version__,
        retry_run="run" if retry else None,
        job_id="j",
    )


def test_what_another_job_has_emitted_is_not_emitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is evaluated, not written; and from the take-over on an unknown group is a new one."""
    monkeypatch.setattr(Connection, "topic_names", lambda _: {})
    monkeypatch.setattr(f"{__name__}.IDENTITY", msgspec.structs.replace(IDENTITY, taken_over_ms=900_000))
    settings = RunSettings(source=CLUSTER, checkpoint="/c", backfill_events=True, retention=RETENTION)
    context = query_settings(settings, BrokerClock()).begin()
    assert (context.emit_since_ms, context.told_until_ms, context.complete_since_ms) == (0, 7, 900_000)


def test_the_driver_evaluates_with_the_settings_of_the_running_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the first query, and after a change that no query has taken yet."""
    monkeypatch.setattr(Connection, "topic_names", lambda _: {})
    settings = query_settings(
        RunSettings(source=CLUSTER, checkpoint="/c", retention=RETENTION), BrokerClock()
    )
    first = settings.present()
    assert settings.present() is first
    begun = settings.begin()
    assert (begun, settings.present() is begun) == (first, True)
    settings._rules.policy = Policy(thresholds={"job.blind": {"silent_ms": 1}})  # type: ignore[misc]
    assert settings.present() is begun
    assert settings.begin().policy != begun.policy


def test_a_query_begins_again_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark would wait for its next trigger by the former time; the new query has the correction of the new time."""
    monkeypatch.setattr(Connection, "topic_names", lambda _: {})
    now_ms = [1_000_000]
    clock = BrokerClock(lambda: now_ms[0], lambda: 1_000.0)
    settings = RunSettings(source=CLUSTER, checkpoint="/c", retention=RETENTION)
    run = query_settings(settings, clock)
    clock.note([AppendedMessage(1_000.0, 1_000.0, 1_000_000)])
    first = run.begin()
    now_ms[0] += 59_000
    assert not run.changed()
    now_ms[0] = 1_000_000 - 3_600_000
    assert run.changed()
    assert "the clock of this machine was set" in caplog.text
    second = run.begin()
    assert not run.changed()
    assert [one.clock_correction_ms for one in (first, second)] == [0, 3_600_000]
