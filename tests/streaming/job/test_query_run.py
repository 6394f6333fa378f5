"""One run of the query on its checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest

from groupreplay import __version__
from groupreplay.state import Context
from groupreplay.state.policy.rules import Policy
from groupreplay.streaming.base.broker_clock import AppendedMessage, BrokerClock
from groupreplay.streaming.base.signals import StopRequest
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, RunSettings
from groupreplay.streaming.job import query_run as query_module
from groupreplay.streaming.job.query_run import QueryRun, RunParts
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.spark.checkpoint import Checkpoint, Identity
from groupreplay.streaming.spark.source import TopicPlan

CLUSTER = Cluster(bootstrap_servers="b:9092")
IDENTITY = Identity(cluster_id="c", era="e", event_era="e.1", partitions=1, probes="p", first_start_ms=7)


def query_run(settings: RunSettings, clock: BrokerClock) -> QueryRun:
    """A run that nothing was started for."""
    plan = TopicPlan(cluster=CLUSTER, topic="t", partitions=1)
    rules = cast("RulesWatch", SimpleNamespace(policy=Policy(), changed=lambda: False, error=None, changes=0))
    owner = MagicMock(**{"new_run.return_value": "run"})
    parts = RunParts(
        settings=settings,
        spark=MagicMock(),
        rules=rules,
        log=plan,
        probes=plan,
        clock=clock,
        owner=owner,
        location="file:/c",
    )
    checkpoint = cast("Checkpoint", MagicMock(location="file:/c/anew-1"))
    return QueryRun(parts, checkpoint, IDENTITY, StopRequest())


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
        retention=RetentionFlags(retention_minutes=1, check_interval_ms=5),
    )
    run = query_run(settings, BrokerClock())
    assert run._context() == Context(
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
    )


def test_a_query_begins_again_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark would wait for its next trigger by the former time; the new query has the correction of the new time."""
    monkeypatch.setattr(Connection, "topic_names", lambda _: {})
    monkeypatch.setattr(query_module, "output_rows", rows := MagicMock())
    for name in ("start", "messages", "counters"):
        monkeypatch.setattr(query_module, name, MagicMock())
    now_ms = [1_000_000]
    clock = BrokerClock(lambda: now_ms[0], lambda: 1_000.0)
    settings = RunSettings(source=CLUSTER, checkpoint="/c", retention=RetentionFlags(retention_minutes=1))
    run = query_run(settings, clock)
    clock.note([AppendedMessage(1_000.0, 1_000.0, 1_000_000)])
    run._start_query()
    now_ms[0] += 59_000
    assert not run._settings_changed()
    now_ms[0] = 1_000_000 - 3_600_000
    assert run._settings_changed()
    assert "the clock of this machine was set" in caplog.text
    run._start_query()
    assert not run._settings_changed()
    contexts = [one.kwargs["job"].context for one in rows.call_args_list]
    assert [one.clock_correction_ms for one in contexts] == [0, 3_600_000]
