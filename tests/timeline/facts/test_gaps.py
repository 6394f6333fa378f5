"""The gaps of a group, event by event."""

from __future__ import annotations

from typing import Any

from groupreplay.timeline.facts.gaps import GapFinder


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
