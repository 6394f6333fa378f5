"""The rebalances that advice is made from: who came and went, how long partitions stood still, and when each began."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from groupreplay.timeline import findings
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.document import GenerationFlag, SlotLane
from groupreplay.timeline.event_reading import ReadEvent, words
from groupreplay.timeline.lanes import Lanes, Ownership
from groupreplay.timeline.likely import HEARTBEAT_MS, Joins, Part, begins, last_commits
from groupreplay.timeline.standstill import Stop, is_eager, stop_of
from groupreplay.timeline.stop_cost import Backlog


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A completed rebalance. ``came`` and ``went``: member ids. ``most_ms`` None: no bound is known.

    ``held``: partitions that had an owner before and whose owner was still a member afterwards; ``kept``: those of them
    that it kept. ``least_ms`` and ``most_ms``: how long the partition stood still that did so the longest;
    ``held_ms``: all that are held, summed, at most, and those that are kept, at least, where the assignor is eager.
    ``stayed``: members that stayed and had partitions. ``began_ms``: between which moments it began, inferred; None: it
    cannot be.
    """

    flag: GenerationFlag
    event: ReadEvent
    came: frozenset[str]
    went: frozenset[str]
    held: int
    kept: int
    least_ms: int
    most_ms: int | None
    held_ms: tuple[int, int | None]
    stayed: int = 0
    began_ms: tuple[int, int] | None = None

    @property
    def at_ms(self) -> int:
        """When it was over."""
        return self.flag.at_ms

    @property
    def is_eager(self) -> bool:
        """Whether every member gave up all of its partitions."""
        return is_eager(self.event)

    @property
    def stopped_ms(self) -> tuple[int, int | None]:
        """How long the whole group stood still: only an eager one does."""
        return (self.least_ms, self._whole_ms()) if self.is_eager else (0, 0)

    def _whole_ms(self) -> int | None:
        """How long it lasted, at most.

        A member works until it learns of the rebalance, so that it may have begun one heartbeat before the first
        partition stopped. One that a member began by going stopped the partitions of that member at once.
        """
        if not self.most_ms or (self.went and not self.came):
            return self.most_ms
        is_one = not self.event.number("skipped_generations")
        bounds = [self.most_ms + HEARTBEAT_MS, self.flag.most_ms if is_one else None]
        return min(bound for bound in bounds if bound is not None)

    @property
    def likely_ms(self) -> Part | None:
        """How long it lasted, inferred from when it began."""
        if self.began_ms is None or not self.is_eager or self.most_ms == 0:
            return None
        return Part.evenly(self.at_ms - self.began_ms[1], self.at_ms - self.began_ms[0])


def rebalances_of(
    events: Sequence[ReadEvent],
    slots: Sequence[SlotLane],
    lanes: Lanes,
    commits: CommitTimes,
    backlog: Backlog | None,
) -> list[Rebalance]:
    """The completed rebalances among events, in order."""
    given_up = _Owners.of(lanes)
    made = [
        (change, given_up.before(change.flag.at_ms, commits))
        for change in _changes(
            events, slots, findings.generation_flags(events, attrgetter("index"), lanes.slot_of.get, backlog)
        )
    ]
    began = begins([_joins(change, lost, commits) for change, lost in made])
    return [
        _rebalance(change, lost, began_ms, is_known=bool(given_up.owners))
        for (change, lost), began_ms in zip(made, began, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Change:
    """A rebalance, and who came and went. ``has_left``: one of them said so itself."""

    flag: GenerationFlag
    event: ReadEvent
    came: frozenset[str]
    went: frozenset[str]
    has_left: bool

    @property
    def skipped(self) -> int:
        """Join phases right before it that ended without an assignment, such as by a leader that was killed."""
        return self.event.number("skipped_generations") or 0


def _changes(
    events: Sequence[ReadEvent], slots: Sequence[SlotLane], flags: Sequence[GenerationFlag]
) -> Iterator[_Change]:
    came, went, left_ms = dict[int, set[str]](), dict[int, set[str]](), set[int]()
    for lane in slots:
        for tenure in lane.tenures:
            came.setdefault(tenure.since_ms, set()).add(tenure.member_id)
            if tenure.until_ms is not None:
                went.setdefault(tenure.until_ms, set()).add(tenure.member_id)
                left_ms |= {tenure.until_ms} if tenure.reason == "left" else set()
    by_index = {event.index: event for event in events}
    for flag in flags:
        assert flag.event is not None
        event = by_index[flag.event]
        # Members of the newer kinds come and go before the rebalance that follows is over.
        is_classic = event.is_classic
        yield _Change(
            flag=flag,
            event=event,
            came=frozenset(came.get(flag.at_ms, ()) if is_classic else _ids(event, "joined")),
            went=frozenset(went.get(flag.at_ms, ()) if is_classic else _ids(event, "left")),
            has_left=flag.at_ms in left_ms,
        )


def _rebalance(
    change: _Change, given_up: Sequence[_GivenUp], began_ms: tuple[int, int] | None, *, is_known: bool
) -> Rebalance:
    # Where nobody had a partition before, nothing stood still.
    most_ms = 0 if is_known and not given_up else _longest_ms(given_up, change)
    least_ms = change.flag.least_ms if most_ms is None else min(change.flag.least_ms, most_ms)
    return Rebalance(
        flag=change.flag,
        event=change.event,
        came=change.came,
        went=change.went,
        held=sum(each.stays for each in given_up),
        kept=sum(each.is_kept for each in given_up),
        least_ms=least_ms,
        most_ms=most_ms,
        held_ms=_held_ms(given_up, least_ms, most_ms),
        stayed=len({each.slot for each in given_up if each.stays}),
        began_ms=began_ms,
    )


def _joins(change: _Change, given_up: Sequence[_GivenUp], commits: CommitTimes) -> Joins | None:
    """What shows when it began; None: it is none of a classic group, or no member that stayed has commits.

    The last commits before several join phases in a row may be those of the first one or of the last one.
    """
    if not change.event.is_classic or change.skipped:
        return None
    by_slot = dict[int, list[_GivenUp]]()
    for each in given_up:
        by_slot.setdefault(each.slot, []).append(each)
    at_ms, stayed, left = change.flag.at_ms, list[tuple[int, bool]](), list[tuple[int, bool]]()
    for of_slot in by_slot.values():
        since_ms = max(each.since_ms for each in of_slot)
        last = last_commits(commits, [each.place for each in of_slot], since_ms, at_ms)
        if of_slot[0].stays and last is not None:
            stayed.append(last)
        elif last is not None:
            left.append(last)
    if not stayed:
        return None
    is_one = len(change.went) == 1 and not change.came and len(left) == 1
    return Joins(
        stayed_ms=[last_ms for last_ms, _ in stayed],
        early=[is_early for _, is_early in stayed],
        left_ms=left[0][0] if is_one else None,
        left_early=left[0][1] if is_one and change.has_left else None,
        bounds_ms=(
            None if change.flag.most_ms is None else at_ms - change.flag.most_ms,
            at_ms - change.flag.least_ms,
        ),
    )


def _ids(event: ReadEvent, field_name: str) -> set[str]:
    return {words(member_id) for member_id in event.items(field_name)}


@dataclass(frozen=True, slots=True)
class _GivenUp:
    """A partition that had an owner before a rebalance; ``stays``: that is a member afterwards, and may keep it."""

    place: Place
    slot: int
    since_ms: int
    stop: Stop | None
    stays: bool
    is_kept: bool


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owners of all partitions over time, and when the members of each slot left."""

    owners: Mapping[tuple[str, int], Sequence[Ownership]]
    left_ms: Sequence[frozenset[int]]

    @classmethod
    def of(cls, lanes: Lanes) -> _Owners:
        left_ms = [
            frozenset(stay.until_ms for stay in slot.stays if stay.until_ms is not None)
            for slot in lanes.slots
        ]
        return cls(lanes.owners, left_ms)

    def before(self, at_ms: int, commits: CommitTimes) -> list[_GivenUp]:
        """The partitions that had one owner shortly before the end of a rebalance."""
        given_up = []
        for place, spans in self.owners.items():
            number = bisect_left(spans, at_ms, key=lambda span: span.since_ms)
            span = spans[number - 1] if number else None
            if span is None or span.slot < 0 or (span.until_ms is not None and span.until_ms < at_ms):
                continue
            # One that was killed may have left its partitions to the process that has come in its place.
            stays = at_ms not in self.left_ms[span.slot]
            stop = stop_of(place, at_ms, commits, span.since_ms)
            kept = stays and span.until_ms != at_ms
            given_up.append(_GivenUp(place, span.slot, span.since_ms, stop, stays, kept))
        return given_up


def _longest_ms(given_up: Sequence[_GivenUp], change: _Change) -> int | None:
    """The longest stop of the partitions, at most the time since the group's last record; None: nothing bounds it."""
    lengths = [each.stop.length_ms for each in given_up if each.stop is not None]
    # Of several join phases in a row the flag has the last one, and they stood still in all of them.
    bounds = [
        None if change.skipped else change.flag.most_ms,
        max(lengths) if lengths and len(lengths) == len(given_up) else None,
    ]
    return min((bound for bound in bounds if bound is not None), default=None)


def _held_ms(given_up: Sequence[_GivenUp], least_ms: int, most_ms: int | None) -> tuple[int, int | None]:
    """The stops of the partitions whose owner kept them, at least, and of those whose owner stayed, at most."""
    kept_ms, held_ms, is_bounded = 0, 0, True
    for each in given_up:
        bounds = [most_ms, None if each.stop is None else each.stop.length_ms]
        own_ms = min((bound for bound in bounds if bound is not None), default=None)
        if each.is_kept:
            kept_ms += least_ms if own_ms is None else min(least_ms, own_ms)
        if each.stays:
            held_ms += own_ms or 0
            is_bounded &= own_ms is not None
    return kept_ms, held_ms if is_bounded else None
