"""A classic group in the model: legal state changes, the leader, the vote for a protocol."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from groupreplay.codecs import GroupMetadataValue, Subscription, encode_blob
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.classic_group import VALID_PREVIOUS_STATES, ClassicGroup, GroupMember
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


def test_the_first_member_leads_and_gives_the_protocol_type() -> None:
    """After it has left, the next member leads; an empty group has no leader."""
    one = group(Phase.EMPTY)
    for name in ("a", "b"):
        one.add(member(name), "consumer")
    assert (one.leader, one.protocol_type) == ("a", "consumer")
    one.remove("a")
    assert one.leader == "b"
    one.remove("b")
    assert (one.leader, one.protocol_type) == (None, "consumer")


def test_only_who_shares_a_protocol_with_all_others_may_come() -> None:
    """Support by most members is not enough."""
    one = group(Phase.STABLE)
    one.add(member("a", "range", "sticky"), "consumer")
    one.add(member("b", "sticky"), "consumer")
    assert dict(one.supported_protocols) == {"range": 1, "sticky": 2}
    assert not one.supports("consumer", protocols("range"))
    assert one.supports("consumer", protocols("range", "sticky"))


@pytest.mark.parametrize(
    ("supported", "chosen"),
    [
        # The majority wins, whichever is first.
        ({"a": ["x", "y"], "b": ["y", "x"], "c": ["y", "x"]}, "y"),
        # With equal votes, the order of the first member decides.
        ({"a": ["x", "y"], "b": ["y", "x"]}, "x"),
        # Only protocols of every member are candidates; preferences that are not candidates are skipped.
        (
            {"a": ["sticky", "range", "mine"], "b": ["mine", "range", "sticky"], "c": ["range", "sticky"]},
            "range",
        ),
    ],
)
def test_each_member_votes_for_its_first_candidate(supported: dict[str, list[str]], chosen: str) -> None:
    """The candidate with most votes wins."""
    one = group(Phase.PREPARING_REBALANCE)
    for name, names in supported.items():
        one.add(member(name, *names), "consumer")
    assert one.selected_protocol() == chosen


@pytest.mark.parametrize("supported", [{}, {"a": "x", "b": "y"}])
def test_no_common_protocol(supported: dict[str, str]) -> None:
    """Nothing can be selected without members or without a common protocol."""
    one = group(Phase.PREPARING_REBALANCE)
    for name, protocol in supported.items():
        one.add(member(name, protocol), "consumer")
    with pytest.raises(ValueError, match="no protocol is supported by every member"):
        one.selected_protocol()


def test_the_members_choose_among_what_all_support() -> None:
    """The subscribed topics are those in the members' metadata of the chosen protocol."""
    one = group(Phase.PREPARING_REBALANCE)
    one.add(member("a", "range", "sticky"), "consumer")
    one.add(member("b", "sticky", "range", topics=("u",)), "consumer")
    one.add(member("c", "x", "sticky", "range"), "consumer")
    one.next_generation(5)
    assert (one.protocol, one.generation, one.state) == ("sticky", 1, Phase.COMPLETING_REBALANCE)
    assert one.subscribed_topics == {"t", "u"}


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


def test_a_record_with_members_and_no_protocol_never_expires() -> None:
    """No broker writes it, but one may be loaded: its topics are not known."""
    made = group(Phase.STABLE)
    made.add(member("a", "range"), "consumer")
    made.resume("range")
    assert made.may_expire
    (_, value) = made.record()
    assert isinstance(value, GroupMetadataValue)
    loaded = made.reloaded(replace(value, protocol=None))
    assert (loaded.state, loaded.subscribed_topics, loaded.may_expire) == (Phase.STABLE, None, False)


def test_an_empty_group_that_was_loaded_without_a_time_counts_from_each_commit() -> None:
    """As from records of versions 0 and 1."""
    made = group(Phase.EMPTY)
    made.protocol_type = "consumer"
    (_, value) = made.record()
    assert isinstance(value, GroupMetadataValue)
    assert made.reloaded(value).emptied_ms == value.current_state_timestamp_ms
    assert made.reloaded(replace(value, current_state_timestamp_ms=-1)).emptied_ms is None
