"""A share group and a streams group, each in one operation that fills all columns of a table."""

from __future__ import annotations

from groupreplay.codecs import streams
from support.histories.builders import Raw
from support.histories.group_records import HeldPartitions, Share, Streams
from support.histories.modern_builders import operation


def share_group(at: int) -> list[Raw]:
    """Member ``a`` in rack ``r-1`` at epoch 2 owns partitions 0 and 1 of the topic; its target is partition 0."""
    write = Share()
    client = {"client_id": "app", "client_host": "/h"}
    return operation(
        at,
        write.record("MemberMetadata", "a", rack_id="r-1", **client, subscribed_topic_names=("t",)),
        write.group_epoch(3, 7),
        write.target("a", [0]),
        write.target_epoch(3),
        write.current("a", HeldPartitions(2, previous=1, assigned=(0, 1))),
    )


def streams_group(at: int) -> list[Raw]:
    """Member ``a`` has active task 0_0 and standby task 1_3; its target is 0_0, 0_1 and warm-up task 1_2."""

    def owned(subtopology: str, *partitions: int) -> tuple[streams.OwnedTaskIds, ...]:
        return (
            streams.OwnedTaskIds(subtopology_id=subtopology, partitions=partitions, assignment_epochs=None),
        )

    def task(subtopology: str, *partitions: int) -> tuple[streams.TaskIds, ...]:
        return (streams.TaskIds(subtopology_id=subtopology, partitions=partitions),)

    write = Streams()
    client = {"instance_id": None, "rack_id": None, "client_id": "app", "client_host": "/h"}
    target = {"active_tasks": task("0", 0, 1), "standby_tasks": (), "warmup_tasks": task("1", 2)}
    held = {"active_tasks": owned("0", 0), "standby_tasks": owned("1", 3), "warmup_tasks": ()}
    revoked = {f"{role}_pending_revocation": () for role in held}
    epochs = {"member_epoch": 2, "previous_member_epoch": 1}
    return operation(
        at,
        write.record("MemberMetadata", "a", **client, topology_epoch=4, process_id="p-1", client_tags=()),
        write.record("Topology", epoch=4, subtopologies=()),
        write.group_epoch(3, 7, validated=4),
        write.record("TargetAssignmentMember", "a", **target),
        write.target_epoch(3),
        write.record("CurrentMemberAssignment", "a", **epochs, state=1, **held, **revoked),
    )
