"""The group at the end of what is known: who is there since when, and each partition with its offset and its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.phrases import counted
from groupreplay.state.snapshot.partitions import by_topic
from groupreplay.timeline.event_reading import whole, words

if TYPE_CHECKING:
    # The document has these forms, and lanes import the document.
    from groupreplay.timeline.lanes import Lanes, Ownership, Stay, TopicPlace

#: Members have up to half as many rows as a document has lanes, partitions a tenth of its rows; more are counted only.
_MEMBERS_SHARE: Final = 2
_PARTITIONS_SHARE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentMember:
    """A member that is there."""

    name: Annotated[
        str, Meta(description="Its instance id, else its client id; with host or number if it repeats.")
    ]
    member_id: str
    client_id: str
    client_host: str
    since_ms: int
    is_bound: Annotated[
        bool, Meta(description="It was there at since_ms, and records of the time before are missing.")
    ]
    partitions: Annotated[str, Meta(description="What it owns, as ranges by topic.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentPartition:
    """A partition that has an owner or a committed offset. Null: there is none, or it is not known."""

    topic: str
    partition: int
    offset: int | None
    committed_ms: int | None
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Members and partitions at a moment; ``left_out`` counts those that have no row here."""

    at_ms: int
    members: tuple[PresentMember, ...]
    partitions: tuple[PresentPartition, ...]
    left_out: int


def present(
    lanes: Lanes,
    names: Mapping[int, str],
    offsets: Sequence[Mapping[str, Any]],
    until_ms: int,
    most: tuple[int, int],
    *,
    begins_inside: bool,
) -> Present:
    """The group at the end of a time.

    ``names`` are those of slots. ``offsets`` are those of ``Group.describe()``; one that was committed later is not
    known then. ``most`` are the numbers of lanes and of rows of a document. ``begins_inside``: the group had a life
    before its first record.
    """
    owners = {
        place: span
        for place, spans in lanes.owners.items()
        if (span := next((one for one in reversed(spans) if _holds(one, until_ms)), None)) is not None
    }
    members = _members(lanes, names, owners, until_ms, begins_inside=begins_inside)
    shown = members[: most[0] // _MEMBERS_SHARE]
    committed = {
        (words(one["topic"]), int(one["partition"])): one
        for one in offsets
        if (whole(one.get("commit_timestamp_ms")) or 0) < until_ms
    }
    places = sorted({*owners, *committed})
    partitions = [
        _partition(place, committed.get(place), _owner(lanes, names, owners.get(place)))
        for place in places[: most[1] // _PARTITIONS_SHARE]
    ]
    return Present(
        at_ms=until_ms,
        members=tuple(shown),
        partitions=tuple(partitions),
        left_out=len(members) - len(shown) + len(places) - len(partitions),
    )


def _members(
    lanes: Lanes,
    names: Mapping[int, str],
    owners: Mapping[TopicPlace, Ownership],
    until_ms: int,
    *,
    begins_inside: bool,
) -> list[PresentMember]:
    """All members by name; those of the first record may have been there before it if the log begins inside."""
    first_ms = min((stay.since_ms for life in lanes.slots for stay in life.stays), default=None)
    ranges = _ranges(owners)
    members = [
        PresentMember(
            name=_name(lanes, names, slot),
            member_id=stay.member_id,
            client_id=lanes.slots[slot].place.client_id,
            client_host=lanes.slots[slot].place.client_host.removeprefix("/"),
            since_ms=stay.since_ms,
            is_bound=begins_inside and stay.since_ms == first_ms,
            partitions=phrases.partitions(ranges.get(slot)),
        )
        for slot, stay in _stays(lanes, until_ms).items()
    ]
    return sorted(members, key=lambda one: (one.name, one.since_ms))


def _holds(span: Stay | Ownership, until_ms: int) -> bool:
    return span.since_ms < until_ms and (span.until_ms is None or span.until_ms >= until_ms)


def _stays(lanes: Lanes, until_ms: int) -> dict[int, Stay]:
    return {
        slot: stay
        for slot, life in enumerate(lanes.slots)
        if (stay := next((one for one in reversed(life.stays) if _holds(one, until_ms)), None)) is not None
    }


def _name(lanes: Lanes, names: Mapping[int, str], slot: int) -> str:
    place = lanes.slots[slot].place
    return names.get(slot) or place.instance_id or place.client_id


def _owner(lanes: Lanes, names: Mapping[int, str], span: Ownership | None) -> str | None:
    if span is None:
        return None
    if span.slot < 0:
        return f"shared by {counted(span.members, 'member')}"
    return _name(lanes, names, span.slot)


def _ranges(owners: Mapping[TopicPlace, Ownership]) -> dict[int, dict[str, str]]:
    """Slot -> what it owns, as ranges by topic."""
    held: dict[int, list[TopicPlace]] = {}
    for place, span in owners.items():
        held.setdefault(span.slot, []).append(place)
    return {slot: by_topic(places) for slot, places in held.items()}


def _partition(place: TopicPlace, offset: Mapping[str, Any] | None, owner: str | None) -> PresentPartition:
    return PresentPartition(
        topic=place[0],
        partition=place[1],
        offset=None if offset is None else whole(offset.get("offset")),
        committed_ms=None if offset is None else whole(offset.get("commit_timestamp_ms")),
        owner=owner,
    )
