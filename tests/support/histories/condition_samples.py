"""Every condition there is, as it fires and as it resolves, for whatever must hold for each kind of event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from groupreplay.state.conditions.conditions import (
    Blocker,
    Condition,
    JobBehind,
    JobBlind,
    MemberFlapping,
    MemberIdle,
    OffsetsExpiring,
    OwnerSilent,
    PartitionPoison,
    RebalanceSlow,
    RebalanceStorm,
    RebalanceStuck,
    RebalanceSuspected,
    RebalanceTimeouts,
    StaticConflict,
    StaticCrashLoop,
    Suspect,
)
from groupreplay.state.conditions.tracker import runbook_section
from groupreplay.state.events.event import Cause, Event, Evidence, History
from groupreplay.state.kafka_terms import GroupType

MEMBER: Final[dict[str, Any]] = {
    "member_id": "pods-7-x",
    "client_id": "pods-7",
    "client_host": "/10.0.0.7",
    "instance_id": None,
}
BLOCKER: Final = Blocker(**MEMBER, revoking={"orders": "0-3"}, since_ms=100_000, fenced_at_ms=400_000)
SUSPECT: Final = Suspect(**MEMBER, reason="no_commit_since_start", last_commit_ms=99_000)
_MODERN_STUCK: Final[dict[str, Any]] = {
    "rebalance_id": "era-1-3-100",
    "state": "Reconciling",
    "reason": "not_revoked",
    "blockers": (BLOCKER,),
    "suspects": None,
    "suspects_note": None,
    "wedged": False,
    "elapsed_ms": 180_000,
}
_CLASSIC_STUCK: Final[dict[str, Any]] = {
    **_MODERN_STUCK,
    "state": "PreparingRebalance",
    "reason": "not_joined",
    "blockers": None,
    "suspects": (SUSPECT,),
    "wedged": True,
}

#: What each condition says of itself beside its status, its id, its start and its runbook.
FIRING: Final[tuple[tuple[type[Condition], Evidence, dict[str, Any]], ...]] = (
    (
        RebalanceSlow,
        Evidence.PROBE,
        {"rebalance_id": "era-1-3-100", "state": "PreparingRebalance", "elapsed_ms": 75_000},
    ),
    (RebalanceStuck, Evidence.LOG, _MODERN_STUCK),
    (RebalanceStuck, Evidence.PROBE, _CLASSIC_STUCK),
    (RebalanceSuspected, Evidence.INFERRED, {"silent_ms": 400_000, "usual_gap_ms": 5_000}),
    (
        RebalanceTimeouts,
        Evidence.LOG,
        {**MEMBER, "dropped_ms": (200_000, 500_000, 800_000), "rebalance_timeout_ms": 300_000},
    ),
    (RebalanceStorm, Evidence.LOG, {"generations": 14, "slots_changed": 2, "window_ms": 600_000}),
    (MemberFlapping, Evidence.LOG, {**MEMBER, "returned_ms": (200_000, 300_000, 400_000)}),
    (MemberIdle, Evidence.LOG, {**MEMBER, "rounds": 3}),
    (StaticConflict, Evidence.LOG, {"instance_id": "pod-7", "places": ("a@/10.0.0.7", "b@/10.0.0.8")}),
    (
        StaticCrashLoop,
        Evidence.LOG,
        {"instance_id": "pod-7", "place": "a@/10.0.0.7", "restarted_ms": (200_000, 300_000, 400_000)},
    ),
    (
        OwnerSilent,
        Evidence.INFERRED,
        {**MEMBER, "silent_ms": 90_000, "usual_gap_ms": 5_000, "partitions": {"orders": "0-3"}, "lag": 12},
    ),
    (
        PartitionPoison,
        Evidence.INFERRED,
        {
            "topic": "orders",
            "partition": 3,
            "offset": 42,
            "generations": 4,
            "unchanged_ms": 960_000,
            "lag": None,
        },
    ),
    (
        OffsetsExpiring,
        Evidence.LOG,
        {
            "partitions": {"orders": "0-3"},
            "partition_count": 4,
            "deadline_ms": 90_000_000,
            "remaining_ms": 86_000_000,
            "matters": True,
        },
    ),
    (
        JobBlind,
        Evidence.PROBE,
        {"what": "hanging_transaction", "partitions": (12,), "brokers": (), "fix": "kafka-transactions.sh"},
    ),
    (JobBehind, Evidence.PROBE, {"caught_up_ms": 100_000, "lag_ms": 90_000}),
)


def condition_events() -> Iterator[Event]:
    """Each of them as it fires, proved by a record, and as it resolves because time has passed."""
    for number, (kind, evidence, fields) in enumerate(FIRING):
        firing = kind(
            status="firing",
            condition_id=f"0123456789abcdef-{kind.NAME}-100000",
            since_ms=100_000,
            threshold_ms=60_000,
            runbook=f"docs/runbook.md#{runbook_section(kind.NAME)}",
            **fields,
        )
        cause = Cause(topic="__consumer_offsets", partition=3, offset=100 + number, timestamp_ms=300_000)
        about_job = kind.NAME.startswith("job.")
        event = Event(
            fact=firing,
            group_id=None if about_job else "g",
            group_type=GroupType.CLASSIC if fields.get("blockers") is None else GroupType.CONSUMER,
            simple=False,
            time_ms=300_000,
            evidence=evidence,
            history=History.PARTIAL,
            cause=cause,
            ordinal=0,
            severity=firing.severity,
            labels={"team": "payments"},
        )
        yield event
        yield replace(
            event, fact=replace(firing, status="resolved"), time_ms=360_000, cause=None, place=(3, 100)
        )
