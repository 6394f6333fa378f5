"""What incidents are found from: what began in a group, what has ended, and what groups have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from groupreplay.state.conditions.member_idle import MemberIdle
from groupreplay.state.conditions.offsets_expiring import OffsetsExpiring
from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import GroupCreated, MemberLeft, RebalanceCompleted
from groupreplay.state.events.incident_events import SharedKind
from groupreplay.state.events.offset_events import OffsetsDeleted, OffsetsReset, OffsetsSet
from groupreplay.timeline.event_reading import ReadEvent, read_events, whole, words

#: Something that a group has, and others may have too.
Attribute: TypeAlias = tuple[SharedKind, str]
#: Of one kind, in one group: hostile clients must not fill the memory.
_MOST_ATTRIBUTES: Final = 50
#: Forecasts and surplus members begin together where a check of the broker, or a deployment, makes them visible.
_NO_INCIDENT: Final = frozenset({OffsetsExpiring.NAME, MemberIdle.NAME})
#: Offsets that expire are none: the broker removes those of many groups in one check.
_LOSSES: Final = frozenset({OffsetsDeleted.NAME, OffsetsReset.NAME, OffsetsSet.NAME})
_HAPPENED: Final = frozenset({*_LOSSES, MemberLeft.NAME})
#: The number, or the random part, that tells the clients of one application apart.
_NUMBER: Final = re.compile(r"[-_.](\d+|[0-9a-f]{8}-[0-9a-f-]{27})$")


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something began in a group at ``begin_ms``, and was reported at ``at_ms``.

    ``holds``: a condition, which ends with ``Ended``; ``ended_ms``: it had before it was a part of an incident.
    ``shares``: what it says itself of what the group has; its hosts and clients stand for those of the group.
    ``proof``: the attribute that an answer of the brokers has named as the cause.
    """

    at_ms: int
    id: str
    group_id: str
    kind: str
    begin_ms: int
    severity: str
    partition: int | None = None
    shares: frozenset[Attribute] = frozenset()
    holds: bool = False
    ended_ms: int | None = None
    proof: Attribute | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether it is more than a rebalance, which may be a healthy one."""
        return self.kind != RebalanceCompleted.NAME


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The condition ``id``, which began at ``begin_ms``, has ended."""

    at_ms: int
    id: str
    begin_ms: int | None = None


class GroupSeen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a group has at a time; ``created``: it is new, and its first rebalances are no news."""

    at_ms: int
    group_id: str
    partition: int | None = None
    shares: frozenset[Attribute] = frozenset()
    created: bool = False


class LeaderSeen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A round of the prober: who leads a partition of the offsets topic, and with which error it answers."""

    at_ms: int
    earliest_ms: int
    partition: int
    broker: int
    error: str | None = None


Item: TypeAlias = Signal | Ended | GroupSeen | LeaderSeen


def event_items(body: Mapping[str, Any]) -> Iterator[Item]:
    """What a CloudEvent says; events about no group say nothing."""
    for event in read_events([body]):
        group_id = event.data.get("group_id")
        if not isinstance(group_id, str):
            continue
        if event.name == RebalanceCompleted.NAME:
            yield GroupSeen(
                at_ms=event.time_ms,
                group_id=group_id,
                partition=_partition(event),
                shares=_of_members(event.mappings("members")),
            )
        elif event.name == GroupCreated.NAME:
            yield GroupSeen(at_ms=event.time_ms, group_id=group_id, partition=_partition(event), created=True)
        yield from _signals(event, group_id)


def _signals(event: ReadEvent, group_id: str) -> Iterator[Signal | Ended]:
    condition_id = event.text("condition_id")
    if condition_id and event.text("status") == "resolved":
        yield Ended(at_ms=event.time_ms, id=condition_id, begin_ms=event.number("since_ms"))
    elif (condition_id and event.name not in _NO_INCIDENT) or _is_news(event):
        since_ms = event.number("since_ms")
        yield Signal(
            at_ms=event.time_ms,
            id=condition_id or event.id,
            group_id=group_id,
            kind=event.name,
            begin_ms=since_ms if condition_id and since_ms is not None else event.time_ms,
            severity=event.severity,
            partition=_partition(event),
            shares=frozenset(_of_event(event)),
            holds=bool(condition_id),
            proof=_deleted_topic(event),
        )


def _is_news(event: ReadEvent) -> bool:
    """Whether an event that is no condition may belong to an incident."""
    if event.name == RebalanceCompleted.NAME:
        return event.text("trigger") != "first_join" and event.number("previous_generation") is not None
    return event.name in _HAPPENED and Severity[event.severity] >= Severity.WARN


def _deleted_topic(event: ReadEvent) -> Attribute | None:
    topics = {words(lost.get("topic")) for lost in event.mappings("partitions")}
    is_proof = event.name == OffsetsDeleted.NAME and event.text("reason") == "topic_deleted"
    return ("topic", min(topics)) if is_proof and len(topics) == 1 else None


def _of_event(event: ReadEvent) -> Iterator[Attribute]:
    """The topics of its partitions; the host and the client of its member, or of the members that are gone."""
    partitions = event.data.get("partitions")
    if isinstance(partitions, Mapping):
        yield from (("topic", str(topic)) for topic in list(partitions)[:_MOST_ATTRIBUTES])
    for place in list(event.mappings("partitions"))[:_MOST_ATTRIBUTES]:
        yield "topic", words(place.get("topic"))
    members = [*event.mappings("gone")][:_MOST_ATTRIBUTES]
    for member in [event.data, *members]:
        yield from _of_client(member)


def _of_client(member: Mapping[str, Any]) -> Iterator[Attribute]:
    if host := words(member.get("client_host")).removeprefix("/"):
        yield "host", host
    if client := words(member.get("client_id")):
        yield "client", _NUMBER.sub("", client) or client


def _of_members(members: Iterator[Mapping[str, Any]]) -> frozenset[Attribute]:
    shares: set[Attribute] = set()
    for member in list(members)[: _MOST_ATTRIBUTES * 4]:
        shares.update(_of_client(member))
        topics = member.get("topics")
        shares.update(("topic", topic) for topic in topics or () if isinstance(topic, str))
        owned = member.get("partitions")
        shares.update(("topic", str(topic)) for topic in owned or ())
    return _bounded(shares)


def _bounded(shares: set[Attribute]) -> frozenset[Attribute]:
    """At most so many of each kind, the first by name."""
    kept: list[Attribute] = []
    for kind in sorted({kind for kind, _ in shares}):
        kept += sorted(share for share in shares if share[0] == kind)[:_MOST_ATTRIBUTES]
    return frozenset(kept)


def _partition(event: ReadEvent) -> int | None:
    """The group's partition of the offsets topic: the first number of the sequence."""
    head = words(event.body.get("sequence")).partition("-")[0]
    return int(head) if head.isascii() and head.isdigit() else None


def document_items(document: Mapping[str, Any]) -> Iterator[Item]:
    """What the document of a group says."""
    group_id, place = document.get("group_id"), document.get("log_position")
    at_ms = whole(place.get("timestamp_ms")) if isinstance(place, Mapping) else None
    if not isinstance(group_id, str) or at_ms is None or not isinstance(place, Mapping):
        return
    members = (member for member in document.get("members") or () if isinstance(member, Mapping))
    shares = set(_of_members(members))
    topics = document.get("subscribed_topics") or ()
    shares.update(("topic", topic) for topic in topics if isinstance(topic, str))
    yield GroupSeen(
        at_ms=at_ms, group_id=group_id, partition=whole(place.get("partition")), shares=_bounded(shares)
    )
