"""The group at the end of a document: members, partitions, and what is not known of them."""

from __future__ import annotations

from typing import Any

from groupreplay.timeline.limits import TimelineLimits
from groupreplay.timeline.present import Present, PresentMember, PresentPartition
from support.histories.builders import commit, generation, member
from support.pictures.timelines import BEGIN, MINUTE, SECOND, timeline_of

A, B = member("a", (0, 1)), member("b", (2,))
HISTORY = [
    generation(1, member("a", (0, 1, 2)), at=BEGIN),
    generation(2, A, B, at=BEGIN + MINUTE),
    commit("t", 0, 10, at=BEGIN + 70 * SECOND),
    commit("u", 7, 5, at=BEGIN + 80 * SECOND),
    generation(3, member("a", (0, 1, 2)), at=BEGIN + 2 * MINUTE),
]


def offset(topic: str, partition: int, number: int, at_ms: int) -> dict[str, Any]:
    """An offset as ``Group.describe()`` has it."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": number,
        "commit_timestamp_ms": at_ms,
        "expires_at_ms": None,
    }


OFFSETS = [offset("t", 0, 10, BEGIN + 70 * SECOND), offset("u", 7, 5, BEGIN + 80 * SECOND)]


def row(
    partition: int, owner: str | None, number: int | None = None, at_ms: int | None = None
) -> PresentPartition:
    """A partition of the topic ``t``."""
    return PresentPartition(topic="t", partition=partition, offset=number, committed_ms=at_ms, owner=owner)


def here(name: str, since_ms: int, partitions: str, *, is_bound: bool = False) -> PresentMember:
    """A member of ``builders.member``."""
    return PresentMember(
        name=f"client-{name}",
        member_id=name,
        client_id=f"client-{name}",
        client_host="10.0.0.1",
        since_ms=since_ms,
        is_bound=is_bound,
        partitions=partitions,
    )


def test_members_and_partitions() -> None:
    """Since when each member is there and what it owns; offsets also of partitions that nobody owns."""
    document = timeline_of(HISTORY[:-1], offsets=OFFSETS, end_ms=BEGIN + 90 * SECOND)
    elsewhere = PresentPartition(
        topic="u", partition=7, offset=5, committed_ms=BEGIN + 80 * SECOND, owner=None
    )
    assert document.present == Present(
        at_ms=BEGIN + 90 * SECOND + 1,
        members=(here("a", BEGIN, "t 0-1"), here("b", BEGIN + MINUTE, "t 2")),
        partitions=(
            row(0, "client-a", 10, BEGIN + 70 * SECOND),
            row(1, "client-a"),
            row(2, "client-b"),
            elsewhere,
        ),
        left_out=0,
    )


def test_an_earlier_moment() -> None:
    """Owners and members are those of the end of the document; an offset that was committed later is not known."""
    document = timeline_of(HISTORY, offsets=OFFSETS, until_ms=BEGIN + 30 * SECOND)
    assert document.present is not None
    assert document.present.members == (here("a", BEGIN, "t 0-2"),)
    assert document.present.partitions == tuple(row(number, "client-a") for number in range(3))


def test_a_member_that_has_left() -> None:
    """It is in no row, and its partition has the owner that took it."""
    document = timeline_of(HISTORY, offsets=(), end_ms=BEGIN + 3 * MINUTE)
    assert document.present is not None
    assert [one.name for one in document.present.members] == ["client-a"]
    assert document.present.partitions[2] == row(2, "client-a")


def test_a_log_that_begins_later() -> None:
    """Who is in its first record may have been there before; who comes later was not."""
    later = [generation(7, A, at=BEGIN), generation(8, A, B, at=BEGIN + MINUTE)]
    document = timeline_of(later, since_ms=BEGIN + 30 * SECOND)
    assert document.present is not None
    assert [(one.name, one.since_ms, one.is_bound) for one in document.present.members] == [
        ("client-a", BEGIN, True),
        ("client-b", BEGIN + MINUTE, False),
    ]


def test_without_a_log() -> None:
    """Events alone do not show it."""
    assert timeline_of(HISTORY, has_log=False, records=()).present is None


def test_what_is_known_begins_with_the_group() -> None:
    """A window of an hour before a group of three minutes: its first record tells of the rebalance before it."""
    document = timeline_of(HISTORY, since_ms=BEGIN - 60 * MINUTE)
    assert (document.since_ms, document.known_since_ms) == (BEGIN - 60 * MINUTE, BEGIN - 10)
    later = timeline_of(HISTORY, since_ms=BEGIN + 90 * SECOND)
    assert later.known_since_ms == BEGIN + 90 * SECOND


def test_a_small_document() -> None:
    """Its rows shrink with its limits, and the ones that are left out are counted."""
    document = timeline_of(HISTORY[:-1], TimelineLimits(slots=2, partitions=20), offsets=OFFSETS)
    assert document.present is not None
    rows = (len(document.present.members), len(document.present.partitions), document.present.left_out)
    assert rows == (1, 2, 3)
