"""Consumer, share and streams groups as their records describe them: epochs, members, targets, assignments.

One table has the effect of each record; the three kinds differ only in their records. Replay is lenient where the
coordinator throws an exception (docs/internals.md): the last record of a key wins, related records may be missing,
and tombstones of unknown members are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from groupreplay.codecs import uuid_text
from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS, GroupType, MemberPhase, given_ms
from groupreplay.state.plausible_times import NO_TIMESTAMP, written_ms
from groupreplay.state.snapshot.partitions import to_ranges

#: Epoch of a member that has left or was fenced, and of a static member that is away for a moment.
LEFT: Final = -1
AWAY: Final = -2


_PHASES: Final = (MemberPhase.STABLE, MemberPhase.UNREVOKED, MemberPhase.UNRELEASED)

#: What a member does in each state, for the page about states.
MEMBER_STATES: Final[Mapping[MemberPhase, str]] = {
    MemberPhase.STABLE: "it has everything that it can have at its epoch",
    MemberPhase.UNREVOKED: "it must revoke something within its rebalance timeout, at its old epoch",
    MemberPhase.UNRELEASED: "it is at the target's epoch and waits for partitions that others have not revoked yet",
    MemberPhase.UNKNOWN: "a number that Kafka does not define",
}


class ModernMember(msgspec.Struct, array_like=True):
    """A member; assignments are ranges by topic id in text form, or by subtopology of a streams group.

    ``rebalance_timeout_ms`` is -1 when it was not given. ``phase_since_ms`` is when the member entered its phase at its
    present epoch: from then on it has the rebalance timeout for a revocation. ``behind_since_ms`` is since when its
    epoch is below that of the target assignment without a record of its own; None: it is not.
    """

    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic_session_timeout_ms: int | None = None
    supported_protocols: tuple[str, ...] = ()
    described: bool = False
    epoch: int = 0
    previous_epoch: int = -1
    phase: MemberPhase = MemberPhase.STABLE
    phase_since_ms: int | None = None
    assigned: dict[str, str] = {}
    revoking: dict[str, str] = {}
    target: dict[str, str] | None = None
    seen_ms: int | None = None
    rack_id: str | None = None
    process_id: str | None = None
    behind_since_ms: int | None = None


class Modern(msgspec.Struct, array_like=True):
    """A group of one of the newer kinds. Epochs are None until a record contains them.

    ``topology_epoch`` and ``validated_topology_epoch`` belong to streams groups; ``topic_names`` are the names of
    topic ids in records of types 4 and 15.
    """

    exists: bool = False
    group_epoch: int | None = None
    metadata_hash: int | None = None
    target_epoch: int | None = None
    target_timestamp_ms: int | None = None
    members: dict[str, ModernMember] = {}
    regexes: dict[str, tuple[str, ...]] = {}
    topic_names: dict[str, str] = {}
    topology_epoch: int | None = None
    validated_topology_epoch: int = -1
    source_topics: tuple[str, ...] = ()
    initializing: dict[str, str] = {}


def _by_id(topics: Iterable[Any]) -> dict[str, str]:
    return {uuid_text(topic.topic_id): to_ranges(topic.partitions) for topic in topics}


def _tasks(value: Any, suffix: str = "") -> dict[str, str]:
    """Tasks by subtopology; standby and warmup tasks have their role in the name."""
    return {
        f"{task.subtopology_id}{mark}": to_ranges(task.partitions)
        for role, mark in (("active", ""), ("standby", " (standby)"), ("warmup", " (warmup)"))
        for task in getattr(value, f"{role}_tasks{suffix}")
    }


def _member(group: Modern, key: Any) -> ModernMember:
    return group.members.setdefault(key.member_id, ModernMember())


def _group_epoch(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    if value is None:
        group.group_epoch, group.exists = None, False
        return
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = getattr(value, "validated_topology_epoch", -1)


def _member_metadata(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    if value is None:
        # Its target and current assignment have their own tombstones, which compaction may have removed.
        group.members.pop(key.member_id, None)
        return
    member = _member(group, key)
    classic = getattr(value, "classic_member_metadata", None)
    member.described = True
    member.instance_id = getattr(value, "instance_id", None)
    member.client_id = value.client_id
    member.client_host = value.client_host
    member.topics = tuple(sorted(set(getattr(value, "subscribed_topic_names", ()))))
    member.regex = getattr(value, "subscribed_topic_regex", None) or None
    member.rebalance_timeout_ms = given_ms(getattr(value, "rebalance_timeout_ms", -1)) or -1
    member.assignor = getattr(value, "server_assignor", None)
    member.classic_session_timeout_ms = (
        (given_ms(classic.session_timeout_ms) or DEFAULT_SESSION_TIMEOUT_MS) if classic else None
    )
    member.supported_protocols = (
        tuple(protocol.name for protocol in classic.supported_protocols) if classic else ()
    )
    member.rack_id = value.rack_id
    member.process_id = getattr(value, "process_id", None)
    member.seen_ms = at_ms


def _target_epoch(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    group.target_epoch = LEFT if value is None else value.assignment_epoch
    group.target_timestamp_ms = written_ms(
        getattr(value, "assignment_timestamp_ms", 0) or NO_TIMESTAMP, at_ms
    )
    for member in group.members.values():
        if member.epoch >= group.target_epoch:
            member.behind_since_ms = None
        elif member.behind_since_ms is None:
            member.behind_since_ms = at_ms


def _target(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    if value is None:
        if key.member_id in group.members:
            group.members[key.member_id].target = None
        return
    _member(group, key).target = (
        _by_id(value.topic_partitions) if hasattr(value, "topic_partitions") else _tasks(value)
    )


def _current(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    if value is None:
        member = group.members.get(key.member_id)
        if member is not None:
            member.epoch, member.previous_epoch = LEFT, LEFT
            member.assigned, member.revoking = {}, {}
        return
    member = _member(group, key)
    tasks = hasattr(value, "active_tasks")
    number = value.state - 1 if tasks else value.state
    phase = _PHASES[number] if 0 <= number < len(_PHASES) else MemberPhase.UNKNOWN
    assigned = _tasks(value) if tasks else _by_id(value.assigned_partitions)
    revoking = (
        _tasks(value, "_pending_revocation")
        if tasks
        else _by_id(getattr(value, "partitions_pending_revocation", ()))
    )
    # A record that differs only in the previous epoch does not begin the phase again.
    if (phase, value.member_epoch, revoking) != (member.phase, member.epoch, member.revoking):
        member.phase_since_ms = at_ms
    member.epoch, member.previous_epoch, member.phase = value.member_epoch, value.previous_member_epoch, phase
    member.assigned, member.revoking, member.seen_ms = assigned, revoking, at_ms
    member.behind_since_ms = at_ms if member.epoch < (group.target_epoch or 0) else None


def _regex(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = tuple(sorted(set(value.topics)))


def _topic_metadata(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    for topic in getattr(value, "topics", ()):
        group.topic_names[uuid_text(topic.topic_id)] = topic.topic_name


def _share_state(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    group.initializing = {}
    if value is None:
        return
    for topic in (*value.initializing_topics, *value.initialized_topics, *value.deleting_topics):
        group.topic_names[uuid_text(topic.topic_id)] = topic.topic_name
    group.initializing = _by_id(value.initializing_topics)


def _topology(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    if value is None:
        # On deletion it comes after the group's own tombstone.
        group.topology_epoch, group.source_topics = None, ()
        return
    group.topology_epoch = value.epoch
    topics = {topic for part in value.subtopologies for topic in part.source_topics}
    topics |= {topic.name for part in value.subtopologies for topic in part.repartition_source_topics}
    group.source_topics = tuple(sorted(topics))


#: Key types of current assignments, whose tombstone comes before the member's own.
_CURRENT: Final = (8, 14, 22)
_DESCRIPTIONS: Final = (5, 10, 19)

_Apply = Callable[[Modern, Any, Any, int], None]

#: Key type -> the kind of group that has such records, and their effect.
RECORDS: Final[Mapping[int, tuple[GroupType, _Apply]]] = {
    3: (GroupType.CONSUMER, _group_epoch),
    4: (GroupType.CONSUMER, _topic_metadata),
    5: (GroupType.CONSUMER, _member_metadata),
    6: (GroupType.CONSUMER, _target_epoch),
    7: (GroupType.CONSUMER, _target),
    8: (GroupType.CONSUMER, _current),
    16: (GroupType.CONSUMER, _regex),
    9: (GroupType.SHARE, _topic_metadata),
    10: (GroupType.SHARE, _member_metadata),
    11: (GroupType.SHARE, _group_epoch),
    12: (GroupType.SHARE, _target_epoch),
    13: (GroupType.SHARE, _target),
    14: (GroupType.SHARE, _current),
    15: (GroupType.SHARE, _share_state),
    17: (GroupType.STREAMS, _group_epoch),
    19: (GroupType.STREAMS, _member_metadata),
    20: (GroupType.STREAMS, _target_epoch),
    21: (GroupType.STREAMS, _target),
    22: (GroupType.STREAMS, _current),
    23: (GroupType.STREAMS, _topology),
}


def apply_record(group: Modern, key: Any, value: Any, at_ms: int) -> None:
    """Apply one record of the group's own kind; ``value`` None is its tombstone."""
    if value is not None:
        group.exists = True
    RECORDS[key.KEY_TYPE][1](group, key, value, at_ms)


def is_strange(group: Modern, key: Any, value: Any) -> bool:
    """Whether a record shows that others are missing: the tombstone of a member or assignment that is not known.

    A static member, too, has an assignment before it is away for a moment.
    """
    member_id = getattr(key, "member_id", None)
    if member_id is None or (value is not None and getattr(value, "member_epoch", 0) != AWAY):
        return False
    member = group.members.get(member_id)
    if member is None:
        return True
    if key.KEY_TYPE in _CURRENT:
        return member.phase_since_ms is None
    return key.KEY_TYPE in _DESCRIPTIONS and member.epoch != LEFT


def living(group: Modern) -> dict[str, ModernMember]:
    """The members of the group: those that a record describes and that have not left."""
    return {name: member for name, member in group.members.items() if member.described}


def _first_epoch(group: Modern) -> int | None:
    """The epoch of a group whose members wait until their regular expression is resolved.

    The coordinator begins with epoch 1 (before 4.3 with 0), which only the members' records contain; the records of
    the group and of its target begin with the next one.
    """
    found = {member.epoch for member in living(group).values() if member.regex}
    return max(found) if found and found <= {0, 1} and group.target_epoch is None else None


def group_epoch(group: Modern) -> int | None:
    """The group's epoch; None when no record contains it."""
    return _first_epoch(group) if group.group_epoch is None else group.group_epoch


def target_epoch(group: Modern) -> int | None:
    """The epoch of the target assignment; None when no record contains it."""
    return _first_epoch(group) if group.target_epoch is None else group.target_epoch


def reconciled(group: Modern, member: ModernMember) -> bool:
    """Whether a member has its target assignment (``ModernGroupMember.isReconciledTo``)."""
    return member.phase is MemberPhase.STABLE and member.epoch == target_epoch(group)


def _empty(group: Modern) -> bool:
    """The group has no member."""
    return not living(group)


def _not_ready(group: Modern) -> bool:
    """The group has no topology, or the epoch of the topology is not the validated one."""
    return group.topology_epoch is None or group.topology_epoch != group.validated_topology_epoch


def assigning(group: Modern) -> bool:
    """The group epoch is above the epoch of the target assignment."""
    return (group_epoch(group) or 0) > (target_epoch(group) or 0)


def _reconciling(group: Modern) -> bool:
    """A member is not Stable, or not at the epoch of the target assignment."""
    return not all(reconciled(group, member) for member in living(group).values())


#: The state of a group for which no rule of its kind holds.
STABLE_STATE: Final = "Stable"
#: Kind -> its states in the order in which the broker tests them.
STATES: Final[Mapping[GroupType, tuple[tuple[str, Callable[[Modern], bool]], ...]]] = {
    GroupType.CONSUMER: (("Empty", _empty), ("Assigning", assigning), ("Reconciling", _reconciling)),
    GroupType.SHARE: (("Empty", _empty),),
    GroupType.STREAMS: (
        ("Empty", _empty),
        ("NotReady", _not_ready),
        ("Assigning", assigning),
        ("Reconciling", _reconciling),
    ),
}


def state_of(kind: GroupType, group: Modern) -> str:
    """The group's state as the broker derives it (``maybeUpdateGroupState``); Dead when the group does not exist."""
    if not group.exists:
        return "Dead"
    return next((name for name, holds in STATES[kind] if holds(group)), STABLE_STATE)


def settled(group: Modern) -> bool:
    """Whether no member waits for anything. The state does not show this for share groups: it is always Stable."""
    return not assigning(group) and not _reconciling(group)


def subscribed_topics(kind: GroupType, group: Modern) -> frozenset[str]:
    """Topics the group is subscribed to; none without members."""
    members = living(group).values()
    if not members:
        return frozenset()
    if kind is GroupType.STREAMS:
        return frozenset(group.source_topics)
    named = {topic for member in members for topic in member.topics}
    return frozenset(named.union(*group.regexes.values()))
