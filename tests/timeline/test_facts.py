"""The gaps of a group, event by event."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts import GapFinder, is_trouble, longest_text, tone_of, worst
from support.histories.builders import Raw, generation, member
from support.pictures.timelines import BEGIN, MINUTE, SECOND, timeline_of


def gaps(*told: tuple[str, dict[str, Any]]) -> list[str | None]:
    """The gap before each of these events of a partial history."""
    finder = GapFinder()
    return [finder.before(name, {"history": "partial", **data}) for name, data in told]


def completed(generation: int, **more: Any) -> tuple[str, dict[str, Any]]:
    """A completed rebalance."""
    return "rebalance.completed", {"generation": generation, **more}


DELETED = ("group.deleted", {"generation": 9})
CONDITION = ("offsets.expiring", {"condition_id": "c"})


def test_each_kind() -> None:
    """Before the first event, over an end that nobody saw, and between generations."""
    assert gaps(completed(50), completed(3), completed(9), completed(11), completed(12)) == [
        "everything before",
        "the end of the group, and its new beginning",
        "generations 4 to 8",
        "generation 10",
        None,
    ]


def test_what_is_no_gap() -> None:
    """A group that is created, generations that were begun in a whole history, a conversion, a record that is bad."""
    full = {"history": "full"}
    assert (
        gaps(
            ("record.malformed", {}),
            ("group.created", {"generation": 0}),
            completed(1, **full),
            completed(4, **full),
            ("group.converted", {"generation": 57}),
            ("rebalance.completed", {"history": "of a later release"}),
        )
        == [None] * 6
    )


def test_after_a_deletion() -> None:
    """The end of a condition and a deletion that waited belong to what was; a generation is a new beginning."""
    assert gaps(completed(8), DELETED, CONDITION, ("offsets.deleted", {}), completed(2)) == [
        "everything before",
        None,
        None,
        None,
        "the new beginning of the group",
    ]


def test_a_condition_shows_a_life() -> None:
    """It may be the first that is known of a group; its generation is no operation."""
    assert gaps(("rebalance.stuck", {"condition_id": "c", "generation": 7}), completed(9)) == [
        "everything before",
        None,
    ]


LEADER = {"leader": "m", "members": [{"member_id": "m", "client_id": "a", "client_host": "/h"}]}


def read(name: str, severity: str = "INFO", **data: Any) -> ReadEvent:
    """An event."""
    return ReadEvent(index=0, id="", name=name, time_ms=0, severity=severity, data=data, body={})


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (read("rebalance.completed", sync_ms=10, **LEADER), False),
        (read("rebalance.completed", sync_ms=8_001, **LEADER), True),
        (read("rebalance.completed", sync_ms=8_001), False),
        (read("member.joined"), False),
        (read("offset.rewound"), False),
        (read("offsets.set"), False),
        (read("offsets.set", "WARN"), True),
        (read("offsets.expired"), True),
        (read("offsets.deleted"), True),
        (read("offsets.reset"), True),
        (read("commits.paused", condition_id="c"), True),
        (read("of.a.later.release", "WARN"), True),
    ],
)
def test_trouble(event: ReadEvent, expected: bool) -> None:
    """Warnings, conditions and lost offsets of any severity, and a leader that took long."""
    assert is_trouble(event) is expected


def test_severities() -> None:
    """The tone is the severity."""
    assert [tone_of(one) for one in ("INFO", "WARN", "ERROR")] == ["info", "warn", "error"]
    assert (worst(["INFO", "ERROR", "WARN"]), worst([])) == ("ERROR", "INFO")


def ends(document: TimelineDocument) -> list[tuple[str, str | None, str, str | None, bool]]:
    """Of each bar that ends: its member, reason, severity, the text of its event, and whether that is repeated."""
    return [
        (
            one.member_id,
            one.reason,
            one.severity,
            None if one.event is None else document.events[one.event].text,
            one.repeats,
        )
        for lane in document.slots
        for one in lane.tenures
        if one.until_ms is not None
    ]


def replaced(*seconds: int) -> list[Raw]:
    """A static member whose process is replaced at these times, without a rebalance."""
    runs = [member(f"i-{run}", (0,), instance_id="i") for run in range(len(seconds) + 1)]
    times = [BEGIN + second * SECOND for second in (0, *seconds)]
    return [generation(1, run, at=at) for run, at in zip(runs, times, strict=True)]


def test_two_replacements_within_a_minute() -> None:
    """Two diamonds and one event: the second one points to the event, and the event tells how many it stands for."""
    found = timeline_of(replaced(10, 20, 90))
    came_back = "i came back as a new process, no rebalance needed"
    first = f"{came_back}; 1 more like it within a minute, without an event"
    assert ends(found) == [
        ("i-0", None, "INFO", first, False),
        ("i-1", None, "INFO", first, True),
        ("i-2", None, "INFO", f"{came_back}, and 1 more like it", False),
    ]
    assert [row.repeats for row in found.events if row.name == "static.replaced"] == [1, 0]


def test_a_member_that_left() -> None:
    """The reason and the severity are those of its event."""
    a, b = member("a", (0,)), member("b", (1,))
    history = [generation(1, a, b, at=BEGIN), generation(2, a, at=BEGIN + MINUTE)]
    (end,) = ends(timeline_of(history))
    assert (end[0], end[1], end[2], end[4]) == ("b", "unknown", "INFO", False)


def test_a_static_member_that_came_back_in_a_rebalance() -> None:
    """Its event does not say that no rebalance was needed."""
    history = [
        generation(1, member("i-0", (0,), instance_id="i"), at=BEGIN),
        generation(2, member("i-1", (0,), instance_id="i"), at=BEGIN + MINUTE),
    ]
    assert ends(timeline_of(history)) == [
        ("i-0", None, "INFO", "i came back as a new process, in a rebalance", False)
    ]


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([], ""),
        ([(8_000, 8_000, "took 8.0 s")], "it took 8.0 s"),
        (
            [(8_000, 9_000, "took 8.0 s .. 9.0 s"), (0, 8_000, "took at most 8.0 s")],
            "the longest took 8.0 s .. 9.0 s",
        ),
        (
            [(8_000, 9_000, "took 8.0 s .. 9.0 s"), (0, 8_001, "took at most 8.0 s")],
            "one took 8.0 s .. 9.0 s",
        ),
        ([(8_000, 8_000, "took 8.0 s"), (0, None, "")], "one took 8.0 s"),
        ([(0, 500, "took at most 500 ms"), (0, None, "")], ""),
    ],
)
def test_the_longest_rebalance(lengths: list[tuple[int, int | None, str]], text: str) -> None:
    """It is called the longest only if no other one can have lasted longer."""
    assert longest_text(lengths) == text
