"""A coordinator's clock that was ahead and is back leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import inspect

from groupreplay.codecs import GroupMetadataValue, OffsetCommitValue
from groupreplay.state import Context, Event, Group
from groupreplay.state.clock_setback import is_setback, set_back
from groupreplay.state.conditions.offsets_expiring import OffsetsExpiring
from groupreplay.state.events.group_events import GroupEmptied
from groupreplay.state.output.envelope import event_id
from groupreplay.state.snapshot.commit_intervals import RHYTHM, SPAN_MS
from groupreplay.state.snapshot.group_snapshot import (
    ActiveCondition,
    ConditionKey,
    Conditions,
    GroupSnapshot,
    LogPosition,
)
from groupreplay.state.snapshot.offsets import COMMITTED, MOVED, Offsets
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    commit,
    emptied,
    facts,
    generation,
    member,
    names,
    no_offset,
    observed,
    placed,
)

AHEAD_MS = 2_000_000_000_000
BACK_MS = 1_999_900_000_000
MINUTE = 60_000
DAY = 24 * 60 * MINUTE

#: Fields that end in ``_ms`` and stay: lengths of time, times of the prober's clock, and what is done before.
STAYING = {
    "probes.waiting.taken_ms": "the prober's clock",
    "probes.waiting.interval_ms": "a length",
    "probes.waiting.unseen_ms": "a length",
    "probes.waiting.written_ms": "the prober's clock",
    "probes.waiting.ahead_ms": "a length",
    "probes.applied_ms": "the prober's clock",
    "probes.interval_ms": "a length",
    "group.classic.members.rebalance_timeout_ms": "a length",
    "group.classic.members.session_timeout_ms": "a length",
    "group.modern.members.rebalance_timeout_ms": "a length",
    "group.modern.members.classic_session_timeout_ms": "a length",
    "group.former.rebalance_timeout_ms": "a length",
    "group.former.session_timeout_ms": "a length",
    "group.open_rebalance.members.rebalance_timeout_ms": "a length",
    "group.open_rebalance.members.session_timeout_ms": "a length",
    "group.in_progress.since_ms": "the prober's clock",
    "group.in_progress.unseen_ms": "a length",
    "group.in_progress.missed.asked_ms": "the prober's clock",
    "group.in_progress.missed.answered_ms": "the prober's clock",
    "group.in_progress.phases.asked_ms": "the prober's clock",
    "group.in_progress.phases.answered_ms": "the prober's clock",
    "group.in_progress.phases.last_asked_ms": "the prober's clock",
    "group.in_progress.phases.unseen_ms": "a length",
    "slot_history.slots.rebalance_timeout_ms": "a length",
    "slot_history.durations_ms": "lengths",
    "transactions.interval_ms": "a length",
    "transactions.taken_ms": "the prober's clock",
    "transactions.written_ms": "the prober's clock",
    "transactions.transactions.since_ms": "a time behind everything that readers get of the partition",
    "offsets.expire_timestamps_ms": "what a client asked for",
    "offsets.resumed_ms": "cut in the table that is made of the snapshot",
    "log.pending.timestamp_ms": "the operation is completed before",
    "losses.changes.timestamp_ms": "the changes are reported before",
    "losses.changes.lost.at_ms": "the changes are reported before",
    "losses.unclear.at_ms": "the deletions are reported before",
    "losses.unclear.until_ms": "the deletions are reported before",
    "losses.unclear.deadline_ms": "the deletions are reported before",
    "sets.waiting.since_ms": "the occasions are reported before",
}


def present(kind: Any) -> Any:
    """The type without None."""
    if isinstance(kind, inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


#: By type a value with everything present and every time far ahead.
FILLINGS: dict[type, Callable[[Any, str], Any]] = {
    inspect.IntType: lambda kind, name: AHEAD_MS if name.endswith("_ms") else 1,
    inspect.StrType: lambda kind, name: "s",
    inspect.BytesType: lambda kind, name: (
        msgspec.json.encode({"since_ms": AHEAD_MS}) if name == "condition" else b""
    ),
    inspect.BoolType: lambda kind, name: True,
    inspect.EnumType: lambda kind, name: next(iter(kind.cls)).value,
    inspect.LiteralType: lambda kind, name: kind.values[0],
    inspect.Metadata: lambda kind, name: filled(kind.type, name),
    inspect.ListType: lambda kind, name: [filled(kind.item_type, name)],
    inspect.VarTupleType: lambda kind, name: [filled(kind.item_type, name)],
    inspect.TupleType: lambda kind, name: [filled(each, name) for each in kind.item_types],
    inspect.DictType: lambda kind, name: {filled(kind.key_type): filled(kind.value_type, name)},
    # An array whose first item is the tag, if the struct is one of a union.
    inspect.StructType: lambda kind, name: [
        *([] if kind.tag is None else [kind.tag]),
        *(filled(field.type, field.name) for field in kind.fields),
    ],
}


def filled(kind: Any, name: str = "") -> Any:
    """A value of this type for a field."""
    kind = present(kind)
    return FILLINGS[type(kind)](kind, name)


def times(value: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Every number in a field that ends in ``_ms``, with the names of the fields that lead to it."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from times(getattr(value, name), f"{path}.{name}".lstrip("."))
    elif isinstance(value, dict):
        for one in value.values():
            yield from times(one, path)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from times(one, path)
    elif isinstance(value, int) and path.endswith("_ms"):
        yield path, value


def everything() -> GroupSnapshot:
    """A snapshot in which all fields are set; the keys of active conditions are no text in a document."""
    snapshot = GroupSnapshot()
    for name, kind in fields_of(GroupSnapshot).items():
        if name != "conditions":
            setattr(snapshot, name, msgspec.convert(filled(kind, name), _python_type(present(kind))))
    active = fields_of(Conditions)["active"]
    assert isinstance(active, inspect.DictType)
    held = msgspec.convert(filled(active.value_type), ActiveCondition)
    snapshot.conditions = Conditions({ConditionKey("k", "s"): held}, AHEAD_MS)
    return snapshot


def _python_type(kind: Any) -> Any:
    return dict[str, int] if isinstance(kind, inspect.DictType) else getattr(kind, "cls", bytes)


def fields_of(struct: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    """The types of its fields."""
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)
    return {one.name: one.type for one in kind.fields}


def test_no_time_is_left_ahead() -> None:
    """Every time in a snapshot is cut or forgotten, unless it is known why it stays; so is that of a new field."""
    snapshot = everything()
    assert {path for path, _ in times(snapshot)} > {*STAYING}
    set_back(snapshot, Offsets(), BACK_MS)
    assert {path for path, at_ms in times(snapshot) if at_ms > BACK_MS} == {*STAYING}
    assert snapshot.slot_history is not None
    assert snapshot.slot_history.marks == []
    (condition,) = snapshot.conditions.active.values()
    assert msgspec.json.decode(condition.condition) == {"since_ms": BACK_MS}


def test_conditions_are_evaluated_then() -> None:
    """Also if no detector waits for a time: what holds may rest on what was forgotten."""
    snapshot = GroupSnapshot()
    set_back(snapshot, Offsets(), BACK_MS)
    assert snapshot.conditions.next_evaluation_ms == BACK_MS


def test_what_is_earlier_stays() -> None:
    """A clock that goes back to a moment after everything that is remembered changes nothing."""
    snapshot, former = everything(), everything()
    set_back(snapshot, Offsets(), AHEAD_MS)
    assert (snapshot.log.setbacks, former.log.setbacks) == (2, 1)
    snapshot.log.setbacks = 1
    assert snapshot == former


def test_offsets_are_cut() -> None:
    """The commits, the moves, and the spans of the rhythm, whose gaps are kept."""
    rows, moved, rhythm = np.zeros(2, COMMITTED), np.zeros(2, MOVED), np.zeros(2, RHYTHM)
    rows["partition"], rows["commit_timestamp_ms"] = [0, 1], [AHEAD_MS, 5]
    moved["since_ms"] = [AHEAD_MS, 6]
    rhythm["span"], rhythm["repeats"] = [BACK_MS // SPAN_MS, AHEAD_MS // SPAN_MS], [3, 4]
    rhythm["gaps"][:, 2] = [30, 40]
    offsets = Offsets(["t"], rows, moved=moved, rhythm=rhythm)
    assert offsets.oldest_commit_ms() == 5
    offsets.resumed_ms = (AHEAD_MS, 7)
    offsets.set_back(BACK_MS)
    assert offsets.resumed_ms == (BACK_MS, 7)
    assert offsets.rows["commit_timestamp_ms"].tolist() == [BACK_MS, 5]
    assert offsets.moved["since_ms"].tolist() == [BACK_MS, 6]
    (total,) = offsets.rhythm
    assert (total["span"], total["repeats"], total["gaps"][2]) == (BACK_MS // SPAN_MS, 7, 70)


@pytest.mark.parametrize(
    ("last_ms", "at_ms", "expected"),
    [(-1, 5, False), (100_000, 40_000, False), (100_000, 39_999, True), (100_000, 200_000, False)],
)
def test_more_than_a_minute(last_ms: int, at_ms: int, expected: bool) -> None:
    """Clocks of brokers differ a little: only a record that is earlier by more than a minute is a setback."""
    assert is_setback(LogPosition(last_timestamp_ms=last_ms), at_ms) is expected


@pytest.mark.parametrize(
    "earlier",
    [
        commit("t", 2, 0, at=5_000_000),
        no_offset("t", 1, at=5_000_000),
        asked_for(at=5_000_000),
        generation(1, member("a", [1], topic="u"), at=5_000_000),
    ],
    ids=["commit", "tombstone of an offset", "request to join", "generation"],
)
def test_a_slightly_earlier_record_takes_nothing_back(earlier: Raw) -> None:
    """The finding: it was evaluated at its own time, so a condition ended before it began, and began again."""
    context = replace(CONTEXT, retention_ms=20 * MINUTE)
    began_ms = earlier.at + 3_000
    start_ms = began_ms - 18 * MINUTE
    history = placed([commit("t", 0, 0, at=start_ms), commit("t", 1, 0, at=began_ms + 1_000), earlier])
    group = Group(GROUP, context)
    events = [event for raw in history for event in group.apply(observed([raw]), 0)]
    events += group.expire(began_ms + MINUTE)
    expiring = [event for event in events if isinstance(event.fact, OffsetsExpiring)]
    assert [(event.fact.status, event.time_ms) for event in expiring] == [("firing", began_ms)]


def shifted(raw: Raw, by_ms: int) -> Raw:
    """The record as a clock that is off writes it."""
    value = raw.value
    if isinstance(value, GroupMetadataValue):
        value = replace(value, current_state_timestamp_ms=value.current_state_timestamp_ms + by_ms)
    elif isinstance(value, OffsetCommitValue):
        value = replace(value, commit_timestamp_ms=value.commit_timestamp_ms + by_ms)
    return replace(raw, value=value, at=raw.at + by_ms)


def after(records: list[Raw], later_ms: int, context: Context = CONTEXT) -> tuple[Group, list[Event]]:
    """The group and the events some time after the last record, with a restart after each record."""
    blob, events = Group(GROUP, context).snapshot(), []
    for raw in records:
        group = Group.from_snapshot(GROUP, context, blob)
        events += group.apply(observed([raw]), 0)
        blob = group.snapshot()
    group = Group.from_snapshot(GROUP, context, blob)
    return group, events + group.expire(records[-1].at + later_ms)


def flapping(first: int, count: int, at_ms: int) -> list[Raw]:
    """A member comes back under another id, once a minute."""
    return [
        generation(
            number, member(f"m{number}", [0], client_id="c", host="/h"), at=at_ms + MINUTE * (number - first)
        )
        for number in range(first, first + count)
    ]


@pytest.mark.parametrize("jump_ms", [2 * MINUTE, 3_600_000, DAY])
def test_flapping_ends_with_its_window(jump_ms: int) -> None:
    """The finding: a member that flapped while the clock was ahead was reported for as long as the clock was ahead."""
    start = BACK_MS
    ahead = [shifted(one, jump_ms) for one in flapping(1, 6, start)]
    back = generation(7, member("m7", [0], client_id="c", host="/h"), at=start + 7 * MINUTE)
    group, events = after(placed([*ahead, back]), 20 * MINUTE)
    assert [one["condition"] for one in group.describe()["conditions"]] == []
    assert names(events).count("member.flapping") == 2
    deadline_ms = group.next_deadline_ms()
    assert deadline_ms is None or deadline_ms <= start + 30 * MINUTE


def test_what_waits_for_a_time_ahead_is_done_at_once() -> None:
    """An open operation, and a rewind that waits for the end of its moment, do not wait for a day."""
    history = [
        commit("t", 0, 100, at=BACK_MS),
        commit("t", 0, 5, at=BACK_MS + DAY),
        no_offset("t", 0, at=BACK_MS + DAY),
        commit("u", 0, 1, at=BACK_MS + MINUTE),
    ]
    group, events = after(placed(history), 0)
    assert names(events) == ["offsets.deleted", "offset.rewound"]
    assert [one["topic"] for one in group.describe()["offsets"]] == ["u"]


def test_a_state_that_began_ahead() -> None:
    """It is reported as it was written; then it has begun no later than the clock is back."""
    history = [
        generation(1, member("a", [0]), at=BACK_MS),
        shifted(emptied(2, at=BACK_MS + MINUTE), DAY),
        commit("t", 0, 1, at=BACK_MS + 2 * MINUTE),
    ]
    group, events = after(placed(history), 0)
    (since_ms,) = [fact.since_ms for fact in facts(events) if isinstance(fact, GroupEmptied)]
    assert since_ms == BACK_MS + MINUTE + DAY
    assert group.describe()["since_ms"] == BACK_MS + 2 * MINUTE


def test_the_same_moment_comes_again() -> None:
    """A condition that began while the clock was ahead begins once more at the same moment, under another id."""
    context = replace(CONTEXT, retention_ms=7 * DAY)
    hour = 60 * MINUTE
    history = [
        commit("t", 0, 1, at=BACK_MS),
        shifted(commit("u", 0, 1, at=BACK_MS + 5 * DAY + 12 * hour), DAY),
        commit("u", 0, 2, at=BACK_MS + 5 * DAY + 13 * hour),
    ]
    _, events = after(placed(history), 20 * hour, context)
    told = [(event.time_ms - BACK_MS, getattr(event.fact, "status", None)) for event in events]
    assert told == [(6 * DAY, "firing"), (5 * DAY + 13 * hour, "resolved"), (6 * DAY, "firing")]
    ids = [event_id(event, context) for event in events]
    assert ids[2] == f"{ids[0]}-1"


def test_a_run_that_was_applied_in_part() -> None:
    """It begins before the last record that was applied, and shows no setback."""
    records = placed([commit("t", 0, number, at=BACK_MS + number * 10 * MINUTE) for number in range(3)])
    group = Group(GROUP, CONTEXT)
    group.apply(observed(records[:2]), 0)
    group.apply(observed(records), 0)
    assert (group._snapshot.log.setbacks, group._snapshot.log.last_timestamp_ms) == (0, records[2].at)
