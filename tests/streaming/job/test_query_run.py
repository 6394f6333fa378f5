"""One run of the query on its checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest

from groupreplay import __version__
from groupreplay.state import Context
from groupreplay.state.policy.rules import Policy
from groupreplay.streaming.base.signals import StopRequest
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, RunSettings
from groupreplay.streaming.job.query_run import QueryRun, RunParts
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.spark.checkpoint import Checkpoint, Identity
from groupreplay.streaming.spark.source import TopicPlan

CLUSTER = Cluster(bootstrap_servers="b:9092")
IDENTITY = Identity(cluster_id="c", era="e", event_era="e.1", partitions=1, probes="p", first_start_ms=7)


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
    plan = TopicPlan(cluster=CLUSTER, topic="t", partitions=1)
    rules = cast("RulesWatch", SimpleNamespace(policy=Policy()))
    owner = MagicMock(**{"new_run.return_value": "run"})
    parts = RunParts(
        settings=settings,
        spark=MagicMock(),
        rules=rules,
        log=plan,
        probes=plan,
        owner=owner,
        location="file:/c",
    )
    checkpoint = cast("Checkpoint", MagicMock(location="file:/c/anew-1"))
    run = QueryRun(parts, checkpoint, IDENTITY, StopRequest())
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
