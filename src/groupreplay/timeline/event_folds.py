"""The rows of the table of events: one for a rebalance with its events, one for a run of rebalances in a storm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from groupreplay.state.phrases import counted, rebalance_length
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts import longest_text, worst

_STARTED: Final = "rebalance.started"
_COMPLETED: Final = "rebalance.completed"
#: Between the begin and the end of a rebalance these are about it; with the record of its end they are, too.
_OF_MEMBERS: Final = frozenset({"member.joined", "member.left", "member.updated", "static.replaced"})
#: A table that is no longer than this can be read without runs.
_READABLE_ROWS: Final = 30
#: So many rebalances in a row are a run.
_LEAST_RUN: Final = 4
#: Triggers that the row of a run names.
_TRIGGERS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFold:
    """A row of the table that is opened to see its events: a rebalance, or a run of rebalances.

    Events without a fold are rows of their own. A rebalance has the text of its end, or else that of its begin.
    """

    name: str
    severity: Annotated[str, Meta(description="The highest one of its events.")]
    since_ms: int
    until_ms: int
    text: str
    events: Annotated[tuple[int, ...], Meta(description="Indices of events, in order.")]
    within: Annotated[int | None, Meta(description="The run, an index of folds; null: it is in none.")] = None


@dataclass(slots=True)
class _Row:
    events: list[tuple[int, ReadEvent]]
    rebalances: int = 0

    def is_quiet(self) -> bool:
        """Whether a run may contain the row."""
        return bool(self.rebalances) or all(
            event.severity == "INFO" and not event.text("condition_id") for _, event in self.events
        )


def event_folds(kept: Sequence[ReadEvent], text_of: Callable[[int], str]) -> list[EventFold]:
    """The folds of these events; ``text_of`` has the text of the one with an index."""
    rows = list(_rows(kept))
    runs = list(_runs(rows)) if len(rows) > _READABLE_ROWS else []
    folds = [_run(run) for run in runs]
    run_of = {id(row): number for number, run in enumerate(runs) for row in run}
    for row in rows:
        if len(row.events) > 1:
            folds.append(_rebalance(row, run_of.get(id(row)), text_of))
    return folds


def _rows(kept: Sequence[ReadEvent]) -> Iterator[_Row]:
    """The events in order, those of one rebalance together."""
    rows, rebalance = list[_Row](), _Row([])
    of_row: dict[int, _Row] = {}
    ends = {_place(event): number for number, event in enumerate(kept) if event.name == _COMPLETED}
    for number, event in enumerate(kept):
        end = ends.get(_place(event)) if event.name in _OF_MEMBERS and event.cause else None
        is_part = event.name in (_STARTED, _COMPLETED) or (
            event.name in _OF_MEMBERS and (bool(rebalance.events) or end is not None)
        )
        if end in of_row:
            of_row[end].events.append((number, event))
            continue
        if not is_part:
            rows.append(_Row([(number, event)]))
            continue
        if event.name == _STARTED and any(each.name == _STARTED for _, each in rebalance.events):
            # The one before has no end here.
            rebalance = _Row([])
        if not rebalance.events:
            rebalance.rebalances = 1
            rows.append(rebalance)
        rebalance.events.append((number, event))
        if event.name == _COMPLETED:
            of_row[number], rebalance = rebalance, _Row([])
    return iter(rows)


def _place(event: ReadEvent) -> tuple[object, object]:
    return event.cause.get("partition"), event.cause.get("offset")


def _runs(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    run = list[_Row]()
    for row in (*rows, None):
        if row is not None and row.is_quiet():
            run.append(row)
            continue
        if sum(each.rebalances for each in run) >= _LEAST_RUN:
            yield run
        run = []


def _run(run: Sequence[_Row]) -> EventFold:
    events = [pair for row in run for pair in row.events]
    ends = [event for _, event in events if event.name == _COMPLETED]
    number = sum(row.rebalances for row in run)
    parts = [counted(number, "rebalance")]
    numbers = [generation for end in ends if (generation := end.number("generation")) is not None]
    if numbers:
        parts.append(f"generations {min(numbers)} to {max(numbers)}")
    triggers = Counter(end.text("trigger") or "unknown" for end in ends).most_common(_TRIGGERS_SHOWN)
    if triggers:
        parts.append("trigger " + ", ".join(f"{name} ({count})" for name, count in triggers))
    if longest := longest_text([*map(_length, ends)]):
        parts.append(longest)
    if others := len(run) - number:
        parts.append(f"and {counted(others, 'other event')}")
    return _fold("rebalances", sorted(events, key=lambda pair: pair[0]), ", ".join(parts))


def _length(end: ReadEvent) -> tuple[int, int | None, str]:
    length = rebalance_length(end.data)
    return length.least_ms, length.most_ms, length.text()


def _rebalance(row: _Row, within: int | None, text_of: Callable[[int], str]) -> EventFold:
    number = next((each for each, event in row.events if event.name == _COMPLETED), row.events[0][0])
    return _fold("rebalance", row.events, text_of(number), within)


def _fold(
    name: str, events: Sequence[tuple[int, ReadEvent]], text: str, within: int | None = None
) -> EventFold:
    return EventFold(
        name=name,
        severity=worst([event.severity for _, event in events]),
        since_ms=min(event.time_ms for _, event in events),
        until_ms=max(event.time_ms for _, event in events),
        text=text,
        events=tuple(number for number, _ in events),
        within=within,
    )
