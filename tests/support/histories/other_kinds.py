"""A share group and a streams group, each in one operation that fills all columns of a table."""

from __future__ import annotations

from groupreplay.codecs import streams
from groupreplay.codecs.consumer import TopicIdPartitions
from support.histories.builders import Raw
from support.histories.group_records import Share, Streams
from support.histories.modern_builders import TOPIC_ID, operation


def share_group(at: int) -> list[Raw]:
    """Member ``a`` in rack ``r-1`` at epoch 2 owns partitions 0 and 1 of the topic; its target is partition 0."""

    def topic(*partitions: int) -> tuple[TopicIdPartitions, ...]:
        return (TopicIdPartitions(topic_id=TOPIC_ID, partitions=partitions),)

    client = {"rack_id": "r-1", "client_id": "app", "client_host": "/h"}
    epochs = {"member_epoch": 2, "previous_member_epoch": 1}
    record = Share().record
    return operation(
        at,
        record("MemberMetadata", "a", **client, subscribed_topic_names=("t",)),
        record("Metadata", epoch=3, metadata_hash=7),
        record("TargetAssignmentMember", "a", topic_partitions=topic(0)),
        record("TargetAssignmentMetadata", assignment_epoch=3),
        record("CurrentMemberAssignment", "a", **epochs, state=0, assigned_partitions=topic(0, 1)),
    )


def streams_group(at: int) -> list[Raw]:
    """Member ``a`` has active task 0_0 and standby task 1_3; its target is 0_0, 0_1 and warm-up task 1_2."""

    def owned(subtopology: str, *partitions: int) -> tuple[streams.OwnedTaskIds, ...]:
        return (
            streams.OwnedTaskIds(subtopology_id=subtopology, partitions=partitions, assignment_epochs=None),
        )

    def task(subtopology: str, *partitions: int) -> tuple[streams.TaskIds, ...]:
        return (streams.TaskIds(subtopology_id=subtopology, partitions=partitions),)

    client = {"instance_id": None, "rack_id": None, "client_id": "app", "client_host": "/h"}
    target = {"active_tasks": task("0", 0, 1), "standby_tasks": (), "warmup_tasks": task("1", 2)}
    current = {"active_tasks": owned("0", 0), "standby_tasks": owned("1", 3), "warmup_tasks": ()}
    record = Streams().record
    return operation(
        at,
        record("MemberMetadata", "a", **client, topology_epoch=4, process_id="p-1", client_tags=()),
        record("Topology", epoch=4, subtopologies=()),
        record("Metadata", epoch=3, metadata_hash=7, validated_topology_epoch=4),
        record("TargetAssignmentMember", "a", **target),
        record("TargetAssignmentMetadata", assignment_epoch=3),
        record(
            "CurrentMemberAssignment",
            "a",
            member_epoch=2,
            previous_member_epoch=1,
            state=1,
            **current,
            **{f"{name}_pending_revocation": () for name in current},
        ),
    )
