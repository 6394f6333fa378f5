"""The phases of a rebalance in the model: what they wait for, how long, and which members they remove."""

from __future__ import annotations

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.requests import Answer, Error, Settings
from support.model.classic_clients import Clients, joining


def reached(clients: Clients, state: Phase) -> list[int]:
    """The time of the change to a state."""
    return [change.at_ms for change in clients.changes if change.after is state]


def test_the_first_rebalance_waits_as_long_as_members_arrive() -> None:
    """Each new member adds another delay; in the third delay there is none."""
    clients = Clients(now=0)
    clients.join("a")
    begun = clients.now
    clients.wait(1_000)
    clients.join("b")
    clients.wait(3_000)
    clients.join("c")
    clients.wait(20_000)
    assert reached(clients, Phase.COMPLETING_REBALANCE) == [begun + 9_000]


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    """With any number of members: 3 + 3 + 1 seconds of 7."""
    clients = Clients(now=0)
    clients.join("a", rebalance_timeout_ms=7_000)
    begun = clients.now
    for number in range(20):
        clients.join(f"b{number}", rebalance_timeout_ms=1)
        clients.wait(500)
    assert reached(clients, Phase.COMPLETING_REBALANCE)[0] == begun + 7_000


def test_without_a_delay_the_first_member_has_its_generation_at_once() -> None:
    """``group.initial.rebalance.delay.ms=0``, as in brokers for tests."""
    clients = Clients(Settings(initial_rebalance_delay_ms=0))
    request, _ = clients.join("a")
    clients.wait(0)
    answer = clients.answer(request)
    assert answer is not None
    assert answer.generation == 1


def test_a_rebalance_waits_for_the_largest_of_the_members_timeouts() -> None:
    """Members that have not joined by then are removed with their sessions."""
    clients = Clients()
    first = clients.join("a", rebalance_timeout_ms=20_000)[0]
    clients.join("b", rebalance_timeout_ms=30_000)
    clients.wait(6_000)
    told = clients.answer(first)
    assert told is not None
    for member_id in clients.group.members:
        clients.sync(member_id)
    silent = list(clients.group.members)[1]
    clients.rejoin(told.member_id, rebalance_timeout_ms=20_000)
    begun = clients.now
    for _ in range(4):
        clients.wait(9_000)
        if silent in clients.group.members:
            assert clients.heartbeat(silent) == "REBALANCE_IN_PROGRESS"
    assert reached(clients, Phase.COMPLETING_REBALANCE)[-1] == begun + 30_000
    assert list(clients.group.members) == [told.member_id]


def test_a_pending_member_holds_a_rebalance_up() -> None:
    """Its place is kept until its session ends."""
    clients = Clients()
    (member_id,) = clients.stable("a")
    clients.ask(joining("b", session_timeout_ms=10_000))
    asked = clients.now
    request = clients.rejoin(member_id)
    assert (clients.state, clients.answer(request)) == ("PreparingRebalance", None)
    clients.wait(20_000)
    assert reached(clients, Phase.COMPLETING_REBALANCE)[-1] == asked + 10_000


def test_the_end_of_a_session_ends_the_first_rebalance_before_its_time() -> None:
    """Of a pending member as of one that has joined; a pending member that leaves does not end it."""
    begun: dict[str, int] = {}
    for how in ("left", "pending", "joined"):
        clients = Clients(
            Settings(initial_rebalance_delay_ms=30_000, new_member_join_timeout_ms=10_000), now=0
        )
        silent = clients.told(joining("a", session_timeout_ms=10_000)).member_id
        if how == "joined":
            clients.ask(joining("a", silent, session_timeout_ms=10_000))
        waited = clients.now
        clients.wait(2_000)
        clients.join("b", instance_id="i")
        if how == "left":
            clients.leave(silent)
        clients.wait(8_500)
        begun[how] = (
            reached(clients, Phase.COMPLETING_REBALANCE)[0] - waited if clients.group.generation else 0
        )
    assert begun == {"left": 0, "pending": 10_000, "joined": 10_000}


def test_a_leader_that_does_not_join_again_is_replaced() -> None:
    """The first member that has joined leads."""
    clients = Clients()
    leader = clients.stable("a", instance_id="i", rebalance_timeout_ms=30_000)[0]
    follower = clients.join("b", rebalance_timeout_ms=30_000)[1]
    clients.wait(30_000)
    assert (clients.group.generation, clients.group.leader) == (2, follower)
    # A static member stays, for as long as its session lasts.
    assert list(clients.group.members) == [leader, follower]


def test_static_members_that_are_away_keep_the_group_in_its_rebalance() -> None:
    """No member has joined or is removed: the phase restarts, and nothing is written."""
    clients = Clients()
    member_id = clients.stable(
        "a", instance_id="i", session_timeout_ms=1_800_000, rebalance_timeout_ms=60_000
    )[0]
    other = clients.join("b", rebalance_timeout_ms=1_000)[1]
    clients.leave(other)
    records = len(clients.log)
    clients.wait(600_000)
    assert (clients.state, list(clients.group.members)) == ("PreparingRebalance", [member_id])
    assert len(clients.log) == records
    clients.wait(1_800_000)
    assert (clients.state, clients.log[-1].value.generation) == ("Empty", 2)


def test_a_silent_member_is_gone_after_its_session() -> None:
    """To the millisecond; the last one leaves an empty group."""
    clients = Clients()
    (member_id,) = clients.stable("a", session_timeout_ms=10_000)
    clients.heartbeat(member_id)
    heard = clients.now
    clients.wait(60_000)
    assert [(change.at_ms, change.before, change.after) for change in clients.changes[-2:]] == [
        (heard + 10_000, Phase.STABLE, Phase.PREPARING_REBALANCE),
        (heard + 10_000, Phase.PREPARING_REBALANCE, Phase.EMPTY),
    ]
    record = clients.log[-1].value
    assert (record.generation, record.protocol_type, record.protocol, record.leader, record.members) == (
        2,
        "consumer",
        None,
        None,
        (),
    )
    assert record.current_state_timestamp_ms == clients.log[-1].at == heard + 10_000


def test_commits_are_signs_of_life_of_a_stable_group() -> None:
    """The member stays without heartbeats."""
    clients = Clients()
    (member_id,) = clients.stable("a", session_timeout_ms=10_000)
    for offset in range(5):
        clients.wait(8_000)
        assert clients.commit(offset, member_id=member_id, generation=1) == "NONE"
    assert clients.state == "Stable"


def test_who_waits_for_the_others_need_not_heartbeat() -> None:
    """But a waiting new member is removed after five minutes, with an answer."""
    clients = Clients()
    first, second = clients.stable("a", "b", session_timeout_ms=10_000, rebalance_timeout_ms=1_000_000)
    clients.rejoin(first, session_timeout_ms=10_000, rebalance_timeout_ms=1_000_000)
    new = clients.join("c", rebalance_timeout_ms=1_000_000)[0]
    asked = clients.now
    while clients.now < asked + 290_000:
        clients.wait(5_000)
        clients.heartbeat(second)
    assert len(clients.group.members) == 3
    clients.wait(9_900)
    assert clients.answer(new) == Answer(error=Error.UNKNOWN_MEMBER_ID)
    assert first in clients.group.members


def test_who_does_not_sync_is_removed() -> None:
    """A follower, at the rebalance timeout after the join phase, even if the group is Stable."""
    clients = Clients()
    first, second = clients.completing(rebalance_timeout_ms=20_000)
    joined = reached(clients, Phase.COMPLETING_REBALANCE)[0]
    clients.sync(first)
    for _ in range(3):
        clients.wait(5_000)
        clients.heartbeat(first)
        clients.heartbeat(second)
    clients.wait(10_000)
    assert list(clients.group.members) == [first]
    assert reached(clients, Phase.PREPARING_REBALANCE)[-1] == joined + 20_000


def test_a_leader_that_does_not_sync_is_removed_and_nothing_is_written() -> None:
    """Members that have synced have to rejoin."""
    clients = Clients()
    first, second = clients.completing(rebalance_timeout_ms=20_000)
    waiting = clients.syncing(second)
    clients.ask(waiting)
    records = len(clients.log)
    clients.wait(20_000)
    assert clients.answer(waiting) == Answer(error=Error.REBALANCE_IN_PROGRESS)
    assert (clients.state, list(clients.group.members)) == ("PreparingRebalance", [second])
    assert (clients.group.leader, first in clients.group.members, len(clients.log)) == (
        second,
        False,
        records,
    )


def test_when_nobody_syncs_the_group_is_empty_two_generations_later() -> None:
    """One for the completed join phase, one for the phase without members."""
    clients = Clients()
    (member_id,) = clients.stable("a", rebalance_timeout_ms=20_000)
    clients.rejoin(member_id, rebalance_timeout_ms=20_000)
    assert clients.group.generation == 2
    clients.wait(60_000)
    assert (clients.log[-1].value.generation, clients.log[-1].value.members) == (3, ())


def test_the_record_of_a_generation_tells_when_its_join_phase_ended() -> None:
    """``currentStateTimestamp`` is older than the record by the time that the leader took."""
    clients = Clients()
    clients.join("a")
    clients.wait(3_000)
    joined = reached(clients, Phase.COMPLETING_REBALANCE)[0]
    clients.wait(1_234)
    clients.sync(clients.group.leader or "")
    assert (clients.log[-1].value.current_state_timestamp_ms, clients.log[-1].at) == (joined, clients.now)
