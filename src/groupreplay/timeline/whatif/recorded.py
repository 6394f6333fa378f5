"""What the log has of a group: the changes of its members, why members left, and its commits.

Only what is recorded: times that no record has are bounds in ``moments``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.facts import GapFinder
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.changes import Change, ChangeReader, Generation, replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A history in which no generation is missing, from the first one of ``changes`` on.

    ``reasons``: why members left, by member id.
    """

    group_type: str
    changes: Sequence[Change]
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
    def is_consumer(self) -> bool:
        """Whether it is a consumer group (KIP-848)."""
        return self.group_type == GroupType.CONSUMER.value

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


def recorded(history: GroupHistory, since_ms: int | None = None) -> Recorded | None:
    """What the log has from ``since_ms`` on (None: from its begin), after the last gap; None: no members."""
    gaps, reader = GapFinder(), ChangeReader.of(history.events)
    changes, reasons, rebalances_ms = list[Change](), dict[str, str](), list[int]()
    group_type = ""
    for event in history.events:
        is_gap = gaps.before(event.name, event.data) is not None
        if event.name == "member.left":
            reasons[event.text("member_id")] = event.text("reason")
        if is_gap or event.name == "group.converted":
            changes.clear()
            reader.forget()
        if (change := reader.read(event)) is not None:
            changes.append(change)
            group_type = event.text("group_type")
        if event.name == "rebalance.completed":
            rebalances_ms.append(event.time_ms)
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
        # The last one of them made the members that a play begins with.
        left_out=max(0, bisect_right(rebalances_ms, whole[0].at_ms) - 1),
    )


def _gap_end_ms(history: GroupHistory, interval_ms: int) -> int:
    """The end of the last time of which the log lacks records; aborted transactions leave short ones."""
    least_ms = _GAP_OF_USUAL * interval_ms
    return max((end for begin, end in history.commits.gaps if end - begin >= least_ms), default=0)


def _from(changes: Sequence[Change], begin_ms: int) -> list[Change]:
    """The changes after a moment, with those of then as a generation that begins there; the first one has members."""
    before, after = None, list[Change]()
    for change in changes:
        if change.at_ms > begin_ms and (after or isinstance(change, Generation) or before is not None):
            after.append(change)
        elif isinstance(change, Generation):
            before = change
        elif before is not None:
            members = replaced(before.members, change.old_member_id, change.new_member_id)
            before = replace(before, members=members)
    if before is not None and before.members:
        at_ms = max(before.at_ms, begin_ms)
        return [replace(before, at_ms=at_ms, joined_ms=at_ms), *after]
    firsts = (
        number for number, change in enumerate(after) if isinstance(change, Generation) and change.members
    )
    return after[next(firsts, len(after)) :]


def places_of(changes: Sequence[Change]) -> set[Place]:
    """All partitions that were assigned."""
    return set(_assigned(changes))


def _assigned(changes: Sequence[Change]) -> Iterator[Place]:
    for change in changes:
        if isinstance(change, Generation):
            for member in change.members.values():
                yield from member.places
