"""The slot history of a group: its limits, and its behaviour with gaps in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.codecs import MemberMetadata
from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.policy.context import OwnSettings, SessionSettings
from groupreplay.state.replay.generation_diff import MembershipChange
from groupreplay.state.replay.report import Report
from groupreplay.state.replay.slot_history import (
    KEPT_MS,
    MOST_TIMES,
    learn,
    learn_probe,
    session_settings,
    unsettled,
)
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot, read
from groupreplay.state.snapshot.group_state import GroupState, RebalanceInProgress
from groupreplay.state.snapshot.members import SlotHistory
from support.histories.builders import (
    CONTEXT,
    GROUP,
    PARTITION,
    Raw,
    asked_for,
    emptied,
    generation,
    gone,
    member,
    replay,
)
from support.histories.connect_blobs import worker

MINUTE = 60_000
OWN = {"share.session.timeout.ms": 8_000}


def memory(history: list[Raw]) -> SlotHistory | None:
    """The slot history in the snapshot of a group."""
    group, _ = replay(history)
    return read(group.snapshot()).slot_history


def learned(
    *rounds: list[MemberMetadata], every: int = MINUTE, protocol_type: str = "consumer"
) -> SlotHistory:
    """The history after generations of these members, at equal intervals."""
    history = [asked_for(at=1)]
    history += [
        generation(number, *members, at=number * every, protocol_type=protocol_type)
        for number, members in enumerate(rounds, 1)
    ]
    habits = memory(history)
    assert habits is not None
    return habits


def pods(first: int, count: int) -> list[MemberMetadata]:
    """Members at different places."""
    return [member(f"m{number}", [number], host=f"/{number}") for number in range(first, first + count)]


def test_what_changed_is_marked() -> None:
    """Generations with the slots that changed; a generation of the same members has none."""
    marks = learned(pods(0, 2), pods(0, 2), pods(1, 2)).marks
    assert [(mark.at_ms, mark.generations, len(mark.slots)) for mark in marks] == [
        (MINUTE, 1, 2),
        (2 * MINUTE, 1, 0),
        (3 * MINUTE, 1, 2),
    ]


def test_a_slot_that_comes_back_is_the_same() -> None:
    """Its holder leaves in one generation, and another member id takes it in a later one."""
    other = member("other", [9])
    first, second = (member(name, [0], client_id="c", host="/h") for name in ("c-1", "c-2"))
    marks = learned([first, other], [other], [second, other]).marks
    assert len({*marks[1].slots, *marks[2].slots}) == 1


def test_a_hole_in_the_history_teaches_nothing() -> None:
    """Then joined and left members and the number of generations are unknown; idle members are known."""
    idle = member("idle", [])
    habits = memory([generation(5, *pods(0, 2), at=MINUTE), generation(9, *pods(1, 2), idle, at=2 * MINUTE)])
    assert habits is not None
    assert (habits.marks, habits.number) == ([], 9)
    assert [(slot.member_id, slot.idle_rounds) for slot in habits.slots.values()] == [("idle", 1)]


def test_what_is_old_is_forgotten() -> None:
    """Entries are dropped by the next operation that is two hours later."""
    habits = learned(pods(0, 3), pods(1, 3), pods(1, 3), every=KEPT_MS)
    assert (len(habits.marks), habits.slots) == (1, {})


def test_there_is_a_cap() -> None:
    """For a group that changes all the time: times of a slot, free slots, marks; one operation may exceed them."""
    restarts = learned(
        *([member(f"c-{number}", [0], client_id="c", host="/h")] for number in range(60)), every=1
    )
    (slot,) = restarts.slots.values()
    assert MOST_TIMES <= len(slot.returned_ms) <= MOST_TIMES + 1
    assert len(learned(*(pods(20 * number, 20) for number in range(25)), every=1).slots) <= 440
    assert len(learned(*([pods(0, 1)] * 310), every=1).marks) <= 301


def test_a_group_that_is_gone_leaves_nothing() -> None:
    """A new group with the same name has no history either."""
    history = [asked_for(at=1), generation(1, member("a", [0]), at=2), emptied(2, at=3), gone(at=4)]
    assert memory(history) is None


def test_generations_for_a_new_configuration_of_connect_do_not_count() -> None:
    """Nor does the next generation, which assigns what the first has revoked; others count."""
    rounds = [[worker("w", offset)] for offset in (5, 5, 6, 6, 6, 7, 8, 8, 8)]
    habits = learned(*rounds, protocol_type="connect")
    counted = {mark.at_ms // MINUTE for mark in habits.marks if mark.generations}
    assert counted == {1, 2, 5, 9}


@pytest.mark.parametrize(("minutes", "count"), [(1, 3), (2, 1), (3, 0)])
def test_answers_of_the_prober_by_minute(minutes: int, count: int) -> None:
    """Only while a rebalance is in progress."""
    snapshot = GroupSnapshot(group=GroupState(phase=Phase.PREPARING_REBALANCE))
    learn_probe(snapshot, MINUTE)
    learn(snapshot, MembershipChange(), Report(GROUP, CONTEXT, PARTITION, 1, 1))
    learn_probe(snapshot, MINUTE)
    snapshot.group.in_progress = RebalanceInProgress("r", 0, Phase.PREPARING_REBALANCE)
    for taken_ms in (MINUTE, MINUTE + 1, 2 * MINUTE):
        learn_probe(snapshot, taken_ms)
    assert snapshot.slot_history is not None
    assert unsettled(snapshot.slot_history, minutes * MINUTE) == count


def test_answers_are_forgotten_behind_one_of_a_clock_that_was_ahead() -> None:
    """The first minute is not the oldest then; what is two hours old goes all the same."""
    snapshot = GroupSnapshot(group=GroupState(phase=Phase.PREPARING_REBALANCE))
    learn(snapshot, MembershipChange(), Report(GROUP, CONTEXT, PARTITION, 1, 1))
    snapshot.group.in_progress = RebalanceInProgress("r", 0, Phase.PREPARING_REBALANCE)
    for taken_ms in (100 * KEPT_MS, MINUTE, KEPT_MS):
        learn_probe(snapshot, taken_ms)
    learn(snapshot, MembershipChange(), Report(GROUP, CONTEXT, PARTITION, 2, KEPT_MS + MINUTE))
    assert snapshot.slot_history is not None
    assert snapshot.slot_history.unsettled == {100 * KEPT_MS // MINUTE: 1, KEPT_MS // MINUTE: 1}


@pytest.mark.parametrize(
    ("answered", "asked", "expected"),
    [
        (None, None, SessionSettings(50_000, 6_000, 5_000, "broker", "broker")),
        ({}, None, SessionSettings(50_000, 50_000, 5_000)),
        (OWN, None, SessionSettings(8_000, 8_000, 5_000)),
        (None, OwnSettings({GROUP: OWN}), SessionSettings(8_000, 8_000, 5_000)),
        (None, OwnSettings({GROUP: OWN}, ()), SessionSettings(50_000, 6_000, 5_000, "broker", "broker")),
    ],
)
def test_the_session_of_a_group(
    answered: dict[str, int] | None, asked: OwnSettings | None, expected: SessionSettings
) -> None:
    """By the last answer of the prober, or by who has read the log; else the brokers' is assumed."""
    snapshot = GroupSnapshot(group=GroupState(group_type=GroupType.SHARE), own_settings=answered)
    brokers = {"share": SessionSettings(50_000, 6_000, 5_000, "broker", "broker")}
    context = replace(CONTEXT, sessions=brokers, own_settings=asked)
    assert session_settings(snapshot, context, GROUP) == expected
