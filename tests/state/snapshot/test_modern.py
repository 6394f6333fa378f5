"""States of share and streams groups, as the broker derives them from the same records."""

from __future__ import annotations

from typing import Any

from groupreplay.codecs import share, streams
from groupreplay.codecs.consumer import TopicIdPartitions
from groupreplay.codecs.registry import KEY_TYPES
from groupreplay.state.snapshot.modern import RECORDS
from support.histories.builders import GROUP, Raw, names, replay
from support.histories.modern_builders import TOPIC, TOPIC_ID, operation


def state(history: list[Raw]) -> str:
    """The group's state once the history is over."""
    return str(replay(history)[0].describe()["state"])


def share_member(member_id: str) -> Raw:
    """Type 10."""
    value = share.ShareGroupMemberMetadataValue(
        version=0, rack_id=None, client_id="c", client_host="/h", subscribed_topic_names=("t",)
    )
    return Raw(share.ShareGroupMemberMetadataKey(group=GROUP, member_id=member_id), value)


def share_epoch(number: int) -> Raw:
    """Type 11."""
    value = share.ShareGroupMetadataValue(version=0, epoch=number, metadata_hash=7)
    return Raw(share.ShareGroupMetadataKey(group=GROUP), value)


def share_target_epoch(number: int) -> Raw:
    """Type 12."""
    value = share.ShareGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=number)
    return Raw(share.ShareGroupTargetAssignmentMetadataKey(group=GROUP), value)


def share_current(member_id: str, epoch: int) -> Raw:
    """Type 14."""
    value = share.ShareGroupCurrentMemberAssignmentValue(
        version=0,
        member_epoch=epoch,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=(TopicIdPartitions(topic_id=TOPIC_ID, partitions=(0, 1)),),
    )
    return Raw(share.ShareGroupCurrentMemberAssignmentKey(group=GROUP, member_id=member_id), value)


def share_partitions(name: str) -> Raw:
    """Type 15: the topic is being initialised."""
    topic = share.TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name=name, partitions=(0, 1))
    value = share.ShareGroupStatePartitionMetadataValue(
        version=0, initializing_topics=(topic,), initialized_topics=(), deleting_topics=()
    )
    return Raw(share.ShareGroupStatePartitionMetadataKey(group=GROUP), value)


def test_every_record_type_has_its_place() -> None:
    """Whatever the codecs read, apart from offsets and classic groups, is replayed."""
    assert set(RECORDS) == set(KEY_TYPES) - {0, 1, 2}


def test_a_share_group_is_empty_or_stable() -> None:
    """Scenario 27: Stable whatever the epochs are; a leave bumps the epoch."""
    history = operation(1_000, share_member("a"), share_epoch(1))
    assert state(history) == "Stable"
    history += operation(2_000, share_target_epoch(1), share_current("a", 1), share_partitions("orders"))
    group, events = replay(history)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    described = group.describe()
    assert (described["type"], described["members"][0]["partitions"]) == ("share", {"orders": [0, 1]})
    gone = [
        Raw(share.ShareGroupCurrentMemberAssignmentKey(group=GROUP, member_id="a"), None),
        Raw(share.ShareGroupMemberMetadataKey(group=GROUP, member_id="a"), None),
    ]
    history += operation(9_000, gone, share_epoch(2))
    assert state(history) == "Empty"


def streams_member(member_id: str) -> Raw:
    """Type 19."""
    value = streams.StreamsGroupMemberMetadataValue(
        version=0,
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=30_000,
        topology_epoch=1,
        process_id="p",
        user_endpoint=None,
        client_tags=(),
    )
    return Raw(streams.StreamsGroupMemberMetadataKey(group=GROUP, member_id=member_id), value)


def streams_epoch(number: int, validated: int = -1) -> Raw:
    """Type 17."""
    value = streams.StreamsGroupMetadataValue(
        version=0, epoch=number, metadata_hash=7, validated_topology_epoch=validated
    )
    return Raw(streams.StreamsGroupMetadataKey(group=GROUP), value)


def streams_target_epoch(number: int) -> Raw:
    """Type 20."""
    value = streams.StreamsGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=number)
    return Raw(streams.StreamsGroupTargetAssignmentMetadataKey(group=GROUP), value)


def streams_current(member_id: str, epoch: int, number: int = 1) -> Raw:
    """Type 22; member states of streams groups count from 1."""
    active = (streams.OwnedTaskIds(subtopology_id="0", partitions=(0, 1), assignment_epochs=None),)
    empty: dict[str, Any] = {
        f"{role}_tasks{suffix}": ()
        for role in ("active", "standby", "warmup")
        for suffix in ("", "_pending_revocation")
    }
    value = streams.StreamsGroupCurrentMemberAssignmentValue(
        version=0,
        member_epoch=epoch,
        previous_member_epoch=0,
        state=number,
        **{**empty, "active_tasks": active},
    )
    return Raw(streams.StreamsGroupCurrentMemberAssignmentKey(group=GROUP, member_id=member_id), value)


def topology(epoch: int) -> Raw:
    """Type 23, with a source topic and a repartition topic."""
    internal = streams.InternalTopic(name="again", partitions=2, replication_factor=1, topic_configs=())
    part = streams.Subtopology(
        subtopology_id="0",
        source_topics=("orders",),
        source_topic_regex=(),
        state_changelog_topics=(),
        repartition_sink_topics=(),
        repartition_source_topics=(internal,),
        copartition_groups=(),
    )
    value = streams.StreamsGroupTopologyValue(version=0, epoch=epoch, subtopologies=(part,))
    return Raw(streams.StreamsGroupTopologyKey(group=GROUP), value)


def test_a_streams_group_goes_through_all_its_states() -> None:
    """Scenario 28: NotReady, Assigning, Reconciling, Stable, each from one more record."""
    history = operation(1_000, streams_member("a"), streams_epoch(1))
    assert state(history) == "NotReady"
    history += operation(2_000, topology(1))
    assert state(history) == "NotReady"
    history += operation(3_000, streams_epoch(2, validated=1))
    assert state(history) == "Assigning"
    history += operation(4_000, streams_target_epoch(2))
    assert state(history) == "Reconciling"
    history += operation(5_000, streams_current("a", 2, 2))
    assert state(history) == "Reconciling"
    history += operation(6_000, streams_current("a", 2))
    assert state(history) == "Stable"
    _, events = replay(history)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    completed = events[-1].fact
    assert (completed.duration_ms, completed.members[0].partitions) == (5_000, {"0": "0-1"})


def test_a_streams_group_is_subscribed_to_its_topology() -> None:
    """Scenario 29: source and repartition topics, and to nothing once it is Empty."""
    history = operation(1_000, streams_member("a"), streams_epoch(1, validated=1), topology(1))
    assert replay(history)[0].describe()["subscribed_topics"] == ["again", "orders"]
    history += operation(
        2_000,
        Raw(streams.StreamsGroupMemberMetadataKey(group=GROUP, member_id="a"), None),
        streams_epoch(2, validated=1),
    )
    group, _ = replay(history)
    assert (group.describe()["state"], group.describe()["subscribed_topics"]) == ("Empty", [])


def test_a_topology_tombstone_after_the_end_is_nothing() -> None:
    """On deletion it comes after the group's own tombstone."""
    history = operation(1_000, streams_member("a"), streams_epoch(1, validated=1), topology(1))
    history += operation(
        9_000,
        Raw(streams.StreamsGroupMemberMetadataKey(group=GROUP, member_id="a"), None),
        Raw(streams.StreamsGroupMetadataKey(group=GROUP), None),
        Raw(streams.StreamsGroupTopologyKey(group=GROUP), None),
    )
    group, events = replay(history)
    assert (names(events)[-1], group.gone, TOPIC) == ("group.deleted", True, TOPIC)
