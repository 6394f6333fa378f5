"""Committed offsets that are removed, committed again after that, or that go back: which and why, once per occasion.

An offset's tombstone does not contain its reason. All tombstones of a group in one operation are one occasion with
one reason: the broker's clean-up removes only offsets that are due, so that one offset that was not due proves a
deletion of all. Commits of one moment (one request has one timestamp) are one occasion, too; they are held until
that moment is over, so that events do not depend on batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType
from groupreplay.state.events import offset_events
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.policy.rules import severity_of_moves
from groupreplay.state.replay import logged
from groupreplay.state.replay.group_summary import has_members, is_significant
from groupreplay.state.replay.offset_deletions import hold_deletion
from groupreplay.state.replay.retention import (
    NEVER,
    Grounds,
    conceivable_deadlines,
    deadlines,
    grounds,
    possible_deadlines,
    surely_protected,
)
from groupreplay.state.snapshot.losses import Change, Losses, Lost, add_changes

if TYPE_CHECKING:
    from groupreplay.state.replay.report import Report
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState
    from groupreplay.state.snapshot.observations import CommitRun
    from groupreplay.state.snapshot.offsets import Applied, Offsets


#: A tombstone may be this much older than the deadline: clocks of brokers differ.
TOLERANCE_MS: Final = 5_000
#: Lost offsets are kept for this time, up to this number of partitions of a group.
MEMORY_MS: Final = 30 * 24 * 3_600_000
MOST_REMEMBERED: Final = 300
#: A consumer that goes back by at most one poll (``max.poll.records``) sent commits that arrived in another order,
#: or reads the last poll again after a rebalance.
SMALL_RECORDS: Final = 500


def report_tombstones(
    snapshot: GroupSnapshot,
    offsets: Offsets,
    removed: Collection[tuple[str, int]],
    with_group: bool,
    report: Report,
) -> None:
    """Report an operation's offset tombstones before they are applied; ``with_group``: the group's is among them."""
    places = offsets.places(removed)
    if not len(places):
        return
    context, at_ms, group = report.context, report.timestamp_ms, snapshot.group
    named, values = offsets.names(places), offsets.rows["offset"][places].tolist()
    due = deadlines(group, offsets, context)[places]
    sure = bool((due <= at_ms + TOLERANCE_MS).all())
    possible = due if sure else possible_deadlines(group, offsets, context, unseen=True)[places]
    mattered = is_significant(snapshot, report.rules, at_ms)
    lost = tuple(
        offset_events.PartitionOffset(topic=topic, partition=partition, offset=offset)
        for (topic, partition), offset in sorted(zip(named, values, strict=True))
    )
    basis = grounds(group, offsets, places, possible, context)
    fact: offset_events.OffsetsExpired | offset_events.OffsetsDeleted
    if (possible <= at_ms + TOLERANCE_MS).all():
        evidence = basis.evidence if sure else Evidence.INFERRED
        fact = _expired(group, lost, int(possible.min()), basis, report, unclear=not sure, matters=mattered)
    else:
        conceivable = conceivable_deadlines(group, offsets, context)[places]
        if (conceivable > at_ms + TOLERANCE_MS).any():
            basis = replace(basis, assumed={}, assumed_release=None)
        reason, evidence = _deleted_why(group, offsets, named, with_group, basis)
        first = int(due.min())
        fact = offset_events.OffsetsDeleted(
            partitions=lost,
            partition_count=len(lost),
            reason=reason,
            deadline_ms=None if first == NEVER else first,
            assumed=basis.assumed,
            assumed_release=basis.assumed_release,
            requested_by=logged.requesters(report, logged.REMOVALS.get(reason, ())),
        )
    _remember(snapshot, [Lost(o.topic, o.partition, o.offset, at_ms, fact.reason, mattered) for o in lost])
    if isinstance(fact, offset_events.OffsetsDeleted) and fact.reason == "unknown":
        hold_deletion(snapshot, fact, mattered, report)
        return
    report.emit(
        fact,
        group_type=group.group_type,
        simple=group.simple,
        history=group.history,
        evidence=evidence,
        severity=_loss_severity(fact, mattered),
    )


def _expired(
    group: GroupState,
    lost: tuple[offset_events.PartitionOffset, ...],
    deadline_ms: int,
    basis: Grounds,
    report: Report,
    *,
    unclear: bool,
    matters: bool,
) -> offset_events.OffsetsExpired:
    since_ms = max(deadline_ms, group.record_timestamp_ms or deadline_ms)
    return offset_events.OffsetsExpired(
        partitions=lost,
        partition_count=len(lost),
        reason="retention",
        deadline_ms=deadline_ms,
        late_ms=max(0, report.timestamp_ms - since_ms),
        check_interval_ms=report.context.assumed_check_interval_ms,
        rule=basis.rule,
        base=basis.base,
        unclear=unclear,
        assumed=basis.assumed | report.context.assumed_check_interval,
        assumed_release=basis.assumed_release,
        matters=matters,
    )


def _loss_severity(
    fact: offset_events.OffsetsExpired | offset_events.OffsetsDeleted, mattered: bool
) -> Severity:
    """An expiry is a loss that nobody asked for; of a group that does not matter, both are only counted."""
    if not mattered:
        return Severity.INFO
    return fact.SEVERITY if isinstance(fact, offset_events.OffsetsExpired) else Severity.WARN


def _deleted_why(
    group: GroupState, offsets: Offsets, named: Sequence[tuple[str, int]], with_group: bool, basis: Grounds
) -> tuple[offset_events.LossReason, Evidence]:
    """Why they were deleted, as far as the group's own records show it.

    With a retention or a release that nobody has given, they may have expired instead.
    """
    if with_group:
        return "group_deleted", basis.evidence
    topics = {topic for topic, _ in named}
    indices = [place for place, topic in enumerate(offsets.topics) if topic in topics]
    if sum(int((offsets.rows["topic"] == place).sum()) for place in indices) != len(named):
        return "admin", Evidence.INFERRED
    if _is_protected(group, topics):
        return "topic_deleted", basis.evidence
    return "unknown", Evidence.INFERRED


def _is_protected(group: GroupState, topics: set[str]) -> bool:
    """Whether the broker refuses to delete these offsets on request, because of the group's members."""
    if group.group_type is GroupType.CLASSIC and group.classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return has_members(group)
    return topics <= surely_protected(group)


def _remember(snapshot: GroupSnapshot, lost: Sequence[Lost]) -> None:
    again = {(one.topic, one.partition) for one in lost}
    kept = [one for one in snapshot.losses.lost if (one.topic, one.partition) not in again]
    remembered = sorted((*kept, *lost[:MOST_REMEMBERED]), key=lambda one: one.at_ms)
    snapshot.losses.lost = tuple(remembered[-MOST_REMEMBERED:])


def forget_before(snapshot: GroupSnapshot, at_ms: int) -> None:
    """Drop what was lost more than ``MEMORY_MS`` before this moment."""
    snapshot.losses.lost = tuple(one for one in snapshot.losses.lost if one.at_ms + MEMORY_MS > at_ms)


def hold_changes(snapshot: GroupSnapshot, run: CommitRun, applied: Applied, *, rewinds: bool = True) -> None:
    """Hold the changes in a run of commits that are more than progress; ``applied`` is the result of applying it.

    Offsets that are committed again are removed from the lost ones. ``rewinds``: offsets that go back are held, too.
    """
    rows = run.rows
    began = rows[["first_offset", "first_log_offset", "first_timestamp_ms"]][applied.fallen].tolist()
    steps = run.steps[run.steps["new_offset"] < run.steps["old_offset"]]
    falls = [
        *((row, old, *new) for row, old, new in zip(applied.fallen, applied.old_offsets, began, strict=True)),
        *steps[["row", "old_offset", "new_offset", "log_offset", "timestamp_ms"]].tolist(),
    ]
    found = [
        Change(
            at_ms,
            log_offset,
            topic,
            partition,
            old,
            new,
            kind=_kind(old - new, topic in applied.recreated),
        )
        for row, old, new, log_offset, at_ms in (falls if rewinds else ())
        for topic, partition in [(run.topics[rows["topic"][row]], int(rows["partition"][row]))]
    ]
    again = _recommitted(snapshot, run) if snapshot.losses.lost else ()
    add_changes(snapshot.losses, [*found, *again])


def _kind(records: int, recreated: bool) -> offset_events.RewindKind:
    if recreated:
        return "topic_recreated"
    return "small" if records <= SMALL_RECORDS else "other"


def _recommitted(snapshot: GroupSnapshot, run: CommitRun) -> Iterable[Change]:
    places = zip(run.rows["topic"].tolist(), run.rows["partition"].tolist(), strict=True)
    row_of = {(run.topics[topic], partition): row for row, (topic, partition) in enumerate(places)}
    back = [one for one in snapshot.losses.lost if (one.topic, one.partition) in row_of]
    snapshot.losses.lost = tuple(one for one in snapshot.losses.lost if one not in back)
    for one in back:
        row = run.rows[row_of[one.topic, one.partition]]
        place = (int(row["first_timestamp_ms"]), int(row["first_log_offset"]))
        yield Change(*place, one.topic, one.partition, one.offset, int(row["first_offset"]), lost=one)


def due_ms(losses: Losses) -> int | None:
    """When the first moment with changes is over; None without one."""
    return losses.changes[-1].timestamp_ms + 1 if losses.changes else None


def take_occasions(snapshot: GroupSnapshot, at_ms: int) -> list[list[Change]]:
    """Remove the changes before this moment; those of one moment and one sort together, in the order of the log."""

    def sort(one: Change) -> tuple[int, str]:
        return one.timestamp_ms, one.kind or f"lost by {one.lost.reason if one.lost else None}"

    held, over = snapshot.losses.changes, list[Change]()
    while held and held[-1].timestamp_ms < at_ms:
        over.append(held.pop())
    ordered = sorted(over, key=lambda one: (sort(one), one.log_offset))
    return sorted((list(same) for _, same in groupby(ordered, sort)), key=lambda same: same[0].log_offset)


def report_changes(snapshot: GroupSnapshot, same: Sequence[Change], report: Report) -> None:
    """Report one occasion of ``take_occasions``."""
    lost = [one.lost for one in same if one.lost is not None]
    fact = _reset(same, lost) if lost else _rewound(same)
    comparable = all(one.kind != "topic_recreated" for one in same) and not any(
        one.reason == "topic_deleted" for one in lost
    )
    warn = comparable and any(one.mattered for one in lost)
    moves = [(one.old_offset, one.new_offset) for one in same] if comparable else ()
    # A member that was there before the loss goes on from the offset that it has in its memory: nothing is skipped.
    began_anew = all((snapshot.group.record_timestamp_ms or 0) > one.at_ms for one in lost)
    found = severity_of_moves(moves, report.rules, most=Severity.ERROR if began_anew else Severity.WARN)
    report.emit(
        fact,
        group_type=snapshot.group.group_type,
        simple=snapshot.group.simple,
        history=snapshot.group.history,
        severity=max(found, Severity.WARN if warn else Severity.INFO),
    )


def _rewound(same: Sequence[Change]) -> offset_events.OffsetRewound:
    # A partition can go back several times in one moment: from the first offset to the last.
    falls = dict[tuple[str, int], tuple[int, int]]()
    for one in same:
        place = (one.topic, one.partition)
        falls[place] = (falls[place][0] if place in falls else one.old_offset, one.new_offset)
    return offset_events.OffsetRewound(
        kind=same[0].kind or "other",
        partitions=tuple(
            offset_events.RewoundOffset(topic=topic, partition=partition, old_offset=old, new_offset=new)
            for (topic, partition), (old, new) in falls.items()
        ),
        partition_count=len(falls),
    )


def _reset(same: Sequence[Change], lost: Sequence[Lost]) -> offset_events.OffsetsReset:
    directions = {_direction(one) for one in same}
    return offset_events.OffsetsReset(
        partitions=tuple(
            offset_events.ResetOffset(
                topic=one.topic,
                partition=one.partition,
                lost_offset=one.old_offset,
                new_offset=one.new_offset,
            )
            for one in same
        ),
        partition_count=len(same),
        direction=directions.pop() if len(directions) == 1 else "mixed",
        reason=lost[0].reason,
        lost_ms=min(one.at_ms for one in lost),
    )


def _direction(change: Change) -> offset_events.Direction:
    if change.new_offset == change.old_offset:
        return "unchanged"
    return "forward" if change.new_offset > change.old_offset else "backward"
