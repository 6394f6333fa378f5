"""The rows of a picture inside of its window: members by slot, partitions by topic."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from groupreplay.state import phrases
from groupreplay.timeline.commit_rates import CommitLog, pauses
from groupreplay.timeline.document import (
    LEFT_OUT,
    Blame,
    LaneMark,
    OwnerSpan,
    PartitionRow,
    SlotLane,
    Span,
    Tenure,
    TopicRows,
)
from groupreplay.timeline.event_reading import ReadEvent, words
from groupreplay.timeline.facts import MemberEnd, MemberEnds
from groupreplay.timeline.lanes import Holder, Lanes, Membership, Ownership, Place, SlotLife, lanes_of
from groupreplay.timeline.limits import (
    Holdings,
    TimelineLimits,
    coarser_holdings,
    coarser_rows,
    coarser_tenures,
    kept_marks,
    kept_rows,
    longest_pauses,
)


class Window(NamedTuple):
    """The time of a document; the end is excluded."""

    since_ms: int
    until_ms: int

    def holds(self, at_ms: int) -> bool:
        """Whether a moment is in it."""
        return self.since_ms <= at_ms < self.until_ms

    def clip(self, since_ms: int, until_ms: int | None) -> tuple[int, int | None] | None:
        """The part of a span that is in it; an open end stays open. None: no part."""
        begin, end = max(since_ms, self.since_ms), until_ms
        if end is not None and end >= self.until_ms:
            end = None
        if begin >= self.until_ms or (end is not None and end <= begin):
            return None
        return begin, end


@dataclass(frozen=True, slots=True)
class SlotSums:
    """Old index of a slot -> its index in the document; how many slots and marks were left out.

    Holdings shorter than ``shortest_ms`` and tenures shorter than ``tenures_ms`` were joined.
    """

    renumbered: Mapping[int, int]
    left_out: int
    shortest_ms: int
    tenures_ms: int
    marks_left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSums:
    """What was summed up in the rows of partitions: owners shorter than this; so many pauses and rows left out."""

    shortest_ms: int = 0
    pauses_left_out: int = 0
    left_out: int = 0
    shared: bool = False


def event_lanes(events: Sequence[ReadEvent]) -> Lanes:
    """The lanes by the members in ``rebalance.completed`` and the ends in ``group.emptied``, where no log was read."""
    history = []
    for event in events:
        if event.name in ("rebalance.completed", "group.emptied", "group.deleted"):
            holders = {
                words(member.get("member_id")): _holder(member) for member in event.mappings("members")
            }
            history.append(Membership(event.time_ms, 0, holders))
    return lanes_of(history)


def _holder(member: Mapping[str, Any]) -> Holder:
    held = member.get("partitions")
    place = Place(
        words(member.get("instance_id")) or None,
        words(member.get("client_id")),
        words(member.get("client_host")),
    )
    return Holder(
        place,
        {words(topic): words(text) for topic, text in held.items()} if isinstance(held, Mapping) else None,
    )


def slot_lanes(
    lanes: Lanes,
    window: Window,
    blames: Mapping[int, Sequence[Blame]],
    marks: Mapping[int, Sequence[LaneMark]],
    ends: MemberEnds,
    limits: TimelineLimits,
) -> tuple[list[SlotLane], SlotSums]:
    """The slots with a member in the window, by name.

    Where there are too many, those that are blamed and those that were there longest are kept.
    """
    tenures = {
        number: spans
        for number, life in enumerate(lanes.slots)
        if (spans := list(_tenures(life, window, ends)))
    }
    ranked = sorted(tenures, key=lambda one: (one not in blames, -_present_ms(tenures[one], window)))
    kept = sorted(ranked[: limits.slots], key=lambda one: (_natural(_plain_name(lanes.slots[one])), one))
    names = _names([lanes.slots[one] for one in kept])
    held, shortest_ms = coarser_holdings(
        [_holdings(lanes.slots[one], window) for one in kept], limits.holdings
    )
    present, tenures_ms = coarser_tenures([tenures[one] for one in kept], limits.tenures)
    marked, marks_left_out = kept_marks({one: marks[one] for one in kept if one in marks}, limits.marks)
    slots = [
        SlotLane(
            name=name,
            instance_id=lanes.slots[one].place.instance_id,
            client_id=lanes.slots[one].place.client_id,
            client_host=lanes.slots[one].place.client_host,
            tenures=tuple(stays),
            holdings=holdings,
            marks=tuple(marked.get(one, ())),
            blames=tuple(blames.get(one, ())),
        )
        for one, name, holdings, stays in zip(kept, names, held, present, strict=True)
    ]
    numbers = {one: index for index, one in enumerate(kept)}
    return slots, SlotSums(numbers, len(tenures) - len(kept), shortest_ms, tenures_ms, marks_left_out)


def _tenures(life: SlotLife, window: Window, ends: MemberEnds) -> Iterator[Tenure]:
    for stay, after in zip(life.stays, (*life.stays[1:], None), strict=True):
        span = window.clip(stay.since_ms, stay.until_ms)
        if span is None:
            continue
        since_ms, until_ms = span
        end = MemberEnd() if until_ms is None else ends.of_member(stay.member_id, until_ms)
        if until_ms is not None and end == MemberEnd() and after is not None and after.since_ms == until_ms:
            end = ends.of_process(life.place.instance_id, stay.member_id, until_ms)
        yield Tenure(
            member_id=stay.member_id,
            since_ms=since_ms,
            until_ms=until_ms,
            reason=end.reason,
            ended="" if until_ms is None else phrases.member_end(end.reason),
            severity=end.severity,
            event=end.event,
            repeats=end.repeats,
        )


def _present_ms(tenures: Sequence[Tenure], window: Window) -> int:
    return sum((tenure.until_ms or window.until_ms) - tenure.since_ms for tenure in tenures)


def _holdings(life: SlotLife, window: Window) -> Holdings:
    return tuple(
        (span[0], span[1] or window.until_ms, number)
        for since_ms, until_ms, number in life.holdings
        if (span := window.clip(since_ms, until_ms)) is not None
    )


def _plain_name(life: SlotLife) -> str:
    return life.place.instance_id or life.place.client_id or "(no client id)"


def _names(lives: Sequence[SlotLife]) -> list[str]:
    """Instance id, else client id; where that repeats, with the host if each has another one, else with a number."""
    plain = [_plain_name(life) for life in lives]
    hosts = [life.place.client_host.removeprefix("/") or "?" for life in lives]
    uses, pairs = Counter(plain), Counter(zip(plain, hosts, strict=True))
    shared = {name for (name, _), count in pairs.items() if count > 1}
    seen, texts = Counter[str](), list[str]()
    for name, host in zip(plain, hosts, strict=True):
        seen[name] += 1
        texts.append(
            name if uses[name] == 1 else f"{name} #{seen[name]}" if name in shared else f"{name} @ {host}"
        )
    return texts


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts ``a-2`` before ``a-10``; numbers of any length."""
    return [(len(part.lstrip("0")) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]+)", text)]


def topic_rows(
    lanes: Lanes,
    commits: CommitLog,
    counts: Mapping[str, Sequence[int]],
    renumbered: Mapping[int, int],
    window: Window,
    limits: TimelineLimits,
) -> tuple[list[TopicRows], RowSums]:
    """The topics with their partitions: those that had an owner and those that had commits in the window."""
    quiet = pauses(commits, window.since_ms, window.until_ms)
    owned = {
        place: spans
        for place, all_spans in lanes.owners.items()
        if (spans := _owners(all_spans, renumbered, window))
    }
    places = sorted({*owned, *commits.partitions_committed(window.since_ms, window.until_ms)})
    rows = [
        PartitionRow(
            partition=place[1],
            owners=tuple(owned.get(place, ())),
            pauses=_while_owned(quiet.get(place, ()), owned.get(place)),
        )
        for place in places
    ]
    kept = kept_rows(rows, limits.partitions)
    rows_left_out = len(rows) - len(kept)
    places, rows = [places[at] for at in kept], [rows[at] for at in kept]
    rows, shortest_ms = coarser_rows(rows, limits.owner_spans)
    rows, left_out = longest_pauses(rows, limits.pauses)
    topics = _by_topic(zip((topic for topic, _ in places), rows, strict=True), counts)
    shared = any(span[2] == -2 for row in rows for span in row.owners)
    return topics, RowSums(
        shortest_ms=shortest_ms, pauses_left_out=left_out, left_out=rows_left_out, shared=shared
    )


def _by_topic(
    rows: Iterable[tuple[str, PartitionRow]], counts: Mapping[str, Sequence[int]]
) -> list[TopicRows]:
    by_topic: dict[str, list[PartitionRow]] = defaultdict(list)
    for topic, row in rows:
        by_topic[topic].append(row)
    return [
        TopicRows(topic=topic, partitions=tuple(by_topic[topic]), commits=tuple(counts.get(topic, ())))
        for topic in sorted(by_topic)
    ]


def _owners(spans: Sequence[Ownership], renumbered: Mapping[int, int], window: Window) -> list[OwnerSpan]:
    return [
        (
            clipped[0],
            clipped[1] or window.until_ms,
            span.slot if span.slot < 0 else renumbered.get(span.slot, LEFT_OUT),
            span.members if span.slot < 0 else 0,
        )
        for span in spans
        if (clipped := window.clip(span.since_ms, span.until_ms)) is not None
    ]


def _while_owned(spans: Sequence[Span], owners: Sequence[OwnerSpan] | None) -> tuple[Span, ...]:
    """The parts of pauses in which somebody owned the partition; all, if nobody ever did: a simple group commits so."""
    if owners is None:
        return tuple(spans)
    owned = list[Span]()
    for since_ms, until_ms in spans:
        for begin, end, _, _ in owners:
            a, b = max(begin, since_ms), min(end, until_ms)
            if a < b and owned and owned[-1][1] == a:
                owned[-1] = owned[-1][0], b
            elif a < b:
                owned.append((a, b))
    return tuple(owned)
