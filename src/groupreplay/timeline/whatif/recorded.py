"""What the log has of a group: its generations, replaced static members, why members left, and its commits.

Only what is recorded: times that no record has are bounds in ``moments``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupreplay.state.snapshot.partitions import each
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.event_reading import ReadEvent, whole
from groupreplay.timeline.facts import GapFinder
from groupreplay.timeline.group_history import GroupHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMember:
    """A member as a generation has it."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    topics: tuple[str, ...]
    places: frozenset[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation with its assignment, or (``members`` empty) the group without members.

    ``at_ms``: its record; ``joined_ms``: the end of its join phase. ``silent_ms``: from the group's last commit to
    that; None: not known.
    """

    at_ms: int
    joined_ms: int
    protocol: str
    silent_ms: int | None
    members: Mapping[str, RecordedMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A static member whose process was started again without a rebalance."""

    at_ms: int
    old_member_id: str
    new_member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A history in which no generation is missing, from the first one of ``changes`` on.

    ``reasons``: why members left, by member id.
    """

    group_type: str
    changes: Sequence[Generation | Replacement]
    reasons: Mapping[str, str]
    commits: CommitTimes
    end_ms: int
    #: Rebalances before, of a time in which compaction has removed generations.
    left_out: int = 0

    @property
    def begin_ms(self) -> int:
        """The first generation: its members are those that a play begins with."""
        return self.changes[0].at_ms

    @property
    def generations(self) -> list[Generation]:
        """Those with members."""
        return [change for change in self.changes if isinstance(change, Generation) and change.members]

    def usual(self, field_name: str) -> Any:
        """The value that most members of all generations have; None: none has any."""
        values = Counter(
            getattr(member, field_name) for each_ in self.generations for member in each_.members.values()
        )
        values.pop(None, None)
        return values.most_common(1)[0][0] if values else None


#: A gap in the log that is shorter than so many usual times between commits hides nothing.
_GAP_OF_USUAL: Final = 3
_CHANGES: Final = frozenset({"rebalance.completed", "group.emptied", "static.replaced"})


def recorded(history: GroupHistory, since_ms: int | None = None) -> Recorded | None:
    """What the log has from ``since_ms`` on (None: from its begin), after the last gap; None: no members."""
    gaps, changes, reasons = GapFinder(), list[Generation | Replacement](), dict[str, str]()
    group_type, left_out = "", 0
    for event in history.events:
        is_gap = gaps.before(event.name, event.data) is not None
        if event.name == "member.left":
            reasons[event.text("member_id")] = event.text("reason")
        if is_gap:
            left_out += _rebalances(changes)
            changes.clear()
        if event.name in _CHANGES:
            changes.append(_change(event))
            group_type = event.text("group_type")
    commits = CommitTimes.of(history.commits)
    whole = _from(changes, max(since_ms or 0, _gap_end_ms(history, commits.interval_ms)))
    if not whole:
        return None
    return Recorded(
        group_type=group_type,
        changes=whole,
        reasons=reasons,
        commits=commits,
        end_ms=history.end_ms,
        left_out=left_out + max(0, _rebalances(changes) - _rebalances(whole)),
    )


def _rebalances(changes: Sequence[Generation | Replacement]) -> int:
    return sum(isinstance(change, Generation) and bool(change.members) for change in changes)


def _gap_end_ms(history: GroupHistory, interval_ms: int) -> int:
    """The end of the last time of which the log lacks records; aborted transactions leave short ones."""
    least_ms = _GAP_OF_USUAL * interval_ms
    return max((end for begin, end in history.commits.gaps if end - begin >= least_ms), default=0)


def _from(changes: Sequence[Generation | Replacement], begin_ms: int) -> list[Generation | Replacement]:
    """The changes after a moment, with those of then as a generation that begins there; the first one has members."""
    before, after = None, list[Generation | Replacement]()
    for change in changes:
        if change.at_ms > begin_ms and (after or isinstance(change, Generation) or before is not None):
            after.append(change)
        elif isinstance(change, Generation):
            before = change
        elif before is not None:
            before = _replaced(before, change)
    if before is not None and before.members:
        at_ms = max(before.at_ms, begin_ms)
        return [replace(before, at_ms=at_ms, joined_ms=at_ms), *after]
    firsts = (
        number for number, change in enumerate(after) if isinstance(change, Generation) and change.members
    )
    return after[next(firsts, len(after)) :]


def _replaced(generation: Generation, change: Replacement) -> Generation:
    """The generation with another process of a static member."""
    members = dict(generation.members)
    if (member := members.pop(change.old_member_id, None)) is not None:
        members[change.new_member_id] = replace(member, member_id=change.new_member_id)
    return replace(generation, members=members)


def _change(event: ReadEvent) -> Generation | Replacement:
    if event.name == "static.replaced":
        old, new = event.text("old_member_id"), event.text("new_member_id")
        return Replacement(at_ms=event.time_ms, old_member_id=old, new_member_id=new)
    members = {member.member_id: member for member in map(_member, event.mappings("members"))}
    return Generation(
        at_ms=event.time_ms,
        joined_ms=event.time_ms - (event.number("sync_ms") or 0),
        protocol=event.text("protocol"),
        silent_ms=event.number("silent_ms"),
        members=members if event.name == "rebalance.completed" else {},
    )


def _member(picture: Mapping[str, Any]) -> RecordedMember:
    return RecordedMember(
        member_id=picture["member_id"],
        client_id=picture["client_id"],
        client_host=picture["client_host"],
        instance_id=picture["instance_id"],
        session_timeout_ms=whole(picture.get("session_timeout_ms")),
        rebalance_timeout_ms=whole(picture.get("rebalance_timeout_ms")),
        topics=tuple(picture.get("topics") or ()),
        places=frozenset(each(picture.get("partitions"))),
    )


def places_of(changes: Sequence[Generation | Replacement]) -> set[Place]:
    """All partitions that were assigned."""
    return set(_assigned(changes))


def _assigned(changes: Sequence[Generation | Replacement]) -> Iterator[Place]:
    for change in changes:
        if isinstance(change, Generation):
            for member in change.members.values():
                yield from member.places
