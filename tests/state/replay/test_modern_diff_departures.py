"""Why members of the newer kinds left, and their partitions; the beginning of a group with a regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from groupreplay.state.events.event import History, Severity
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
from groupreplay.state.group import Group
from groupreplay.state.policy.context import Context, OwnSettings, SessionSettings
from groupreplay.state.replay.departure_reasons import STAMP_LAG_MS
from groupreplay.state.snapshot.observations import OwnSettingsAnswer
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    check,
    commit,
    facts,
    names,
    observed,
    placed,
    replay,
)
from support.histories.group_writer import GroupWriter
from support.histories.modern_builders import (
    TOPIC,
    current,
    described,
    first_join,
    group_epoch,
    left,
    operation,
    target,
    target_epoch,
)
from support.model.classic_clients import owning
from support.model.consumer_clients import ConsumerClients

NAMED = replace(CONTEXT, topic_names={TOPIC: "t"})
#: The timeouts of the candidates when a session of 8 s may have ended.
SHORT: dict[str, int | None] = {"left": None, "session_timeout": 8_000}


@pytest.mark.parametrize(
    ("committed_ms", "silent_ms", "possible"),
    [
        (None, 45_000 - STAMP_LAG_MS - 1, False),
        (None, 45_000 - STAMP_LAG_MS, True),
        (40_000, 39_000 - STAMP_LAG_MS - 1, False),
        # Killed right after a commit, 5 s after its last heartbeat, or 6 s where the client was busy.
        (40_000, 39_000 - STAMP_LAG_MS, True),
    ],
)
def test_a_commit_keeps_nobody_alive(committed_ms: int | None, silent_ms: int, possible: bool) -> None:
    """Only heartbeats prolong a session (45 s), and one is sent every 5 s, where the brokers say so."""
    life = GroupWriter()
    life.join("b")
    life.join("a")
    life.settle()
    last_ms = max(raw.at for raw in life.log if getattr(raw.key, "member_id", None) == "a")
    history = list(life.log)
    if committed_ms is not None:
        last_ms += committed_ms
        history.append(commit("t", 0, 5, at=last_ms))
    history += operation(last_ms + silent_ms, left("a"), group_epoch(4))
    _, events = replay(history, replace(NAMED, sessions={"consumer": SessionSettings()}))
    (gone,) = [fact for fact in facts(events) if isinstance(fact, MemberLeft)]
    reasons = {one.reason for one in gone.candidates}
    assert ("session_timeout" in reasons, gone.elapsed_ms, gone.assumed) == (possible, silent_ms, {})


def life_and_end(kind: str, silent_ms: int, commits: int = 0) -> list[Raw]:
    """Two members; one is gone so long after its last record, or after the last of its commits, one a second."""
    life = GroupWriter(kind=kind)
    life.join("b")
    life.join("a")
    life.settle()
    last_ms = max(raw.at for raw in life.log if getattr(raw.key, "member_id", None) == "a")
    places = [(number, last_ms + 1_000 * number) for number in range(1, commits + 1)]
    life.log += [commit("t", partition, number, at=at) for number, at in places for partition in range(3)]
    life.at = (places[-1][1] if places else last_ms) + silent_ms
    life.leave("a")
    return life.log


def settings_answer(at_ms: int, own: Mapping[str, int]) -> OwnSettingsAnswer:
    """What a round of the prober has found."""
    return OwnSettingsAnswer(
        taken_ms=at_ms, topic="group-probes", partition=0, offset=1, settings=tuple(sorted(own.items()))
    )


def departure(history: Sequence[Raw], context: Context, *answers: OwnSettingsAnswer) -> MemberLeft:
    """The departure, in one call; and in two with a restart before it, which must give the same."""
    records = placed(history)
    count = sum(raw.at == records[-1].at for raw in records)
    whole = Group(GROUP, context).apply(replace(observed(records), probes=answers), records[-1].at + 1)
    group = Group(GROUP, context)
    group.apply(replace(observed(records[:-count]), probes=answers), records[-1].at - 1)
    group = Group.from_snapshot(GROUP, context, group.snapshot())
    again = group.apply(observed(records[-count:]), records[-1].at + 1)
    (fact,) = [event.fact for event in whole if isinstance(event.fact, MemberLeft)]
    assert [event.fact for event in again if isinstance(event.fact, MemberLeft)] == [fact]
    return fact


def brokers(kind: str) -> dict[str, SessionSettings]:
    """Brokers that let groups of this kind have short sessions."""
    return {kind: SessionSettings(45_000, 6_000, 5_000, "broker", "broker")}


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
@pytest.mark.parametrize("is_probed", [True, False])
@pytest.mark.parametrize(("silent_ms", "sums"), [(7_500, {"left": None}), (8_000, SHORT)])
def test_a_session_that_the_group_has_shortened(
    kind: str, is_probed: bool, silent_ms: int, sums: dict[str, int | None]
) -> None:
    """Its own number is in the sum, whether a prober has recorded it or a capture has it, and nothing is assumed."""
    own = {f"{kind}.session.timeout.ms": 8_000, f"{kind}.heartbeat.interval.ms": 2_000}
    settings = None if is_probed else OwnSettings({GROUP: own})
    history = life_and_end(kind, silent_ms)
    answers = [settings_answer(history[-1].at - 5_000, own)] if is_probed else []
    gone = departure(history, replace(NAMED, sessions=brokers(kind), own_settings=settings), *answers)
    timeouts = {one.reason: one.timeout_ms for one in gone.candidates if one.reason in SHORT}
    assert (timeouts, gone.assumed) == (sums, {})
    assert (gone.reason == "left") == (silent_ms < 8_000)


@pytest.mark.parametrize(
    ("own", "silent_ms", "reason"),
    [(8_000, 1_000, "left"), (8_000, 7_000, "session_timeout"), (20_000, 19_000, "session_timeout")],
)
def test_a_member_that_was_killed_in_a_group_with_a_session_of_its_own(
    own: int, silent_ms: int, reason: str
) -> None:
    """It has committed each second, and is removed when that session ends: it did not leave."""
    settings = {"consumer.session.timeout.ms": own, "consumer.heartbeat.interval.ms": 2_000}
    context = replace(NAMED, sessions=brokers("consumer"), own_settings=OwnSettings({GROUP: settings}))
    gone = departure(life_and_end("consumer", silent_ms, commits=30), context)
    assert (gone.reason, gone.assumed) == (reason, {})


@pytest.mark.parametrize(
    ("own_settings", "assumed"),
    [
        (None, {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}),
        (OwnSettings({}, {"another"}), {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}),
        (OwnSettings({}), {}),
    ],
)
def test_the_brokers_session_is_assumed_while_nobody_has_asked(
    own_settings: OwnSettings | None, assumed: dict[str, int]
) -> None:
    """A group may have another one, so a departure names what it rests on."""
    context = replace(NAMED, sessions=brokers("consumer"), own_settings=own_settings)
    gone = departure(life_and_end("consumer", 1_000), context)
    assert (gone.reason, gone.assumed) == ("left", assumed)


def test_nobody_has_asked_about_a_group_that_begins_again() -> None:
    """Kafka keeps the settings of a deleted group, but between two calls nothing is kept of it; so a replay forgets."""
    life = GroupWriter()
    context = replace(NAMED, sessions=brokers("consumer"))
    life.join("a")
    first_ms = life.at
    life.leave("a")
    life.delete()
    life.join("b")
    life.join("a")
    life.settle()
    life.leave("a")
    gone = Group(GROUP, context).apply(
        replace(observed(placed(life.log)), probes=[settings_answer(first_ms - 1, {})]), life.at
    )
    assumed = [event.fact.assumed for event in gone if isinstance(event.fact, MemberLeft)]
    assert assumed == [{}, {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}]


@pytest.mark.parametrize(("epoch", "severity"), [(3, Severity.WARN), (-2, Severity.INFO)])
def test_a_static_member_whose_close_is_recorded_was_stopped(epoch: int, severity: Severity) -> None:
    """It does not come back before its session ends; without that record it was killed, or cut off."""
    second = 1_000
    clients = [described("b", instance_id="i"), group_epoch(3), target("b", [1]), target_epoch(3)]
    history = [
        *first_join("a", at=second),
        *operation(10 * second, *clients, current("b", 3, [1])),
        *(commit("t", 1, at, at=at * second) for at in range(15, 300, 5)),
        *operation(300 * second, current("b", epoch, [1], previous=3)),
        *operation(345 * second, left("b"), group_epoch(4)),
    ]
    gone = departure(history, replace(NAMED, sessions={"consumer": SessionSettings()}))
    assert (gone.reason, gone.instance_id, gone.severity) == ("session_timeout", "i", severity)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_whoever_goes_soon_after_a_heartbeat_has_left(kind: str) -> None:
    """Members of share groups have no rebalance timeout; the reason does not need it."""
    life = GroupWriter(kind=kind)
    life.join("a")
    life.join("b")
    life.settle()
    life.leave("b")
    _, events = replay(life.log, NAMED)
    assert [fact.reason for fact in facts(events) if isinstance(fact, MemberLeft)] == ["left"]


def test_what_the_last_native_member_had_is_dealt_out_by_the_next_classic_round() -> None:
    """After a downgrade the partition has moved; none is new, and the topics' metadata have not changed."""
    clients = ConsumerClients()
    (member_id,) = clients.stable("a")
    clients.enter("n")
    clients.settle_all()
    clients.depart("n")
    clients.rejoin(member_id)
    clients.sync(member_id, assignments=((member_id, owning("t", 0, 1, 2)),))
    _, events = replay(clients.log, NAMED)
    last = [fact for fact in facts(events) if isinstance(fact, RebalanceCompleted)][-1]
    assert (last.protocol_type, last.partitions_moved, last.partitions_unassigned) == ("consumer", 2, 0)
    assert last.trigger == "unknown"


def test_a_group_begins_with_a_regular_expression() -> None:
    """Until it is resolved the group is at its first epoch, which is in no record; then its first rebalance begins."""
    life = GroupWriter()
    life.join("a", regex="t.*")
    group, events = replay(life.log[:2], NAMED)
    described = group.describe()
    assert (described["state"], described["group_epoch"], described["target_epoch"]) == ("Stable", 1, 1)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    group, events = replay(life.log, NAMED)
    described = group.describe()
    assert (described["state"], described["group_epoch"], described["target_epoch"]) == ("Assigning", 2, 1)
    life.settle()
    group, events = replay(life.log, NAMED)
    assert names(events)[4:] == ["rebalance.started", "member.updated", "rebalance.completed"]
    completed = facts(events)[-1]
    check(completed, generation=2, previous_generation=1, trigger="subscription_changed")
    assert group.describe()["state"] == "Stable"
    assert {event.history for event in events} == {History.FULL}
