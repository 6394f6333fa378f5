"""Deletions of offsets whose reason the group's own records do not show: held until the prober has looked.

The deletion of a topic and a request to delete all offsets of a topic write the same tombstones. A round of the prober
that finds a topic gone writes an answer for each group whose offsets of it were removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.events.offset_events import LossReason, OffsetsDeleted, PartitionOffset
from groupreplay.state.replay import logged
from groupreplay.state.snapshot.losses import DeletedOffset, Losses, UnclearDeletion

if TYPE_CHECKING:
    from groupreplay.state.replay.report import Report
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot


#: A round may have begun just before the deletion; the next one notices it, and has to read the log.
_ROUNDS: Final = 3
#: An event that is written more than a minute after the deletion would page nobody.
_LONGEST_MS: Final = 45_000


def hold_deletion(snapshot: GroupSnapshot, fact: OffsetsDeleted, mattered: bool, report: Report) -> None:
    """Hold a deletion of all offsets of some topics; without a prober it is reported at once."""
    group = snapshot.group
    one = UnclearDeletion(
        at_ms=report.timestamp_ms,
        log_offset=report.offset,
        until_ms=report.timestamp_ms + min(_ROUNDS * snapshot.probes.interval_ms, _LONGEST_MS),
        offsets=tuple(DeletedOffset(at.topic, at.partition, at.offset) for at in fact.partitions),
        deadline_ms=fact.deadline_ms,
        mattered=mattered,
        group_type=group.group_type,
        simple=group.simple,
        history=group.history,
        assumed={**fact.assumed},
        assumed_release=fact.assumed_release,
    )
    if report.context.probing:
        snapshot.losses.unclear = (*snapshot.losses.unclear, one)
    else:
        _report(one, "unknown", report)


def due_ms(losses: Losses) -> int | None:
    """Until when the first one waits for an answer; None without one."""
    return min((one.until_ms for one in losses.unclear), default=None)


def take_over(losses: Losses, at_ms: int) -> list[UnclearDeletion]:
    """Remove those that have waited long enough."""
    over = [one for one in losses.unclear if one.until_ms <= at_ms]
    losses.unclear = tuple(one for one in losses.unclear if one.until_ms > at_ms)
    return over


def take_answered(losses: Losses, topics: tuple[str, ...], at_ms: int) -> list[UnclearDeletion]:
    """Remove those that the deletion of these topics explains, which a broker has confirmed at this time."""

    def is_explained(one: UnclearDeletion) -> bool:
        return one.at_ms <= at_ms and {at.topic for at in one.offsets} <= {*topics}

    found = [one for one in losses.unclear if is_explained(one)]
    losses.unclear = tuple(one for one in losses.unclear if not is_explained(one))
    return found


def report_deletion(
    snapshot: GroupSnapshot, one: UnclearDeletion, *, confirmed: bool, report: Report
) -> None:
    """Report one of them; ``confirmed``: a broker does not know the topic any more."""
    reason: LossReason = "topic_deleted" if confirmed else "unknown"
    snapshot.losses.lost = tuple(
        msgspec.structs.replace(lost, reason=reason)
        if lost.at_ms == one.at_ms and lost.reason == "unknown"
        else lost
        for lost in snapshot.losses.lost
    )
    _report(one, reason, report)


def _report(one: UnclearDeletion, reason: LossReason, report: Report) -> None:
    report.emit(
        OffsetsDeleted(
            partitions=tuple(
                PartitionOffset(topic=at.topic, partition=at.partition, offset=at.offset)
                for at in one.offsets
            ),
            partition_count=len(one.offsets),
            reason=reason,
            deadline_ms=one.deadline_ms,
            assumed={} if reason == "topic_deleted" else one.assumed,
            assumed_release=None if reason == "topic_deleted" else one.assumed_release,
            requested_by=logged.requesters(report, logged.REMOVALS.get(reason, ())),
        ),
        group_type=one.group_type,
        simple=one.simple,
        history=one.history,
        evidence=Evidence.PROBE if reason == "topic_deleted" else Evidence.INFERRED,
        severity=Severity.WARN if one.mattered else Severity.INFO,
    )
