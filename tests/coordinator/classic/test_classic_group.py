"""A classic group in the model: legal state changes, the leader, the vote for a protocol."""

from __future__ import annotations

from itertools import product

import pytest

from groupreplay.codecs import Subscription, encode_blob
from groupreplay.codecs.kafka_terms import VALID_PREVIOUS_STATES, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup, GroupMember
from groupreplay.coordinator.requests import DeleteGroup, Protocol
from support.model.classic_clients import Clients, protocols

LEGAL = [(old, new) for new, olds in VALID_PREVIOUS_STATES.items() for old in Phase if old in olds]


def group(state: Phase) -> ClassicGroup:
    """A group in a state."""
    return ClassicGroup(group_id="g", current_state_timestamp_ms=1, changes=[], state=state)


def member(name: str, *names: str, topics: tuple[str, ...] = ("t",)) -> GroupMember:
    """A member with these protocols."""
    return GroupMember(
        member_id=name,
        instance_id=None,
        client_id=name,
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=protocols(*names, topics=topics),
    )


@pytest.mark.parametrize(("old", "new"), list(product(Phase, Phase)))
def test_a_change_of_state_is_legal_or_refused(old: Phase, new: Phase) -> None:
    """For every pair of states; a legal change sets the time and the previous state."""
    one = group(old)
    if (old, new) in LEGAL:
        one.transition_to(new, 9)
        assert (one.state, one.previous_state, one.current_state_timestamp_ms) == (new, old, 9)
    else:
        with pytest.raises(ValueError, match=f"cannot go from {old.value} to {new.value}"):
            one.transition_to(new, 9)
        assert (one.state, one.current_state_timestamp_ms) == (old, 1)


def test_every_edge_that_requests_can_take_is_taken() -> None:
    """One history takes all of them; only changes to Dead with members need a broker that unloads the group."""
    clients = Clients()
    first, second = clients.stable("a", "b")
    clients.leave(second)
    clients.rejoin(first)
    clients.join("c")  # while the leader has not synced
    clients.leave(next(iter(clients.group.pending_joins), ""))
    for name in list(clients.group.members):
        clients.leave(name)
    clients.wait(600_000)
    clients.ask(DeleteGroup())
    taken = {(change.before, change.after) for change in clients.changes}
    beginning = {(Phase.DEAD, Phase.EMPTY)}
    unloaded = {(old, Phase.DEAD) for old in Phase} - {(Phase.EMPTY, Phase.DEAD)}
    assert taken == set(LEGAL) - unloaded | beginning


@pytest.mark.parametrize("supported", [{}, {"a": "x", "b": "y"}])
def test_no_common_protocol(supported: dict[str, str]) -> None:
    """Nothing can be selected without members or without a common protocol."""
    one = group(Phase.PREPARING_REBALANCE)
    for name, protocol in supported.items():
        one.add(member(name, protocol), "consumer")
    with pytest.raises(ValueError, match="no protocol is supported by every member"):
        one.selected_protocol()


def test_topics_of_a_subscription_that_cannot_be_read_are_not_known() -> None:
    """With unknown topics the offsets of consumers are protected, those of other protocol types are not."""
    one = group(Phase.PREPARING_REBALANCE)
    broken = member("a")
    broken.protocols = (Protocol("range", encode_blob(Subscription(version=1, topics=("t",)))[:7]),)
    one.add(broken, "consumer")
    one.next_generation(5)
    assert (one.subscribed_topics, one.is_subscribed("any")) == (None, True)
    one.protocol_type = "connect"
    assert not one.is_subscribed("any")


def test_a_group_with_members_and_no_protocol_is_not_written() -> None:
    """Kafka throws before it would write one."""
    made = group(Phase.STABLE)
    made.add(member("a", "range"), "consumer")
    with pytest.raises(ValueError, match="has members and no protocol"):
        made.record()


@pytest.mark.parametrize("scala", [False, True])
def test_the_table_of_members_does_not_shrink(*, scala: bool) -> None:
    """So the next leader of a group that was large is another one than that of a new group of the same members."""
    table = ClassicGroup(group_id="g", current_state_timestamp_ms=0, changes=[], scala=scala)
    names = [f"m{number}" for number in range(14)]
    for name in names:
        table.add(member(name), "consumer")
    for name in names[3:]:
        table.remove(name)
    fresh = ClassicGroup(group_id="g", current_state_timestamp_ms=0, changes=[], scala=scala)
    for name in names[:3]:
        fresh.add(member(name), "consumer")
    assert (table.buckets, fresh.buckets) == (32, 16)
    orders = [[entry.member_id for entry in group.in_map_order()] for group in (table, fresh)]
    assert [sorted(order) for order in orders] == [names[:3]] * 2


@pytest.mark.parametrize("scala", [False, True])
def test_a_table_of_scala_grows_one_member_earlier(*, scala: bool) -> None:
    """With its twelfth member; Java's with the thirteenth."""
    table = ClassicGroup(group_id="g", current_state_timestamp_ms=0, changes=[], scala=scala)
    sizes = []
    for number in range(25):
        table.add(member(f"m{number}"), "consumer")
        sizes.append(table.buckets)
    growth = [number + 1 for number in range(1, 25) if sizes[number] != sizes[number - 1]]
    assert growth == ([12, 24] if scala else [13, 25])
