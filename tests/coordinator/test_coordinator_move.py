"""A coordinator that moves to another broker: it only has what is in the log."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.requests import Error, Settings, StateChange
from support.model.classic_clients import Clients


def moved(clients: Clients) -> ClassicGroup | None:
    """The coordinator moves, without requests in the meantime."""
    clients.take(clients.coordinator.move(clients.now))
    return clients.coordinator.group


def test_a_stable_group_is_loaded_as_it_was() -> None:
    """Nothing is written or changed; the sessions restart."""
    clients = Clients()
    ids = clients.stable("a", "b")
    (key, before), records, changes = clients.group.record(), len(clients.log), list(clients.changes)
    clients.wait(40_000)
    group = moved(clients)
    assert group is not None
    # A generation is written before it is Stable.
    written_ms = clients.changes[-2].at_ms
    assert group.record() == (key, replace(before, current_state_timestamp_ms=written_ms))
    assert (group.state, group.subscribed_topics) == (Phase.STABLE, frozenset({"t"}))
    assert (len(clients.log), clients.changes) == (records, changes)
    clients.wait(40_000)
    assert sorted(group.members) == sorted(ids)
    clients.wait(5_000)
    assert clients.state == "Empty"


def test_a_rebalance_in_progress_is_forgotten() -> None:
    """Waiting members get NOT_COORDINATOR; the previous generation holds again."""
    clients = Clients()
    first, second = clients.stable("a", "b")
    clients.leave(second)
    clients.rejoin(first)
    assert clients.state == "CompletingRebalance"
    waiting, _ = clients.join("c")
    assert clients.answer(waiting) is None
    group = moved(clients)
    assert group is not None
    answer = clients.answer(waiting)
    assert answer is not None
    assert answer.error is Error.NOT_COORDINATOR
    assert (group.generation, sorted(group.members)) == (1, sorted([first, second]))
    assert clients.changes[-1] == StateChange(clients.now, Phase.PREPARING_REBALANCE, Phase.STABLE, 1)
    assert clients.heartbeat(first, generation=2) == "ILLEGAL_GENERATION"


def test_a_group_of_offsets_alone_stays_and_one_of_nothing_goes() -> None:
    """The log has the commits of the first group; the older coordinator has written nothing of the second."""
    clients = Clients()
    clients.commit(5)
    assert moved(clients) is not None
    assert clients.commit(6) == "NONE"
    asked = Clients(Settings(scala=True))
    asked.join("a", session_timeout_ms=6_000, require_known_member_id=False)
    assert moved(asked) is None
    assert asked.changes[-1].after is Phase.DEAD
    deleted = Clients()
    deleted.stable("a")
    deleted.leave(next(iter(deleted.group.members)))
    deleted.wait(8 * 24 * 3_600_000)
    deleted.clean_up()
    assert deleted.coordinator.group is None
    assert moved(deleted) is None
