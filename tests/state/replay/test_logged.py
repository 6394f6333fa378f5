"""What the logs of brokers add to events: reasons and lengths, never another event or id."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state.events.event import Event, Evidence, Requester
from groupreplay.state.output.envelope import event_id
from groupreplay.state.policy.broker_log import BrokerLog, GroupLog, LoggedDeparture, LoggedEpoch, LoggedPhase
from support.histories.builders import CONTEXT, GROUP, asked_for, emptied, generation, gone, member, replay
from support.histories.modern_builders import first_join

HISTORY = [
    asked_for(at=1_000),
    generation(1, member("a"), member("b"), at=2_000),
    generation(3, member("a"), member("c"), at=60_000, since=59_000),
    emptied(4, at=90_000),
    gone(at=95_000),
]
LEFT = "removing member b on heartbeat expiration"


def phase(generation: int, began_ms: int, ended_ms: int, **fields: Any) -> LoggedPhase:
    """A join phase by a clock that is an hour ahead."""
    times = {"began_ms": began_ms + 3_600_000, "ended_ms": ended_ms + 3_600_000}
    return LoggedPhase(
        **{
            "generation": generation,
            "reason": LEFT,
            "trigger": "member_left",
            "broker": "1",
            **times,
            **fields,
        }
    )


#: Generation 2 was never synced: the rebalance went on.
PHASES = (
    phase(1, 1_000, 1_900, reason="Adding new member a", trigger="member_joined", leader="a"),
    phase(2, 40_000, 45_000),
    phase(3, 46_000, 59_000, reason="Adding new member c", trigger="member_joined", leader="a"),
    phase(4, 89_000, 90_000, leader=""),
)


def events_with(**fields: Any) -> tuple[list[Event], list[Event]]:
    """The events of ``HISTORY`` without and with a log."""
    context = replace(CONTEXT, broker_log=BrokerLog({GROUP: GroupLog(**fields)}))
    plain, logged = replay(HISTORY)[1], replay(HISTORY, context)[1]
    assert list(map(event_id_of, plain)) == list(map(event_id_of, logged))
    return plain, logged


def event_id_of(event: Event) -> str:
    """Its id and its type."""
    return f"{event_id(event, CONTEXT)} {event.fact.NAME}"


def of(events: list[Event], name: str) -> list[Event]:
    """The events with this name."""
    return [event for event in events if name == event.fact.NAME]


def test_a_rebalance() -> None:
    """The first join phase behind the last record began it; its length is that between two lines of one broker."""
    plain, logged = (of(events, "rebalance.completed")[1] for events in events_with(phases=PHASES))
    assert (plain.fact.trigger, plain.fact.duration_ms, plain.evidence) == (  # type: ignore[attr-defined]
        "members_changed",
        None,
        Evidence.LOG,
    )
    expected = {
        "trigger": "member_left",
        "logged": (LEFT, "Adding new member c"),
        "join_ms_min": 13_000,
        "join_ms_max": 13_000,
        "duration_ms": 59_000 - 40_000 + 1_000,
    }
    assert logged == replace(plain, evidence=Evidence.BROKER_LOG, fact=replace(plain.fact, **expected))


@pytest.mark.parametrize(
    "phases",
    [
        (),
        (*PHASES, phase(3, 300_000, 301_000, leader="a")),
        (phase(3, 46_000, 59_000, leader="z"),),
        (phase(4, 46_000, 59_000, leader="a"),),
    ],
)
def test_a_rebalance_that_cannot_be_told(phases: tuple[LoggedPhase, ...]) -> None:
    """No line, two of one generation and leader, one of another leader or generation: nothing is added."""
    plain, logged = events_with(phases=phases)
    assert of(plain, "rebalance.completed")[1] == of(logged, "rebalance.completed")[1]


def test_a_number_that_was_used_twice() -> None:
    """The group was deleted and began again: the leader tells the two apart."""
    again = (*PHASES, phase(1, 500_000, 501_000, leader="y"), phase(3, 600_000, 601_000, leader="y"))
    event = of(events_with(phases=again)[1], "rebalance.completed")[1]
    assert event.fact.logged == (LEFT, "Adding new member c")  # type: ignore[attr-defined]


def test_the_begin_is_not_in_the_log() -> None:
    """Only the last join phase was logged: its length is known, what began the rebalance is not."""
    event = of(events_with(phases=PHASES[2:])[1], "rebalance.completed")[1]
    known = {name: getattr(event.fact, name) for name in ("trigger", "join_ms_max", "duration_ms", "logged")}
    assert known == {
        "trigger": "members_changed",
        "join_ms_max": 13_000,
        "duration_ms": None,
        "logged": ("Adding new member c",),
    }


def test_a_departure() -> None:
    """One reason is proven; of two, the likelier one is inferred."""
    proven = LoggedDeparture(reasons=frozenset({"rebalance_timeout"}), words="late")
    either = LoggedDeparture(reasons=frozenset({"left", "poll_timeout"}), words="gone")
    left = of(events_with(departures={"b": proven, "a": either})[1], "member.left")
    told = {
        event.fact.member_id: (
            event.fact.reason,
            event.evidence,
            [one.words for one in event.fact.candidates],
        )  # type: ignore[attr-defined]
        for event in left
    }
    assert told["b"] == ("rebalance_timeout", Evidence.BROKER_LOG, ["late"])
    # Nothing shows when it polled last.
    assert (told["a"][:2], len(told["a"][2])) == (("left", Evidence.INFERRED), 2)


def test_who_deleted_the_group() -> None:
    """The senders of DeleteGroups, by name."""
    alice, bob = (Requester(principal=f"User:{name}", client_host="h") for name in ("alice", "bob"))
    (event,) = of(events_with(requesters={"DeleteGroups": frozenset({bob, alice})})[1], "group.deleted")
    assert event.fact.requested_by == (alice, bob)  # type: ignore[attr-defined]


def test_a_group_of_a_newer_kind() -> None:
    """What raised the epoch is in both events, and a more exact trigger of the records stays."""
    step = LoggedEpoch(2, ("Member a joins the consumer group",), "member_joined", "1")
    context = replace(CONTEXT, broker_log=BrokerLog({GROUP: GroupLog(epochs=(step,))}))
    plain, logged = (replay(first_join("a"), one)[1] for one in (CONTEXT, context))
    assert list(map(event_id_of, plain)) == list(map(event_id_of, logged))
    (started,), (completed,) = of(logged, "rebalance.started"), of(logged, "rebalance.completed")
    assert (started.evidence, started.fact.trigger) == (Evidence.BROKER_LOG, "first_join")  # type: ignore[attr-defined]
    (before,) = of(plain, "rebalance.completed")
    expected = replace(before.fact, logged=("Member a joins the consumer group",))
    assert completed == replace(before, evidence=Evidence.BROKER_LOG, fact=expected)
