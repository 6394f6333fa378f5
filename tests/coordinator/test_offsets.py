"""Commits, transactions, expiry and deletion in the model, with the numbers of Kafka's own tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import GroupMetadataKey
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.coordinator import MIXED_COMMITS
from groupreplay.coordinator.requests import Commit, OffsetCommit, OffsetDelete, Settings
from groupreplay.state.replay import retention
from groupreplay.state.snapshot.group_state import ClassicGeneration, GroupState
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.offsets import Offsets
from support.histories.builders import CONTEXT, observed
from support.model.classic_clients import Clients

DAY_MS = 24 * 3_600_000


def committed(clients: Clients) -> dict[tuple[str, int], int]:
    """Offset by partition."""
    return {place: one.value.offset for place, one in clients.coordinator.offsets.committed.items()}


def written(clients: Clients, since: int = 0) -> list[tuple[str, Any]]:
    """Records in short: the group's or a partition's name, and the value."""
    return [
        (
            "group" if isinstance(raw.key, GroupMetadataKey) else f"{raw.key.topic}-{raw.key.partition}",
            raw.value,
        )
        for raw in clients.log[since:]
    ]


def test_metadata_that_is_too_large_refuses_its_partition_alone() -> None:
    """The other partition is committed."""
    clients = Clients(Settings(offset_metadata_max_bytes=3))
    commits = (
        Commit(topic="t", partition=0, offset=5, metadata="four"),
        Commit(topic="t", partition=1, offset=6, metadata="abc"),
    )
    answer = clients.told(OffsetCommit(commits=commits))
    assert [(*place, error.value) for *place, error in answer.refused] == [
        ("t", 0, "OFFSET_METADATA_TOO_LARGE")
    ]
    assert committed(clients) == {("t", 1): 6}


def test_mixed_commits_are_warned_of_by_the_older_coordinator() -> None:
    """At each commit after both, until the next generation; Kafka 4 has no such warning."""
    for scala in (False, True):
        clients = Clients(Settings(scala=scala))
        (member_id,) = clients.stable("a")
        text = f"group: g with leader: {member_id} {MIXED_COMMITS}"
        for count, producer_id in ((0, None), (0, 5), (1, None), (2, 5)):
            clients.commit(1, member_id=member_id, generation=1, producer_id=producer_id)
            assert clients.warnings == [text] * (count if scala else 0)
        clients.rejoin(member_id)
        clients.sync(member_id)
        clients.commit(1, member_id=member_id, generation=2)
        assert len(clients.warnings) == (2 if scala else 0)


def test_offsets_of_other_groups_than_consumers_cannot_be_deleted_while_they_are_in_use() -> None:
    """Their subscriptions are unknown."""
    clients = Clients()
    clients.stable("a", protocol_type="connect")
    assert clients.error(OffsetDelete((("t", 0),))) == "NON_EMPTY_GROUP"


def test_offsets_of_an_emptied_group_expire_counting_from_then() -> None:
    """To the millisecond, all of them with the group; a commit in between does not extend that."""
    clients = Clients()
    (member_id,) = clients.stable("a")
    clients.commit(5, member_id=member_id, generation=1)
    clients.leave(member_id)
    emptied = clients.now
    clients.wait(6 * DAY_MS)
    clients.commit(7, partition=1)
    records = len(clients.log)
    clients.wait(emptied + 7 * DAY_MS - 1 - clients.now)
    clients.clean_up()
    assert written(clients, records) == []
    clients.wait(1)
    clients.clean_up()
    assert written(clients, records) == [("t-0", None), ("t-1", None), ("group", None)]
    assert clients.state == "Dead"


def test_offsets_of_a_simple_group_expire_each_from_its_commit() -> None:
    """The group is removed with the last offset."""
    clients = Clients()
    clients.commit(5)
    clients.wait(DAY_MS)
    clients.commit(6, partition=1)
    clients.wait(6 * DAY_MS)
    clients.clean_up()
    assert written(clients, 2) == [("t-0", None)]
    clients.wait(DAY_MS)
    clients.clean_up()
    assert written(clients, 3) == [("t-1", None), ("group", None)]


def test_in_use_only_topics_that_were_let_go_of_expire() -> None:
    """And none does during a rebalance."""
    clients = Clients()
    (member_id,) = clients.stable("a", session_timeout_ms=1_800_000, instance_id="i")
    for topic in ("t", "u"):
        clients.commit(5, topic=topic, member_id=member_id, generation=1)
    for _ in range(7 * 60 + 1):
        clients.wait(DAY_MS // 60)
        clients.heartbeat(member_id)
    records = len(clients.log)
    newcomer = clients.join("b")[1]
    clients.clean_up()
    assert (clients.state, written(clients, records)) == ("PreparingRebalance", [])
    clients.leave(newcomer)
    clients.rejoin(member_id, instance_id="i", session_timeout_ms=1_800_000)
    clients.sync(member_id)
    clients.clean_up()
    assert (clients.state, written(clients, records)[1:]) == ("Stable", [("u-0", None)])


@given(
    phase=st.sampled_from([phase for phase in Phase if phase is not Phase.DEAD]),
    protocol_type=st.sampled_from([None, "consumer", "connect"]),
    subscribed=st.sampled_from(["t", "u", ""]),
    ages=st.lists(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2_000)), min_size=1, max_size=5),
    own=st.booleans(),
    emptied=st.integers(0, 2_000),
    now=st.integers(0, 4_000),
)
def test_what_expires_is_what_the_replay_says_is_due(
    phase: Phase,
    protocol_type: str | None,
    subscribed: str,
    ages: list[tuple[str, int]],
    own: bool,
    emptied: int,
    now: int,
) -> None:
    """The rules exist twice, in the model and in the replay; they agree for every offset."""
    clients = Clients(Settings(retention_ms=500), now=0, gap=1)
    for partition, (topic, at) in enumerate(sorted(ages, key=lambda one: one[1])):
        clients.wait(max(0, at - clients.now))
        clients.take(
            clients.coordinator.handle(
                OffsetCommit(
                    commits=(Commit(topic=topic, partition=partition, offset=1),),
                    retention_ms=700 if own else None,
                ),
                clients.now,
            )
        )
    group = clients.group
    group.state, group.protocol_type, group.current_state_timestamp_ms = phase, protocol_type, emptied
    topics = (subscribed,) if phase is not Phase.EMPTY and subscribed else ()
    group.subscribed_topics = frozenset(topics) if protocol_type == "consumer" else None
    members = (Member("m", None, "c", "/h", 1, 1, (), topics, {}),) if phase is not Phase.EMPTY else ()
    classic = ClassicGeneration(protocol_type=protocol_type, emptied_ms=emptied, members=members)
    state = GroupState(phase=phase, classic=classic)
    offsets = Offsets()
    for run in observed(clients.log).items:
        offsets.apply(run)  # type: ignore[arg-type]
    due = retention.deadlines(state, offsets, replace(CONTEXT, retention_ms=500))
    overdue = {
        place for place, at in zip(offsets.names(range(len(offsets))), due.tolist(), strict=True) if at <= now
    }
    assert set(clients.coordinator.offsets.expired(group, 500, now)) == overdue
