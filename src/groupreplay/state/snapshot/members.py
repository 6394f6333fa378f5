"""The members of a classic group in one record, and which members of two records are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from groupreplay.codecs import (
    Assignment,
    GroupMetadataValue,
    MemberMetadata,
    decode_assignment,
    is_text,
    subscribed_topics,
)
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, DEFAULT_SESSION_TIMEOUT_MS, given_ms
from groupreplay.state.snapshot.connect import CONNECT_PROTOCOL_TYPE, Worker, read_worker
from groupreplay.state.snapshot.modern import ModernMember
from groupreplay.state.snapshot.partitions import by_topic
from groupreplay.state.snapshot.slot_history import Slot


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
    text and partitions that cannot be are left out (``state.job.left_out`` counts them).
    """
    return tuple(_read_member(value, member) for member in value.members)


def _read_member(value: GroupMetadataValue, member: MemberMetadata) -> Member:
    is_consumer = value.protocol_type == CONSUMER_PROTOCOL_TYPE
    is_worker = value.protocol_type == CONNECT_PROTOCOL_TYPE
    session_timeout_ms = given_ms(member.session_timeout_ms) or DEFAULT_SESSION_TIMEOUT_MS
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=given_ms(member.rebalance_timeout_ms) or session_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        supported_protocols=(value.protocol,) if value.protocol else (),
        topics=_read_topics(member.subscription) if is_consumer else None,
        partitions=_read_partitions(member.assignment) if is_consumer else None,
        worker=read_worker(member.subscription, member.assignment) if is_worker else None,
    )


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
    if protocol_type != CONSUMER_PROTOCOL_TYPE or any(member.topics is None for member in members):
        return None
    return frozenset(topic for member in members for topic in member.topics or ())


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


@dataclass(frozen=True, slots=True)
class Pairing:
    """Members of two records: in the same slot of both, only in the old one, only in the new one."""

    kept: tuple[tuple[Member, Member], ...]
    left: tuple[Member, ...]
    joined: tuple[Member, ...]


def _places(members: Sequence[Member]) -> Counter[tuple[str, str]]:
    return Counter((member.client_id, member.client_host) for member in members if member.instance_id is None)


def pair(old: Sequence[Member], new: Sequence[Member]) -> Pairing:
    """Pair the members with the same id; else with the same instance id; else with the same client id and host.

    The last holds for dynamic members only, and only where client id and host are unique in both records: two
    consumers of one host cannot be distinguished.
    """
    before, after = _places(old), _places(new)
    unique = {place for place in before if before[place] == 1 and after[place] == 1}

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
