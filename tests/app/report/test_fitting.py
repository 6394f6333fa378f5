"""Documents that share a page become small enough for it."""

from __future__ import annotations

from groupreplay.app.report.fitting import fitted, island_bytes
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.limits import TimelineLimits
from support.histories.builders import generation, member
from support.pictures.timelines import BEGIN, SECOND, timeline_of


def stormy(generations: int, limits: TimelineLimits | None = None) -> TimelineDocument:
    """A group in which another member joins and leaves with each generation."""
    history = []
    for number in range(1, generations + 1):
        owners = [member("a", (0,)), member("b", (1,))] if number % 2 else [member("a", (0, 1))]
        history.append(generation(number, *owners, at=BEGIN + number * SECOND))
    return timeline_of(history, limits)


def test_the_largest_ones_shrink() -> None:
    """Documents of very different sizes fit together; those that are smaller than their share stay as they are."""
    lengths = [3, 400, 20, 900]
    documents = [stormy(one) for one in lengths]
    whole = [island_bytes(one) for one in documents]
    most = sum(whole) // 4
    found = fitted(documents, lambda number, limits: stormy(lengths[number], limits), TimelineLimits(), most)
    assert sum(map(island_bytes, found)) <= most < sum(whole)
    assert [found[0], found[2]] == [documents[0], documents[2]]
    assert {one.kind for one in found[3].remarks} >= {"summed_events", "summed_generations", "summed_states"}
    assert [one.verdict[-1].text for one in found] == [one.verdict[-1].text for one in documents]


def test_nothing_changes_where_there_is_room() -> None:
    """Documents that fit are not made again."""
    documents = [stormy(20)]

    def never(number: int, limits: TimelineLimits) -> TimelineDocument:
        raise AssertionError((number, limits))

    assert fitted(documents, never, TimelineLimits(), island_bytes(documents[0])) == documents


def test_the_least_limits() -> None:
    """A document that does not fit at the least limits is returned as it is then; the attempts end."""
    (found,) = fitted([stormy(50)], lambda _, limits: stormy(50, limits), TimelineLimits(), 10)
    assert island_bytes(found) > 10
    assert (len(found.events), len(found.generations), len(found.slots)) == (1, 1, 1)
