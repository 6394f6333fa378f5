"""Events of every kind there is, for whatever must hold for each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from groupreplay.state import Cause, Event, Evidence, GroupType, History
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.conditions.tracker import runbook_section
from groupreplay.state.events.event import Fact, JobGap, UnreadRange, gap_event
from groupreplay.state.events.group_events import (
    GroupQuarantined,
    GroupStateDamaged,
    RebalanceCompleted,
    RecordMalformed,
    RecordSkipped,
)
from groupreplay.state.events.lag_events import StopCost
from groupreplay.state.events.offset_events import (
    OffsetRewound,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsReset,
    OffsetsSet,
    OffsetsSummary,
)
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.policy.context import DEFAULT_RETENTION_MS
from groupreplay.timeline.stop_cost import cost_event
from support.histories.builders import (
    CONTEXT,
    asked_for,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
    replay,
)
from support.histories.modern_builders import first_join, operation
from support.incident_stories import told_incident


def bad_record(kind: type[Fact]) -> Event:
    """An event about a record that could not be used."""
    fact = kind(  # type: ignore[call-arg]
        topic="__consumer_offsets",
        partition=3,
        offset=9,
        key_type=None,
        version=None,
        field="group",
        byte_position=2,
        reason="needs 300 bytes, 4 are left",
        suppressed=2,
    )
    cause = Cause(topic="__consumer_offsets", partition=3, offset=9, timestamp_ms=7)
    return Event(
        fact=fact,
        group_id=None,
        group_type=GroupType.CLASSIC,
        simple=False,
        time_ms=7,
        evidence=Evidence.LOG,
        history=History.PARTIAL,
        cause=cause,
        ordinal=0,
    )


def summary() -> Event:
    """What the job says once a day, about no group at all."""
    fact = OffsetsSummary(since_ms=0, until_ms=86_400_000, expired=5_000)
    place = Cause(topic="group-probes", partition=3, offset=9, timestamp_ms=86_400_007)
    return replace(bad_record(RecordSkipped), fact=fact, cause=place, time_ms=place.timestamp_ms)


def gap() -> Event:
    """What the job says when the log is not the one that it had read."""
    lost = UnreadRange(partition=3, read_to=900, log_start=0, log_end=17)
    return gap_event(JobGap(reason="topic_recreated", partitions=(lost,)), 86_400_000)


def quarantined() -> Event:
    """The event about a group that was set aside."""
    fact = GroupQuarantined(
        what="group",
        error="ValueError",
        raised_in="state/replay/classic.py:99 apply_value",
        partition=3,
        offset=9,
        records=2,
        release="0.1.0",
    )
    return replace(bad_record(RecordSkipped), fact=fact, group_id="g", severity=None)


def state_damaged() -> Event:
    """The event about a group whose stored state is damaged."""
    fact = GroupStateDamaged(
        what="group", damage="snapshot of version 1 is damaged: its bytes do not have its checksum"
    )
    return replace(bad_record(RecordSkipped), fact=fact, group_id="g", severity=None)


def condition_events() -> Iterator[Event]:
    """Each example as it fires, proved by a record, and as it resolves because time has passed."""
    examples = [(kind, example) for kind in CONDITIONS for example in kind.EXAMPLES]
    for number, (kind, example) in enumerate(examples):
        firing = kind(
            status="firing",
            condition_id=f"0123456789abcdef-{kind.NAME}-100000",
            since_ms=100_000,
            threshold_ms=60_000,
            runbook=f"docs/runbook.md#{runbook_section(kind.NAME)}",
            **example.fields,
        )
        cause = Cause(topic="__consumer_offsets", partition=3, offset=100 + number, timestamp_ms=300_000)
        about_job = kind.NAME.startswith("job.")
        event = Event(
            fact=firing,
            group_id=None if about_job else "g",
            group_type=GroupType.CLASSIC if example.fields.get("blockers") is None else GroupType.CONSUMER,
            simple=False,
            time_ms=300_000,
            evidence=example.evidence,
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


def of_offsets() -> list[Event]:
    """Every fact about offsets, told by two groups."""
    _, offsets = replay(
        [
            commit("t", 0, 9_000, at=1_000),
            commit("t", 0, 100, at=2_000),
            commit("u", 0, 7, at=2_000),
            no_offset("u", 0, at=3_000),
            no_offset("t", 0, at=2_000 + DEFAULT_RETENTION_MS),
            commit("t", 0, 50, at=3_000 + DEFAULT_RETENTION_MS),
        ]
    )
    owner = member("a", [0])
    _, by_hand = replay(
        [
            generation(1, owner, at=1),
            commit("t", 0, 9, at=2),
            emptied(2, at=9),
            *(commit("t", number, 5, at=1_000) for number in range(2)),
            asked_for(at=60_000),
        ]
    )
    return [
        event
        for event in (*offsets, *by_hand)
        if isinstance(event.fact, OffsetsExpired | OffsetsDeleted | OffsetsReset | OffsetsSet | OffsetRewound)
    ]


def cost(events: Iterable[Event]) -> Event:
    """What the first completed rebalance of these events cost."""
    completed = next(event for event in events if isinstance(event.fact, RebalanceCompleted))
    stop = StopCost(
        since_ms=1_000,
        until_ms=completed.time_ms,
        partitions=6,
        added=1_234_000,
        added_least=1_100_000,
        added_most=1_300_000,
        lag_begin=12,
        lag_end=1_234_012,
        lag_peak=1_300_000,
        caught_up_ms=completed.time_ms + 720_000,
        lag_unknown=0,
        text="+ 1.2 M records on 6 partitions, caught up 12 min 0 s later",
    )
    return cost_event(written(completed), stop, 0)


def one_of_each() -> list[Event]:
    """Every fact there is, told by a history, and every condition, firing and resolved, made by hand."""
    _, events = replay(
        [
            asked_for(at=1_000),
            generation(1, member("i-1", [0], instance_id="i"), member("b", [1]), at=2_000),
            generation(
                2, member("i-2", [0], instance_id="i"), member("b", [1], subscribed=["t", "u"]), at=5_000
            ),
            emptied(3, at=9_000),
            gone(at=20_000),
        ]
    )
    _, modern = replay([asked_for(at=1_000), *operation(5_000, gone(), first_join())])
    bad = [bad_record(RecordMalformed), bad_record(RecordSkipped)]
    return [
        *events,
        *modern,
        *of_offsets(),
        summary(),
        gap(),
        *bad,
        quarantined(),
        state_damaged(),
        *told_incident(),
        cost(events),
        *condition_events(),
    ]


def written(event: Event) -> dict[str, Any]:
    """The event as a consumer parses it."""
    parsed: dict[str, Any] = json.loads(cloud_event(event, CONTEXT, event.time_ms + 5).value)
    return parsed
