"""How members ended: each end of a bar and the event that tells of it."""

from __future__ import annotations

from groupreplay.timeline.document import TimelineDocument
from support.histories.builders import Raw, generation, member
from support.pictures.timelines import BEGIN, MINUTE, SECOND, timeline_of


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
