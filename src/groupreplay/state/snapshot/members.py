"""The members of a group: those of a classic record, Connect workers among them, and what each slot did lately.

A slot is what members that follow each other share: an instance id, or client id and host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from groupreplay.codecs import (
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    GroupMetadataValue,
    Malformed,
    MemberMetadata,
    decode_assignment,
    decode_blob,
    is_text,
    subscribed_topics,
)
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, DEFAULT_SESSION_TIMEOUT_MS, given_ms
from groupreplay.state.snapshot.modern import ModernMember
from groupreplay.state.snapshot.partitions import by_topic

CONNECT_PROTOCOL_TYPE: Final = "connect"
#: In a list of tasks this number means the connector itself.
_CONNECTOR: Final = -1

_Place = tuple[str, int]
_T = TypeVar("_T")


class Worker(msgspec.Struct, frozen=True, array_like=True):
    """One worker. ``connectors`` and ``tasks`` (ranges by connector) are None when they cannot be read.

    ``config_offset`` is the offset up to which the worker had read the config topic when it joined; workers with
    different offsets cannot agree on an assignment.
    """

    url: str
    config_offset: int
    connectors: tuple[str, ...] | None
    tasks: dict[str, str] | None


def read_worker(metadata_blob: bytes, assignment_blob: bytes) -> Worker | None:
    """The worker of a member's subscription and assignment; None when the subscription cannot be read."""
    metadata = decode_blob(ConnectMetadata, metadata_blob)
    if isinstance(metadata, Malformed):
        return None
    allocation = _allocation(metadata, assignment_blob)
    url = metadata.url if is_text(metadata.url) else ""
    if allocation is None:
        return Worker(url, metadata.config_offset, None, None)
    connectors = tuple(sorted(name for name, task in allocation if task == _CONNECTOR))
    tasks = by_topic(place for place in allocation if place[1] >= 0)
    return Worker(url, metadata.config_offset, connectors, tasks)


def _allocation(metadata: ConnectMetadata, assignment_blob: bytes) -> Set[_Place] | None:
    """What the worker runs: what it ran before, without what is revoked, and what is new (KIP-415).

    Protocol 0 has neither of the first two: it assigns everything again.
    """
    assignment = decode_blob(ConnectAssignment, assignment_blob)
    if isinstance(assignment, Malformed):
        return None
    before: set[_Place] = set()
    if metadata.allocation is not None:
        former = decode_blob(ConnectAssignment, metadata.allocation)
        if isinstance(former, Malformed):
            return None
        before = set(_places(former.assigned))
    return (before - set(_places(assignment.revoked))) | set(_places(assignment.assigned))


def _places(given: Iterable[ConnectorTasks] | None) -> Iterable[_Place]:
    return ((one.connector, task) for one in given or () if is_text(one.connector) for task in one.tasks)


class Mark(msgspec.Struct, array_like=True):
    """An operation that completed generations or changed slots; ``slots`` are short hashes of those slots."""

    at_ms: int
    generations: int
    slots: tuple[int, ...]


class Takeover(msgspec.Struct, array_like=True, frozen=True):
    """A static member that came back under a new member id; a place is ``client id@host``."""

    at_ms: int
    old_place: str
    new_place: str


class Slot(msgspec.Struct, array_like=True):
    """A slot and its present or last holder.

    ``returned_ms``: when a holder came back under a new member id; ``dropped_ms``: when the broker removed a holder;
    ``left_ms`` is set while the slot has no holder. ``idle_rounds`` counts generations without a partition.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    left_ms: int | None = None
    returned_ms: tuple[int, ...] = ()
    dropped_ms: tuple[int, ...] = ()
    rebalance_timeout_ms: int = -1
    takeovers: tuple[Takeover, ...] = ()
    idle_rounds: int = 0
    idle_since_ms: int = -1


class MemberCount(msgspec.Struct, array_like=True, frozen=True):
    """How many members a group had from this time on."""

    at_ms: int
    members: int


class Leader(msgspec.Struct, array_like=True, frozen=True):
    """A member that leads a classic group, and when its slot became the leader."""

    at_ms: int
    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None


class SlotHistory(msgspec.Struct, array_like=True):
    """The history of one group; ``slots`` are by a hash of instance id, or of client id and host, or of member id.

    ``number`` is the last generation or group epoch. ``config_offset`` is that of a Connect group, ``configured``
    whether it changed with the last generation. ``unsettled`` counts probes that did not show Stable, by minute.
    ``durations_ms`` are upper bounds of the last rebalances, the latest one last. ``counts`` are the last numbers of
    members; ``stopped_ms`` is when a member last left on purpose or was started again (-1: never).
    ``leaders`` are the last slots that led, the present one last.
    """

    slots: dict[str, Slot] = {}
    marks: list[Mark] = []
    number: int | None = None
    config_offset: int = -1
    configured: bool = False
    unsettled: dict[int, int] = {}
    durations_ms: tuple[int, ...] = ()
    counts: tuple[MemberCount, ...] = ()
    stopped_ms: int = -1
    leaders: tuple[Leader, ...] = ()


def usual_duration_ms(history: SlotHistory | None, least: int) -> int | None:
    """95 % of the rebalances took no longer; None before there were so many of them."""
    durations_ms = sorted(history.durations_ms) if history is not None else []
    if not durations_ms or len(durations_ms) < least:
        return None
    return durations_ms[-(-95 * len(durations_ms) // 100) - 1]


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One member. ``topics`` and ``partitions`` (ranges by topic) are None when they cannot be read.

    ``worker`` is set in their place for a member of a Connect group.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    supported_protocols: tuple[str, ...]
    topics: tuple[str, ...] | None
    partitions: dict[str, str] | None
    worker: Worker | None = None


def client_fields(member: Member | ModernMember | Slot) -> dict[str, Any]:
    """The fields of an event that identify the client of a member."""
    return {
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
    }


def settings_fields(member: Member, *, native: bool = False) -> dict[str, Any]:
    """What a member has asked for; ``native``: it uses a newer protocol, which has no session timeout of members."""
    timeout_ms = member.rebalance_timeout_ms
    return {
        "session_timeout_ms": None if native else member.session_timeout_ms,
        "rebalance_timeout_ms": timeout_ms if timeout_ms > 0 else None,
        "topics": member.topics,
    }


def read_members(value: GroupMetadataValue) -> tuple[Member, ...]:
    """The members of a record, in its order.

    As the coordinator loads them (``GroupMetadataManager.replay``): a rebalance timeout that was not given is the
    session timeout, and the record holds only one supported protocol of each member: the group's. Names that are not
    text and partitions that cannot be are left out (``state.job.bad_records`` counts them).
    """
    return tuple(
        (_read_small if is_small(member) else _read_member)(value.protocol_type, value.protocol, member)
        for member in value.members
    )


def _read_member(protocol_type: str, protocol: str | None, member: MemberMetadata) -> Member:
    is_consumer = protocol_type == CONSUMER_PROTOCOL_TYPE
    is_worker = protocol_type == CONNECT_PROTOCOL_TYPE
    session_timeout_ms = given_ms(member.session_timeout_ms) or DEFAULT_SESSION_TIMEOUT_MS
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=given_ms(member.rebalance_timeout_ms) or session_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        supported_protocols=(protocol,) if protocol else (),
        topics=_read_topics(member.subscription) if is_consumer else None,
        partitions=_read_partitions(member.assignment) if is_consumer else None,
        worker=read_worker(member.subscription, member.assignment) if is_worker else None,
    )


_SMALL_BYTES: Final = 1_024
#: Most members are the same in the next generation: what is found of so many small ones is remembered.
remembered = lru_cache(maxsize=2_048)
_read_small = remembered(_read_member)


def is_small(member: MemberMetadata) -> bool:
    """Whether what is found of its subscription and assignment may be remembered."""
    return len(member.subscription) + len(member.assignment) <= _SMALL_BYTES


def _read_topics(subscription: bytes) -> tuple[str, ...] | None:
    topics = subscribed_topics(subscription)
    return tuple(sorted(filter(is_text, set(topics)))) if isinstance(topics, tuple) else None


def _read_partitions(blob: bytes) -> dict[str, str] | None:
    assignment = decode_assignment(blob)
    if not isinstance(assignment, Assignment):
        return None
    return by_topic(
        (assigned.topic, partition)
        for assigned in assignment.assigned_partitions
        if is_text(assigned.topic)
        for partition in assigned.partitions
    )


def group_topics(members: Sequence[Member], protocol_type: str | None) -> frozenset[str] | None:
    """Topics the group is subscribed to; None when unknown (``ClassicGroup.computeSubscribedTopics``)."""
    topics = [member.topics for member in members]
    if protocol_type != CONSUMER_PROTOCOL_TYPE or None in topics:
        return None
    return frozenset(chain.from_iterable(filter(None, topics)))


class EarlierTopics(msgspec.Struct, frozen=True, array_like=True):
    """The subscriptions of a generation before its newest record, where they were others.

    A static member that is replaced may come back with another subscription, in a record of the same generation.
    ``always`` are the topics of each subscription since the generation began, ``ever`` those of one or more.
    ``unreadable``: one could not be read. ``unknown``: the record in which the generation began was not seen.
    """

    always: tuple[str, ...] = ()
    ever: tuple[str, ...] = ()
    unreadable: bool = False
    unknown: bool = False


def earlier_topics(
    earlier: EarlierTopics | None, replaced: frozenset[str] | None, present: frozenset[str] | None
) -> EarlierTopics | None:
    """What is kept of earlier subscriptions when ``present`` takes the place of ``replaced`` in a generation."""
    if earlier is None and replaced == present:
        return None
    if earlier is None:
        topics = tuple(sorted(replaced or ()))
        return EarlierTopics(always=topics, ever=topics, unreadable=replaced is None)
    if replaced is None:
        return msgspec.structs.replace(earlier, unreadable=True)
    always = tuple(topic for topic in earlier.always if topic in replaced)
    return msgspec.structs.replace(earlier, always=always, ever=tuple(sorted({*earlier.ever, *replaced})))


def rebalance_timeout_ms(members: Sequence[Member]) -> int | None:
    """The group's rebalance timeout: its members' largest; None without members."""
    return max((member.rebalance_timeout_ms for member in members), default=None)


def slowest_member(members: Sequence[Member]) -> Member | None:
    """The first member with the group's rebalance timeout: it sets how long all others wait; None without members."""
    return max(members, key=lambda member: member.rebalance_timeout_ms, default=None)


class Pairing(msgspec.Struct, frozen=True):
    """Members of two records: in the same slot of both, only in the old one, only in the new one."""

    kept: tuple[tuple[Member, Member], ...]
    left: tuple[Member, ...]
    joined: tuple[Member, ...]


def shared_places(places: Iterable[_T]) -> tuple[set[_T], set[_T]]:
    """All places of members, and those of several members."""
    seen, shared = set[_T](), set[_T]()
    for place in places:
        (shared if place in seen else seen).add(place)
    return seen, shared


def _unique_places(members: Sequence[Member]) -> set[tuple[str, str]]:
    """Where exactly one dynamic member is."""
    dynamic = (member for member in members if member.instance_id is None)
    places, shared = shared_places((member.client_id, member.client_host) for member in dynamic)
    return places - shared


def pair(old: Sequence[Member], new: Sequence[Member]) -> Pairing:
    """Pair the members with the same id; else with the same instance id; else with the same client id and host.

    The last holds for dynamic members only, and only where client id and host are unique in both records: two
    consumers of one host cannot be distinguished.
    """
    unique = _unique_places(old) & _unique_places(new)

    def slot(member: Member) -> tuple[str, ...] | None:
        place = (member.client_id, member.client_host)
        if member.instance_id is not None:
            return (member.instance_id,)
        return place if place in unique else None

    by_id = {member.member_id: member for member in old}
    by_slot = {slot(member): member for member in old if slot(member) is not None}
    kept: list[tuple[Member, Member]] = []
    joined: list[Member] = []
    taken: set[str] = set()
    for member in new:
        former = by_id.get(member.member_id) or by_slot.get(slot(member))
        if former is None or former.member_id in taken:
            joined.append(member)
        else:
            taken.add(former.member_id)
            kept.append((former, member))
    left = tuple(member for member in old if member.member_id not in taken)
    return Pairing(tuple(kept), left, tuple(joined))
