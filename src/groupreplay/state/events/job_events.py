"""The facts about the job itself, which belong to no group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from groupreplay.state.events.event import Event, Fact, Severity

#: ``removed``: retention, or somebody who deletes records, was faster than the job. ``truncated``: brokers have
#: lost the end of the log, by an election of a replica that did not have it; the log may have grown again since.
GapReason: TypeAlias = Literal["topic_recreated", "partitions_added", "removed", "truncated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRange:
    """A partition of the offsets topic: how far it had been read, and what it holds now."""

    partition: int
    read_to: Annotated[int, Meta(description="The offset that would have been read next.")]
    log_start: Annotated[int, Meta(description="The first offset the partition holds now.")]
    log_end: Annotated[int, Meta(description="The offset that it writes next.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGap(Fact):
    """The offsets topic is no longer the one that the job had read: the state is built anew."""

    NAME: ClassVar[str] = "job.gap"
    #: Nobody can say what was missed.
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    DOC: ClassVar[str] = (
        "A part of the offsets topic is gone: removed before the job had read it, or lost by the brokers "
        "afterwards; or the topic was created again, or has more partitions. The state of every group is built "
        "anew from what the log holds. What happened in the gap is never reported, and a group that ended in it "
        "loses its document without an event."
    )
    reason: GapReason
    partitions: tuple[UnreadRange, ...]


def gap_event(gap: JobGap, at_ms: int) -> Event:
    """The gap as the job's own event; ``at_ms`` is when the state was begun anew, and names the event."""
    return Event(fact=gap, time_ms=at_ms)
