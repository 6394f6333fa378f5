"""The contract with a driver: order, open operations, deadlines, snapshots, documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.codecs import decode_key, decode_value
from groupreplay.state import DELETED, Event, Group
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    check,
    commit,
    emptied,
    facts,
    generation,
    gone,
    member,
    names,
    no_offset,
    observed,
    placed,
    replay,
)

CONSUMER_GROUP_KEY = bytes.fromhex("0003000167")
CONSUMER_GROUP_EPOCH_5 = bytes.fromhex("00000000000500")


def opened() -> tuple[Group, list[Raw]]:
    """A group whose tombstone is the last record that was read of its partition."""
    records = placed([asked_for(at=1_000), gone(at=9_000)])
    group = Group(GROUP, CONTEXT)
    assert names(group.apply(observed(records), 0)) == ["group.created"]
    return group, records


def test_an_operation_stays_open_until_its_end_is_seen() -> None:
    """A tombstone may be the first half of a conversion: no event is emitted, and a deadline is set."""
    group, _ = opened()
    assert (group.next_deadline_ms(), group.describe()["state"]) == (9_001, "Empty")


def test_the_caught_up_time_closes_an_operation() -> None:
    """Once the log is known past the operation's timestamp, and not at it."""
    group, _ = opened()
    assert group.expire(9_000) == []
    assert names(group.expire(9_001)) == ["group.deleted"]
    assert (group.next_deadline_ms(), group.expire(99_999)) == (None, [])


def test_a_later_record_of_the_partition_closes_an_operation() -> None:
    """Records of other groups never fall inside an operation."""
    group, records = opened()
    assert group.apply(observed([], seen_to=records[-1].offset), 0) == []
    assert names(group.apply(observed([], seen_to=records[-1].offset + 1), 0)) == ["group.deleted"]


def test_a_later_record_of_the_group_closes_an_operation() -> None:
    """Another timestamp, or a gap between the offsets, is another operation."""
    for raw in (asked_for(at=9_001), asked_for(at=9_000)):
        group, records = opened()
        later = replace(raw, offset=records[-1].offset + (1 if raw.at > 9_000 else 2))
        assert names(group.apply(observed([later]), 0)) == ["group.deleted", "group.created"]


def test_a_group_record_ends_its_operation() -> None:
    """A classic record holds the whole group: it ends its operation without a timer."""
    group = Group(GROUP, CONTEXT)
    assert names(group.apply(observed(placed([asked_for(at=5)])), 0)) == ["group.created"]
    assert group.next_deadline_ms() is None


def test_deadlines_are_served_with_data_in_every_call() -> None:
    """A group with records in every call has its due work done in the same calls."""
    records = placed([commit("t", 0, 1, at=1_000), no_offset("t", 0, at=2_000)])
    group = Group(GROUP, CONTEXT)
    group.apply(observed(records), now_ms=0)
    assert group.next_deadline_ms() == 2_001
    assert names(group.apply(observed([]), now_ms=2_001)) == ["offsets.deleted"]
    assert group.describe()["offsets"] == []


def test_an_untouched_group_need_not_be_written() -> None:
    """Nothing new read, no deadline due: ``changed`` stays False."""
    group, _ = replay([asked_for(at=1)])
    again = Group.from_snapshot(GROUP, CONTEXT, group.snapshot())
    assert (again.apply(observed([]), 99_999), again.changed) == ([], False)


def test_a_recreated_topic_is_another_era() -> None:
    """Offsets start again: new records below the last offset are applied, and ids do not collide."""
    group, _ = replay([asked_for(at=1)])
    era = replace(CONTEXT, era="era-2")
    again = Group.from_snapshot(GROUP, era, group.snapshot())
    (raw,) = placed([generation(1, member("a", [0]), at=50)], first=5)
    events = again.apply(observed([raw]), 0)
    assert names(events) == ["rebalance.completed", "member.joined"]


def test_a_document_is_taken_when_something_changed() -> None:
    """The time of a commit alone does not change the document; a new partition, a member or a state does."""
    group = Group(GROUP, CONTEXT)
    history = placed(
        [
            asked_for(at=1),
            generation(1, member("a", [0]), at=5),
            commit("t", 0, 1, at=6),
            commit("t", 0, 9, at=7),
            commit("t", 1, 9, at=8),
            emptied(2, at=9),
        ]
    )
    taken = []
    for raw in history:
        group.apply(observed([raw]), 0)
        document = group.take_document()
        taken.append(document and (document["state"], document["offsets"]["partitions"]))
        assert group.take_document() is None
    assert taken == [("Empty", 0), ("Stable", 0), ("Stable", 1), None, ("Stable", 2), ("Empty", 2)]


def test_the_document_survives_a_restart() -> None:
    """The snapshot has a digest of the last document, so that a restart does not write it again."""
    group, _ = replay([asked_for(at=1)])
    assert group.take_document() is not None
    assert Group.from_snapshot(GROUP, CONTEXT, group.snapshot()).take_document() is None


def test_a_deleted_group_takes_its_document_away_once() -> None:
    """Only a group that had a document gets a tombstone; then nothing must be kept."""
    group, _ = opened()
    group.take_document()
    group.expire(9_001)
    assert not group.gone
    assert group.take_document() is DELETED
    assert (group.take_document(), group.gone) == (None, True)


def test_the_document_in_full() -> None:
    """Every field of ``group-states``."""
    group, _ = replay([asked_for(at=1), generation(1, member("a", [0, 1, 4]), at=5), commit("t", 0, 7, at=6)])
    assert group.take_document() == {
        "cluster_id": "test-cluster",
        "group_id": "g",
        "type": "classic",
        "simple": False,
        "state": "Stable",
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "a",
        "rebalance_timeout_ms": 300_000,
        "rebalance_timeout_member": "a",
        "generation": 1,
        "group_epoch": None,
        "target_epoch": None,
        "since_ms": 5,
        "since_ms_earliest": 5,
        "history": "full",
        "topology_epoch": None,
        "member_count": 1,
        "members": [
            {
                "member_id": "a",
                "instance_id": None,
                "client_id": "client-a",
                "client_host": "/10.0.0.1",
                "state": "Stable",
                "epoch": None,
                "partitions": {"t": "0-1,4"},
                "supported_protocols": ["range"],
                "member_protocol": "classic",
                "target_partitions": None,
                "revoking": None,
                "rack_id": None,
                "process_id": None,
                "connect": None,
                "is_leader": True,
                "session_timeout_ms": 45_000,
                "rebalance_timeout_ms": 300_000,
                "topics": ("t",),
            }
        ],
        "subscribed_topics": ["t"],
        "offsets": {"partitions": 1, "oldest_commit_ms": 6, "newest_commit_ms": 6, "next_expiry_ms": None},
        "conditions": [],
        "suppressed": {},
        "labels": {},
        "log_position": {"partition": 3, "offset": 104, "timestamp_ms": 6},
    }
    assert group.describe()["members"][0]["partitions"] == {"t": [0, 1, 4]}


def test_a_group_of_a_newer_kind_is_not_taken_for_a_simple_one() -> None:
    """Its commits are like those of a simple group; its own records show its kind."""
    key = decode_key(CONSUMER_GROUP_KEY)
    history = placed([Raw(key, decode_value(key, CONSUMER_GROUP_EPOCH_5), at=5), commit("t", 0, 1, at=6)])
    group = Group(GROUP, CONTEXT)
    assert facts(group.apply(observed(history), 0)) == []
    check(group.describe(), type="consumer", simple=False, state="Empty")


@pytest.mark.parametrize(("known", "expected_ms"), [(True, 1_000), (False, 70_000)])
def test_records_without_a_time(known: bool, expected_ms: int) -> None:
    """They have the time of the record before them; the first of a group has the time by which it was read."""
    wrong = [
        commit("t", 0, 5, at=-1, commit_at=-2),
        generation(1, member("a", [0]), at=-1, since=2**60),
        commit("t", 0, 6, at=-1, commit_at=3_000),
    ]
    before = [asked_for(at=1_000)] if known else []
    group = Group(GROUP, CONTEXT)
    for raw in placed([*before, *wrong], step=1):
        group.apply(replace(observed([raw]), caught_up_ms=70_000), 0)
        group = Group.from_snapshot(GROUP, CONTEXT, group.snapshot())
    assert group.take_document() is not None
    shown = group.describe()
    assert (shown["since_ms"], shown["offsets"][0]["commit_timestamp_ms"]) == (expected_ms, 3_000)
    assert group._snapshot.log.clock_ms == group._snapshot.log.last_timestamp_ms == expected_ms


def test_a_record_centuries_ahead_does_not_hold_up_the_call() -> None:
    """Deadlines of the time between are evaluated a bounded number of times, then once at its end."""
    group = Group("g", replace(CONTEXT, retention_ms=86_400_000))
    at = 2**50
    history = [
        commit("t", 0, 1, at=1_000),
        commit("t", 0, 2, at=2_000),
        generation(1, member("m", [0]), at=at),
    ]
    evaluated = 0
    plain = Group._evaluate

    def counted(self: Group, *report: Any, **how: Any) -> list[Event]:
        nonlocal evaluated
        evaluated += 1
        return plain(self, *report, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Group, "_evaluate", counted)
        group.apply(observed(placed(history)), at)
    assert evaluated < 2_000
    check(group.describe(), state="Stable")
