"""The most that a timeline document holds, and how what is too fine is summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Final, TypeVar

import msgspec

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.events.event import Severity
from groupreplay.timeline.document import (
    MIXED,
    ConditionBar,
    GenerationFlag,
    LaneMark,
    OwnerSpan,
    PartitionRow,
    Span,
    StateBar,
    Tenure,
)
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts.trouble import is_trouble

_LONGEST_MS: Final = 1 << 40
#: Buckets that a picture of commits needs at least.
_LEAST_BUCKETS: Final = 24
#: Marks that say what the bars of a lane show anyway.
_ENDS: Final = frozenset({"member.joined", "member.left", "static.replaced"})
#: since_ms, until_ms, number of partitions.
Holdings = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLimits:
    """The most of each kind in one document; ``event_bytes`` is for the bodies of all events."""

    buckets: int = 720
    events: int = 3_000
    event_bytes: int = 400_000
    generations: int = 4_000
    states: int = 4_000
    holdings: int = 10_000
    owner_spans: int = 20_000
    pauses: int = 10_000
    slots: int = 2_000
    tenures: int = 10_000
    marks: int = 10_000
    partitions: int = 20_000
    conditions: int = 2_000
    deadlines: int = 2_000
    offset_changes: int = 2_000
    trace: int = 4_000

    def scaled(self, share: float) -> TimelineLimits:
        """The limits of a document that has to become smaller, to this share of each; at least one of everything."""
        less = {name: max(int(most * share), 1) for name, most in asdict(self).items()}
        return TimelineLimits(**{**less, "buckets": max(less["buckets"], _LEAST_BUCKETS)})

    def of_many(self, documents: int) -> TimelineLimits:
        """The limits of each of so many documents that share one page."""
        share = max(documents // 4, 1)
        return TimelineLimits(
            buckets=max(self.buckets // min(share, 4), 120),
            events=max(self.events // share, 200),
            event_bytes=max(self.event_bytes // share, 60_000),
            generations=max(self.generations // share, 300),
            states=max(self.states // share, 300),
            holdings=max(self.holdings // share, 1_000),
            owner_spans=max(self.owner_spans // share, 2_000),
            pauses=max(self.pauses // share, 500),
            slots=max(self.slots // share, 200),
            tenures=max(self.tenures // share, 500),
            marks=max(self.marks // share, 300),
            partitions=max(self.partitions // share, 1_000),
            conditions=max(self.conditions // share, 200),
            deadlines=max(self.deadlines // share, 200),
            offset_changes=max(self.offset_changes // share, 200),
            trace=max(self.trace // share, 200),
        )


def coarser_rows(rows: Sequence[PartitionRow], most: int) -> tuple[list[PartitionRow], int]:
    """Rows with at most about ``most`` spans of owners, and the length below which spans were joined (0: none).

    Neighbours that are both shorter become one span of several owners, with the number of changes.
    """
    shortest_ms, found = 0, list(rows)
    while sum(len(row.owners) for row in found) > max(most, len(rows)) and shortest_ms < _LONGEST_MS:
        shortest_ms = shortest_ms * 2 or 1_000
        found = [_coarser(row, shortest_ms) for row in rows]
    return found, shortest_ms


def _coarser(row: PartitionRow, shortest_ms: int) -> PartitionRow:
    owners: list[OwnerSpan] = []
    for since_ms, until_ms, slot, changes in row.owners:
        if owners and until_ms - since_ms < shortest_ms:
            before = owners[-1]
            if before[2] == MIXED:
                owners[-1] = before[0], until_ms, MIXED, before[3] + 1
                continue
            if before[1] - before[0] < shortest_ms:
                owners[-1] = before[0], until_ms, MIXED, 2
                continue
        owners.append((since_ms, until_ms, slot, changes))
    return PartitionRow(partition=row.partition, owners=tuple(owners), pauses=row.pauses)


def coarser_states(states: Sequence[StateBar], most: int) -> tuple[list[StateBar], int]:
    """At most about ``most`` states, and the length below which neighbours were joined (0: none).

    States that follow each other and are shorter become one with the name of the longest of them.
    """
    shortest_ms, found = 0, list(states)
    if len(found) > most:
        # Where a rebalance was completed matters less than when it was in progress.
        found = states = _without_completing(states)
        shortest_ms = 1
    while len(found) > most and shortest_ms < _LONGEST_MS:
        shortest_ms = max(shortest_ms * 2, 1_000)
        found = [
            bar
            for is_short, run in groupby(states, key=lambda one: _length(one) < shortest_ms)
            for bar in ([_joined(list(run))] if is_short else run)
        ]
    return found, shortest_ms


def _without_completing(states: Sequence[StateBar]) -> list[StateBar]:
    """CompletingRebalance as the end of the PreparingRebalance before it."""
    found: list[StateBar] = []
    for bar in states:
        follows = bool(found) and found[-1].state == Phase.PREPARING_REBALANCE.value
        if follows and bar.state == Phase.COMPLETING_REBALANCE.value:
            found[-1] = replace(found[-1], until_ms=bar.until_ms, evidence="summed")
        else:
            found.append(bar)
    return found


def _length(bar: StateBar) -> int:
    return _LONGEST_MS if bar.until_ms is None else bar.until_ms - bar.since_ms


def _joined(run: Sequence[StateBar]) -> StateBar:
    if len(run) == 1:
        return run[0]
    lengths = Counter[str]()
    for bar in run:
        lengths[bar.state] += _length(bar)
    return replace(
        run[0], state=lengths.most_common(1)[0][0], until_ms=run[-1].until_ms, evidence="summed", offset=None
    )


def coarser_holdings(lanes: Sequence[Holdings], most: int) -> tuple[list[Holdings], int]:
    """Holdings of all lanes with at most about ``most`` spans, and the length below which neighbours were joined.

    Neighbours that are both shorter become one span with the number of the last one.
    """
    shortest_ms, found = 0, list(lanes)
    while sum(map(len, found)) > max(most, len(lanes)) and shortest_ms < _LONGEST_MS:
        shortest_ms = shortest_ms * 2 or 1_000
        found = [_coarser_holdings(one, shortest_ms) for one in lanes]
    return found, shortest_ms


def _coarser_holdings(spans: Holdings, shortest_ms: int) -> Holdings:
    found: list[tuple[int, int, int]] = []
    was_short = False
    for since_ms, until_ms, number in spans:
        is_short = until_ms - since_ms < shortest_ms
        if found and is_short and was_short and found[-1][1] == since_ms:
            found[-1] = found[-1][0], until_ms, number
        else:
            found.append((since_ms, until_ms, number))
        was_short = is_short
    return tuple(found)


def coarser_tenures(lanes: Sequence[Sequence[Tenure]], most: int) -> tuple[list[list[Tenure]], int]:
    """Tenures of all lanes, at most about ``most``, and the length below which neighbours were joined (0: none).

    Neighbours that are both shorter, with a shorter gap between them, become one of several members in turn.
    """
    shortest_ms, found = 0, [list(lane) for lane in lanes]
    while sum(map(len, found)) > max(most, len(lanes)) and shortest_ms < _LONGEST_MS:
        shortest_ms = shortest_ms * 2 or 1_000
        found = [_coarser_tenures(lane, shortest_ms) for lane in lanes]
    return found, shortest_ms


def _coarser_tenures(lane: Sequence[Tenure], shortest_ms: int) -> list[Tenure]:
    found: list[Tenure] = []
    was_short = False
    for one in lane:
        is_short = one.until_ms is not None and one.until_ms - one.since_ms < shortest_ms
        ended_ms = found[-1].until_ms if found else None
        if is_short and was_short and ended_ms is not None and one.since_ms - ended_ms < shortest_ms:
            since_ms, members = found[-1].since_ms, found[-1].members + one.members
            found[-1] = replace(one, since_ms=since_ms, members=members)
        else:
            found.append(one)
        was_short = is_short
    return found


def kept_marks(
    marks: Mapping[int, Sequence[LaneMark]], most: int
) -> tuple[Mapping[int, Sequence[LaneMark]], int]:
    """At most so many marks of all lanes, and how many were left out: first those that the bars show anyway."""
    ranked = sorted(
        (
            (mark.name in _ENDS, -mark.at_ms, slot, at)
            for slot, all_ in marks.items()
            for at, mark in enumerate(all_)
        ),
    )
    if len(ranked) <= most:
        return marks, 0
    kept = {(slot, at) for _, _, slot, at in ranked[:most]}
    return {
        slot: [mark for at, mark in enumerate(all_) if (slot, at) in kept] for slot, all_ in marks.items()
    }, len(ranked) - most


_Told = TypeVar("_Told")


def kept_conditions(
    told: Sequence[tuple[ConditionBar, _Told]], most: int
) -> list[tuple[ConditionBar, _Told]]:
    """The most severe conditions, of these the longest, in order."""
    if len(told) <= most:
        return list(told)
    ranked = sorted(range(len(told)), key=lambda at: (*_mildness(told[at][0]), at))[:most]
    return [told[at] for at in sorted(ranked)]


def _mildness(bar: ConditionBar) -> tuple[int, int]:
    return -Severity[bar.severity], bar.since_ms - (_LONGEST_MS * 2 if bar.until_ms is None else bar.until_ms)


def kept_rows(rows: Sequence[PartitionRow], most: int) -> list[int]:
    """The places of the rows in which most happens, in order."""
    if len(rows) <= most:
        return list(range(len(rows)))
    ranked = sorted(range(len(rows)), key=lambda at: (-len(rows[at].owners) - len(rows[at].pauses), at))
    return sorted(ranked[:most])


def longest_pauses(rows: Sequence[PartitionRow], most: int) -> tuple[list[PartitionRow], int]:
    """Rows with the longest ``most`` pauses, and how many were left out."""
    lengths = sorted((until_ms - since_ms for row in rows for since_ms, until_ms in row.pauses), reverse=True)
    if len(lengths) <= most:
        return list(rows), 0
    least_ms = lengths[most]
    kept = [
        PartitionRow(partition=row.partition, owners=row.owners, pauses=_longer(row.pauses, least_ms))
        for row in rows
    ]
    return kept, len(lengths) - sum(len(row.pauses) for row in kept)


def _longer(spans: Iterable[Span], least_ms: int) -> tuple[Span, ...]:
    return tuple(span for span in spans if span[1] - span[0] > least_ms)


def kept_generations(flags: Sequence[GenerationFlag], most: int) -> list[GenerationFlag]:
    """The flags after skipped generations, then those with the most moved partitions; in order."""
    if len(flags) <= most:
        return list(flags)
    ranked = sorted(flags, key=lambda flag: (-flag.skipped, -(flag.moved or 0), -flag.at_ms))[:most]
    return sorted(ranked, key=lambda flag: flag.at_ms)


def kept_events(events: Sequence[ReadEvent], most: int) -> list[ReadEvent]:
    """The events with a row: those that tell of trouble, those of the group, those about members; the latest first."""
    if len(events) <= most:
        return list(events)
    ranked = sorted(events, key=_rank)[:most]
    return sorted(ranked, key=lambda event: event.index)


def _rank(event: ReadEvent) -> tuple[bool, bool, int]:
    return not is_trouble(event), event.name.startswith("member."), -event.time_ms


def bodies(events: Sequence[ReadEvent], most_bytes: int) -> dict[int, Mapping[str, Any]]:
    """Index -> the CloudEvent of those that fit into so many bytes: those that tell of trouble, then the small ones."""
    sized = [(len(msgspec.json.encode(event.body)), event) for event in events]
    found, left = dict[int, Mapping[str, Any]](), most_bytes
    for size, event in sorted(sized, key=lambda one: (not is_trouble(one[1]), one[0], one[1].index)):
        if size <= left:
            found[event.index] = event.body
            left -= size
    return found
