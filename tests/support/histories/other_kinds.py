"""A share group and a streams group, each in one operation that fills all columns of a table."""

from __future__ import annotations

from groupreplay.codecs import share, streams
from groupreplay.codecs.consumer import TopicIdPartitions
from support.histories.builders import GROUP, Raw
from support.histories.modern_builders import TOPIC_ID, operation


def share_group(at: int) -> list[Raw]:
    """Member ``a`` in rack ``r-1`` at epoch 2 owns partitions 0 and 1 of the topic; its target is partition 0."""

    def topic(*partitions: int) -> tuple[TopicIdPartitions, ...]:
        return (TopicIdPartitions(topic_id=TOPIC_ID, partitions=partitions),)

    member = {"group": GROUP, "member_id": "a"}
    return operation(
        at,
        Raw(
            share.ShareGroupMemberMetadataKey(**member),
            share.ShareGroupMemberMetadataValue(
                version=0, rack_id="r-1", client_id="app", client_host="/h", subscribed_topic_names=("t",)
            ),
        ),
        Raw(
            share.ShareGroupMetadataKey(group=GROUP),
            share.ShareGroupMetadataValue(version=0, epoch=3, metadata_hash=7),
        ),
        Raw(
            share.ShareGroupTargetAssignmentMemberKey(**member),
            share.ShareGroupTargetAssignmentMemberValue(version=0, topic_partitions=topic(0)),
        ),
        Raw(
            share.ShareGroupTargetAssignmentMetadataKey(group=GROUP),
            share.ShareGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=3),
        ),
        Raw(
            share.ShareGroupCurrentMemberAssignmentKey(**member),
            share.ShareGroupCurrentMemberAssignmentValue(
                version=0, member_epoch=2, previous_member_epoch=1, state=0, assigned_partitions=topic(0, 1)
            ),
        ),
    )


def streams_group(at: int) -> list[Raw]:
    """Member ``a`` has active task 0_0 and standby task 1_3; its target is 0_0, 0_1 and warm-up task 1_2."""

    def owned(subtopology: str, *partitions: int) -> tuple[streams.OwnedTaskIds, ...]:
        return (
            streams.OwnedTaskIds(subtopology_id=subtopology, partitions=partitions, assignment_epochs=None),
        )

    def task(subtopology: str, *partitions: int) -> tuple[streams.TaskIds, ...]:
        return (streams.TaskIds(subtopology_id=subtopology, partitions=partitions),)

    member = {"group": GROUP, "member_id": "a"}
    return operation(
        at,
        Raw(
            streams.StreamsGroupMemberMetadataKey(**member),
            streams.StreamsGroupMemberMetadataValue(
                version=0,
                instance_id=None,
                rack_id=None,
                client_id="app",
                client_host="/h",
                topology_epoch=4,
                process_id="p-1",
                client_tags=(),
            ),
        ),
        Raw(
            streams.StreamsGroupTopologyKey(group=GROUP),
            streams.StreamsGroupTopologyValue(version=0, epoch=4, subtopologies=()),
        ),
        Raw(
            streams.StreamsGroupMetadataKey(group=GROUP),
            streams.StreamsGroupMetadataValue(
                version=0, epoch=3, metadata_hash=7, validated_topology_epoch=4
            ),
        ),
        Raw(
            streams.StreamsGroupTargetAssignmentMemberKey(**member),
            streams.StreamsGroupTargetAssignmentMemberValue(
                version=0, active_tasks=task("0", 0, 1), standby_tasks=(), warmup_tasks=task("1", 2)
            ),
        ),
        Raw(
            streams.StreamsGroupTargetAssignmentMetadataKey(group=GROUP),
            streams.StreamsGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=3),
        ),
        Raw(
            streams.StreamsGroupCurrentMemberAssignmentKey(**member),
            streams.StreamsGroupCurrentMemberAssignmentValue(
                version=0,
                member_epoch=2,
                previous_member_epoch=1,
                state=1,
                active_tasks=owned("0", 0),
                standby_tasks=owned("1", 3),
                warmup_tasks=(),
                active_tasks_pending_revocation=(),
                standby_tasks_pending_revocation=(),
                warmup_tasks_pending_revocation=(),
            ),
        ),
    )
