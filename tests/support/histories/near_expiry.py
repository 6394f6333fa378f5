"""Hypothesis strategies for groups whose clock runs near the expiry of their offsets, with the job's settings.

Waits between two operations lead near a deadline; commits have times and expiries that only old clients write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from groupreplay.state import Context, Severity
from groupreplay.state.policy.rules import GroupRule, Once, PlannedWindow, Policy
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import (
    CONTEXT,
    Raw,
    asked_for,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
)
from support.histories.probed import probe
from support.histories.strategies import WrittenLog, histories, logs

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
_RETENTIONS_MS: Final = (2 * MINUTE_MS, 2 * HOUR_MS, DAY_MS, 2 * DAY_MS, 7 * DAY_MS, None)
_RELEASES: Final = (None, (2, 0), (2, 3), (3, 1), (4, 0))
_BEGIN_MS: Final = 10_000_000
#: Thresholds so small that conditions come and go inside these histories.
_QUICK: Final = {
    "rebalance.slow": {"threshold_ms": 2_000},
    "rebalance.stuck": {"threshold_ms": 5_000, "wedged_ms": 20_000},
    "rebalance.timeouts": {"times": 1, "window_ms": 90_000},
    "rebalance.storm": {"window_ms": 30_000, "least": 1, "per_slot": 0, "beyond": 1},
    "member.flapping": {"times": 1, "window_ms": 20_000},
    "member.idle": {"rounds": 1, "least_ms": 10_000},
    "static.conflict": {"window_ms": 100_000},
    "static.crash_loop": {"times": 1, "window_ms": 20_000},
    "leader.flapping": {"times": 1},
    "partition.poison": {"generations": 1, "least_ms": 60_000},
    "owner.silent": {"commits": 5},
    "commits.paused": {"commits": 5},
    "offsets.expiring": {"threshold_ms": 90_000},
}
_WINDOW: Final = PlannedWindow(
    groups="*",
    times=Once(from_ms=_BEGIN_MS + 100_000, until_ms=_BEGIN_MS + HOUR_MS),
    severity_cap=Severity.INFO,
)
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
_KINDS: Final = (*["commit"] * 5, *["series", "round"] * 2, "static", "emptied", "asked", "dropped", "gone")


@st.composite
def contexts(draw: Any) -> Context:
    """Retentions from minutes to weeks, rules of several releases, groups that matter, and that may by their age."""
    return replace(
        CONTEXT,
        probing=draw(st.booleans()),
        retention_ms=draw(st.sampled_from(_RETENTIONS_MS)),
        retention_check_interval_ms=draw(st.sampled_from([None, 1_000, HOUR_MS])),
        broker_release=draw(st.sampled_from(_RELEASES)),
        policy=Policy(
            groups=(GroupRule(groups="*", matters=draw(st.sampled_from([None, None, True]))),),
            thresholds=draw(st.sampled_from([{}, {}, _QUICK])),
            windows=draw(st.sampled_from([(), (), (), (_WINDOW,)])),
        ),
    )


def _waits(context: Context) -> st.SearchStrategy[int]:
    """Short waits, waits until near a deadline, and clocks that go back."""
    shares = [context.assumed_retention_ms * tenths // 10 for tenths in (3, 5, 8, 9, 10)]
    return st.sampled_from([-70_000, -5_000, 0, 1, 30_000, 50_000, 150_000, HOUR_MS, DAY_MS, *shares])


@st.composite
def requests(draw: Any, context: Context) -> list[Raw]:
    """Requests to a classic group, in log order."""
    records: list[Raw] = []
    at, offset = _BEGIN_MS, 10
    for _ in range(draw(st.integers(2, 10))):
        for raw in draw(_request(at, context.assumed_retention_ms)):
            records.append(replace(raw, offset=offset))
            offset, at = offset + 1, raw.at
        offset += 2
        at += draw(_waits(context))
    return records


@st.composite
def _request(draw: Any, at: int, retention_ms: int) -> list[Raw]:
    kind = draw(st.sampled_from(_KINDS))
    places = draw(
        st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 2)), min_size=1, max_size=3, unique=True)
    )
    number = draw(st.integers(0, 5))
    if kind == "commit":
        commits: list[Raw] = draw(_commits(places, at, retention_ms))
        return commits
    if kind == "series":
        gap_ms = draw(st.sampled_from([1_000, 5_000, 20_000]))
        times = range(at, at + draw(st.sampled_from([3, 25])) * gap_ms, gap_ms)
        return [
            commit(topic, partition, turn // 2, at=one)
            for turn, one in enumerate(times)
            for topic, partition in places
        ]
    if kind in ("round", "static"):
        return [draw(_generation(number, at, is_static=kind == "static"))]
    others = {"emptied": [emptied(number, at=at)], "asked": [asked_for(at=at)], "gone": [gone(at=at)]}
    return others.get(kind) or [no_offset(topic, partition, at=at) for topic, partition in places]


@st.composite
def _commits(draw: Any, places: list[tuple[str, int]], at: int, retention_ms: int) -> list[Raw]:
    """One request; its commits may be dated before it, and may have an expiry of their own."""
    past_ms = draw(st.sampled_from([0, 0, 0, 1_000, retention_ms // 2, retention_ms * 9 // 10, retention_ms]))
    kept_ms = draw(st.sampled_from([None, None, None, 0, HOUR_MS, DAY_MS, retention_ms]))
    fields = {} if kept_ms is None else {"version": 1, "expire_timestamp_ms": at + kept_ms}
    offsets = draw(st.lists(st.integers(0, 9), min_size=len(places), max_size=len(places)))
    return [
        commit(*place, offset, at=at, commit_at=at - past_ms, **fields)
        for place, offset in zip(places, offsets, strict=True)
    ]


@st.composite
def _generation(draw: Any, number: int, at: int, *, is_static: bool) -> Raw:
    """Members with one topic each; static ones of one generation may come back with another topic."""
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    owned = st.lists(st.integers(0, 2), max_size=2, unique=True)
    members = [
        member(
            name,
            draw(owned),
            topic=draw(st.sampled_from("tu")),
            instance_id=f"i-{name}" if is_static else None,
        )
        for name in names
    ]
    kind = draw(st.sampled_from(["consumer", "consumer", "consumer", "connect"]))
    return generation(1 if is_static else number, *members, at=at, protocol_type=kind)


@st.composite
def stretched(draw: Any, context: Context) -> list[Raw]:
    """A log of any kind of group with waits between its operations."""
    log: WrittenLog = draw((histories().map(WrittenLog) | logs()).filter(lambda log: bool(log.records)))
    records: list[Raw] = []
    begin, by_ms = 0, 0
    for end in log.ends:
        records += [_later(raw, by_ms) for raw in log.records[begin:end]]
        begin, by_ms = end, by_ms + max(0, draw(_waits(context)))
    return records


def _later(raw: Raw, by_ms: int) -> Raw:
    """The record, written so much later."""
    names = ("commit_timestamp_ms", "current_state_timestamp_ms")
    times = {name: getattr(raw.value, name) + by_ms for name in names if getattr(raw.value, name, -1) >= 0}
    return replace(raw, value=replace(raw.value, **times) if times else raw.value, at=raw.at + by_ms)


def probes_of(records: list[Raw]) -> st.SearchStrategy[list[Probe]]:
    """Answers at any time of a history and in the hour after it, each recorded once."""
    first, last = min(raw.at for raw in records), max(raw.at for raw in records)
    return probes_between(first, last + HOUR_MS, _STATES, most=8)


@st.composite
def probes_between(draw: Any, first: int, last: int, of: Sequence[str], *, most: int) -> list[Probe]:
    """Answers with these states at any of these times."""
    times = draw(st.lists(st.integers(first, last), max_size=most, unique=True))
    members = draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
    states = draw(st.lists(st.sampled_from(of), min_size=len(times), max_size=len(times)))
    return [
        probe(at, state, *members, offset=place)
        for place, (at, state) in enumerate(zip(sorted(times), states, strict=True))
    ]
