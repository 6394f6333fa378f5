"""Requests of classic members: details that Kafka's own coordinator showed (`test_model_and_coordinator`)."""

from __future__ import annotations

from groupreplay.codecs.kafka_terms import hash_map_order
from groupreplay.coordinator.requests import Answer, Error, Settings
from support.model.classic_clients import Clients, joining, protocols


def deadline(clients: Clients, member_id: str) -> int:
    """When a member's session ends."""
    return clients.coordinator.timers._due["session", member_id][0]


def test_a_member_that_leaves_gets_an_answer_to_its_open_join() -> None:
    """UNKNOWN_MEMBER_ID, as at the end of its session."""
    clients = Clients()
    waiting, member_id = clients.join("a")
    clients.leave(member_id)
    assert clients.answer(waiting) == Answer(error=Error.UNKNOWN_MEMBER_ID)


def test_a_sync_in_a_stable_group_does_not_extend_the_session() -> None:
    """Only the older coordinator does that."""
    clients = Clients()
    (member_id,) = clients.stable("a")
    before = deadline(clients, member_id)
    clients.wait(1_000)
    clients.sync(member_id)
    assert deadline(clients, member_id) == before


def test_a_static_member_comes_back_with_the_session_timeout_it_had() -> None:
    """The new one counts from its next heartbeat."""
    clients = Clients()
    clients.stable("a", instance_id="i", session_timeout_ms=10_000)
    clients.ask(joining("a", instance_id="i", session_timeout_ms=30_000))
    (member_id,) = clients.group.members
    assert deadline(clients, member_id) - clients.now == 10_000


def test_members_are_written_in_the_order_of_a_hash_map() -> None:
    """The next leader is the first of them, too."""
    clients = Clients()
    ids = clients.stable("a", "b", "c", "d")
    written = clients.group.record()[1]
    assert [one.member_id for one in written.members] == hash_map_order(ids)
    clients.leave(ids[0])
    assert clients.group.leader == hash_map_order(ids[1:])[0]


def test_a_tied_vote_is_won_by_the_first_protocol_of_a_hash_map() -> None:
    """Not by that of the first member."""
    for one, other in (("range", "sticky"), ("sticky", "range")):
        clients = Clients()
        for name, names in (("a", (one, other)), ("b", (other, one))):
            clients.join(name, protocols=protocols(*names))
        clients.wait(6_000)
        assert clients.group.protocol == hash_map_order(("range", "sticky"))[0]


def test_the_session_of_a_member_that_a_full_group_refused_ends_without_effect() -> None:
    """Kafka forgets the pending member and leaves its timer."""
    clients = Clients(Settings(max_size=1))
    one, other = (clients.told(joining(name, session_timeout_ms=8_000)).member_id for name in "ab")
    clients.ask(joining("a", one))
    assert clients.told(joining("b", other)) == Answer(error=Error.GROUP_MAX_SIZE_REACHED)
    assert (clients.group.pending_joins, deadline(clients, other) > clients.now) == (set(), True)
    clients.wait(5_000)
    clients.sync(one)
    before = (len(clients.log), list(clients.changes))
    clients.wait(10_000)
    assert ("session", other) not in clients.coordinator.timers._due
    assert (len(clients.log), clients.changes) == before
    assert list(clients.group.members) == [one]
