"""A detector runs when what it depends on has changed or its time has come: it finds what all, always, would find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Context, Event, Group, Observations
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import CONTEXT, GROUP, Raw, commit, emptied, observed, generation, member, gone, no_offset, asked_for
from support.histories.evaluations import all_always
from support.histories.probed import probe
from support.histories.strategies import WrittenLog, histories, logs, outlived

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
#: So many evaluations at moments at which nothing happens.
_MOMENTS = 100
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")


@st.composite
def contexts(draw: Any) -> Context:
    """Retentions from minutes to weeks, rules of every release, groups that matter, that do not, and that may."""
    matters = draw(st.sampled_from([None, None, True]))
    return replace(
        CONTEXT,
        probing=draw(st.booleans()),
        retention_ms=draw(st.sampled_from([2 * _MINUTE_MS, 2 * _HOUR_MS, _DAY_MS, 2*_DAY_MS, 7 * _DAY_MS, None])),
        retention_check_interval_ms=draw(st.sampled_from([None, 1_000, _HOUR_MS])),
        broker_release=draw(st.sampled_from([None, (2, 0), (2, 3), (3, 1), (4, 0)])),
        policy=Policy(groups=(GroupRule(groups="*", matters=matters),)),
        catch_up_after_ms=100 * _DAY_MS,
    )


def _waits(context: Context) -> st.SearchStrategy[int]:
    """Times between two operations: short ones, and those that lead near a deadline."""
    retention_ms = context.assumed_retention_ms
    shares = [retention_ms * tenths // 10 for tenths in (3, 5, 8, 9, 10)]
    return st.sampled_from([0, 1, 30_000, 50_000, 150_000, _HOUR_MS, _DAY_MS - _HOUR_MS, *shares])


def later(raw: Raw, by_ms: int) -> Raw:
    """The record, written so much later."""
    value = raw.value
    for name in ("commit_timestamp_ms", "current_state_timestamp_ms"):
        if getattr(value, name, -1) >= 0:
            value = replace(value, **{name: getattr(value, name) + by_ms})
    return replace(raw, value=value, at=raw.at + by_ms)


#: Requests, with the numbers that only old clients and tools write.
@st.composite
def _request(draw: Any, at: int, context: Context) -> list[Raw]:
    kind = draw(st.sampled_from(["commit"] * 5 + ["round"] * 3 + ["static", "emptied", "asked", "drop", "gone", "series"]))
    places = draw(st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 2)), min_size=1, max_size=3, unique=True))
    retention_ms = context.assumed_retention_ms
    if kind in ("commit",):
        past_ms = draw(st.sampled_from([0, 0, 0, 1_000, retention_ms // 2, retention_ms * 9 // 10, retention_ms]))
        own = draw(st.sampled_from([None, None, None, 0, _HOUR_MS, _DAY_MS, retention_ms]))
        fields = {} if own is None else {"version": 1, "expire_timestamp_ms": at + own}
        return [commit(*place, draw(st.integers(0, 9)), at=at, commit_at=at - past_ms, **fields) for place in places]
    if kind == "series":
        gap = draw(st.sampled_from([1_000, 5_000, 20_000]))
        return [commit(*place, n // 2, at=at + n * gap) for n in range(draw(st.sampled_from([3, 25]))) for place in places]
    if kind == "static":
        names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True))
        return [generation(1, *(member(n, [0], topic=draw(st.sampled_from("tu")), instance_id="i-" + n) for n in names), at=at)]
    if kind == "round":
        names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
        kindof = draw(st.sampled_from(["consumer"] * 4 + ["connect"]))
        return [generation(draw(st.integers(1, 5)), *(member(n, draw(st.lists(st.integers(0, 2), max_size=2, unique=True)), topic=draw(st.sampled_from("tu"))) for n in names), at=at, protocol_type=kindof)]
    if kind == "emptied":
        return [emptied(draw(st.integers(1, 5)), at=at)]
    if kind == "asked":
        return [asked_for(at=at)]
    if kind == "gone":
        return [gone(at=at)]
    return [no_offset(*place, at=at) for place in places]


@st.composite
def requests(draw: Any, context: Context) -> list[Raw]:
    records, at, offset = [], 10_000_000, 10
    for _ in range(draw(st.integers(2, 10))):
        for raw in draw(_request(at, context)):
            records.append(replace(raw, offset=offset))
            offset += 1
            at = raw.at
        offset += 2
        at += draw(_waits(context) | st.sampled_from([-70_000, -5_000]))
    return records


@st.composite
def stretched(draw: Any, context: Context) -> list[Raw]:
    """A log of any kind with waits between its operations."""
    log = draw(histories().map(WrittenLog) | logs())
    if not log.records:
        return []
    records, begin, by_ms = [], 0, 0
    for end in log.ends:
        records += [later(raw, by_ms) for raw in log.records[begin:end]]
        by_ms += draw(_waits(context))
        begin = end
    return records


@st.composite
def probes_of(draw: Any, records: list[Raw]) -> list[Probe]:
    """Answers at any time of a history, each recorded once."""
    first, last = records[0].at, records[-1].at
    times = draw(st.lists(st.integers(first, last + _HOUR_MS), max_size=8, unique=True))
    members = draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
    return [
        probe(at, draw(st.sampled_from(STATES)), *members, offset=place)
        for place, at in enumerate(sorted(times))
    ]


def told(records: list[Raw], probes: list[Probe], context: Context, *, at_once: bool) -> list[tuple[str, int, Any]]:
    """Ids, times and facts of all events, in order; the log is known until every deadline has passed."""
    group, waiting, events = Group(GROUP, context), probes, list[Event]()
    for batch in [records] if at_once else [list(b) for _, b in groupby(records, key=lambda raw: raw.at)]:
        seen = observed(batch)
        events += group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=waiting), 0)
        waiting = []
    events += group.expire(end_ms(records, context))
    return [(cloud_event(event, context, event.time_ms).id, event.time_ms, event.fact) for event in events]


def end_ms(records, context):
    return records[-1].at + 2 * context.assumed_retention_ms + 2 * _DAY_MS


def compare(records, probes, context):
    step = max(1_009, (end_ms(records, context) - records[0].at) // _MOMENTS)
    with all_always(step):
        expected = told(records, probes, context)
    got = told(records, probes, context)
    assert got == expected


@given(st.data())
def test_near_expiry(data: st.DataObject) -> None:
    """x"""
    context = data.draw(contexts(), label="context")
    records = data.draw(stretched(context), label="records")
    if not records:
        return
    probes = data.draw(probes_of(records), label="probes")
    compare(records, probes, context)
