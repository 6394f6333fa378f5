"""The timeline document of a group: everything that a page draws, and what is missing from it.

Times are integer milliseconds since 1970. A span ends before ``until_ms``; ``until_ms`` null: it holds at the end of
what is known (``known_until_ms``, for conditions ``events_until_ms``). ``slot`` is an index of ``slots``, ``event`` one
of ``events``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from groupreplay.state.events.lag_events import StopCost
from groupreplay.timeline.advice.finding import AdviceSummary
from groupreplay.timeline.diagnosis import Statement
from groupreplay.timeline.event_folds import EventFold
from groupreplay.timeline.present import Present
from groupreplay.timeline.stop_cost import QuietTime
from groupreplay.timeline.whatif.answer import Comparison

#: The version of the document's form; it changes when a field changes its meaning or disappears.
TIMELINE_FORM: Final = "groupreplay.timeline.v1"
#: Owners that are no slot: a partition that a share group's members share, a slot that was left out, several in turn.
SHARED, LEFT_OUT, MIXED = -2, -1, -3

Span = tuple[int, int]
OwnerSpan = Annotated[
    tuple[int, int, int, int],
    Meta(
        description="since_ms, until_ms, slot, changes. slot -1: a member without a lane here; -2: shared by as many "
        "members as changes has; -3: as many changes of the owner as changes has, too short to be shown one by one."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSource:
    """Where the document comes from."""

    command: Annotated[str, Meta(description="The command that made it, without the flags of a connection.")]
    version: Annotated[str, Meta(description="The release of groupreplay.")]
    origin: Annotated[str, Meta(description="Names of the capture files, or the cluster.")]
    cluster_id: str
    topic_id: Annotated[str, Meta(description="Id of the offsets topic; 0 where it is not known.")]
    digest: Annotated[str | None, Meta(description="SHA-256 of the capture; null for a live cluster.")]
    redacted: Annotated[tuple[str, ...], Meta(description="What is replaced by a keyed hash.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What the document rests on."""

    evidence: Annotated[tuple[str, ...], Meta(description="Of its events: log, probe, inferred.")]
    history: Annotated[
        str, Meta(description="full, or partial: compaction has removed records of the group.")
    ]
    catch_up: Annotated[
        int, Meta(description="Number of events that were recorded long after they happened.")
    ]
    probed: Annotated[bool, Meta(description="Whether a prober asked the brokers about classic groups.")]
    asked: Annotated[
        tuple[int, int] | None, Meta(description="Its first and last round that are known; null: not known.")
    ]
    assumed: Annotated[
        Mapping[str, int],
        Meta(description="Numbers that its events and deadlines rest on, and that no broker has given."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What the document does not have, or has in sums only, in words."""

    kind: Annotated[
        str,
        Meta(
            description="no_commits, no_probes, no_records, no_assignments, cut_lists, undated_records, history, "
            "expired_offsets, shared_partitions, summed_owners, summed_events, summed_members, summed_pauses, "
            "summed_trace, summed_offsets, summed_states, summed_generations, summed_conditions, summed_partitions, "
            "unread_log, unread_probes, misdated_probes, removed_commits, pending_commits."
        ),
    ]
    text: str


#: Why something is not known: no broker answers; the brokers refuse; it is still being read; it would show names that
#: are hidden on purpose; there is no such topic, or this login may not see it.
UnreadReason = Literal["unreachable", "refused", "reading", "hidden", "absent", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What could not be read, so that nobody may conclude that nothing happened."""

    what: Annotated[Literal["log", "probes"], Meta(description="The offsets topic, or the prober's answers.")]
    reason: UnreadReason
    since_ms: Annotated[
        int | None, Meta(description="It was read up to this time; null: nothing of it was read.")
    ]
    text: Annotated[str, Meta(description="The reason in words.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBar:
    """A state of the group (docs/states.md); it began between ``earliest_ms`` (null: unknown) and ``since_ms``."""

    state: str
    group_type: str
    since_ms: int
    earliest_ms: int | None
    until_ms: int | None
    evidence: Annotated[
        str, Meta(description="Of its begin: record, probe or inferred; summed: several short states.")
    ]
    generation: int | None
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A time of which compaction has removed the records; without a length where its begin is not known."""

    since_ms: int
    until_ms: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFlag:
    """A completed rebalance, which ended at ``at_ms``. Durations are null where nothing shows them."""

    at_ms: int
    generation: int
    trigger: str
    members: int
    joined: int
    left: int
    moved: int | None
    unassigned: int | None
    skipped: Annotated[int, Meta(description="Generations that were begun and never completed.")]
    failed: Annotated[Span | None, Meta(description="When they were; null: none, or not known.")] = None
    duration_ms: Annotated[int | None, Meta(description="As its event has it, like the bound.")]
    duration_upper_bound_ms: int | None
    least_ms: Annotated[int, Meta(description="Bounds of the length of the whole rebalance.")]
    most_ms: int | None
    took: Annotated[str, Meta(description="The length in words; empty where nothing shows it.")]
    join_ms_min: Annotated[int | None, Meta(description="Bounds of the length of the join phase.")]
    join_ms_max: int | None
    sync_ms: Annotated[int | None, Meta(description="Length of the sync phase, at the end of the rebalance.")]
    slow_leader: Annotated[
        str | None, Meta(description="The leader, where the group waited 3 s or more for its assignment.")
    ]
    leader_slot: int | None
    event: int | None
    cost: Annotated[
        StopCost | None,
        Meta(description="What it cost; null: not known, as without recorded ends of topics."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A member in a slot, from the first assignment that contains it to the first one that does not.

    Several short ones that follow each other may be one, with the id of the last.
    """

    member_id: str
    since_ms: int
    until_ms: int | None
    reason: Annotated[str | None, Meta(description="Why it left, as member.left says it.")]
    ended: Annotated[str, Meta(description="How it ended, in words; empty while it is there.")] = ""
    severity: Annotated[str, Meta(description="That of the event that tells of its end.")] = "INFO"
    event: Annotated[int | None, Meta(description="The event that tells of its end.")] = None
    repeats: Annotated[
        bool,
        Meta(description="Its end has no event of its own: it repeats the one of `event` within a minute."),
    ] = False
    members: Annotated[
        int, Meta(description="How many members followed each other; more than 1: summed up.")
    ] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMark:
    """An event about the holder of a slot."""

    at_ms: int
    name: str
    event: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """A condition names the holder of a slot. ``proven``: the log proves it; else it is inferred."""

    since_ms: int
    until_ms: int | None
    proven: bool
    condition: Annotated[int, Meta(description="An index of conditions.")]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLane:
    """A slot: members with the same instance id, or that followed each other with one client id and host."""

    name: Annotated[str, Meta(description="Instance id, else client id; with host or number if it repeats.")]
    instance_id: str | None
    client_id: str
    client_host: str
    tenures: tuple[Tenure, ...]
    holdings: Annotated[
        tuple[tuple[int, int, int], ...], Meta(description="since_ms, until_ms, number of partitions.")
    ]
    marks: tuple[LaneMark, ...]
    blames: tuple[Blame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition, or a task of a streams group: its owners, and when nobody committed although commits are usual."""

    partition: int
    owners: tuple[OwnerSpan, ...]
    pauses: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRows:
    """A topic, or a subtopology of a streams group; ``commits`` are counts in buckets from the document's begin on."""

    topic: str
    partitions: tuple[PartitionRow, ...]
    commits: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """An offset that changed by other than progress; ``old`` or ``new`` is null where there was or is none."""

    at_ms: int
    name: str
    topic: str
    partition: int
    old: int | None
    new: int | None
    severity: Annotated[str, Meta(description="That of its event.")]
    event: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryDeadline:
    """Committed offsets that the broker may remove from this time on, as ranges of partitions."""

    at_ms: int
    topic: str
    partitions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionBar:
    """A condition from its begin to its end; ``severity`` is its highest one."""

    name: str
    condition_id: str
    severity: str
    since_ms: int
    until_ms: int | None
    subject: Annotated[str, Meta(description="The member, instance or partition; empty: the group.")]
    text: str
    runbook: str
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """An event as a row of the table; ``body`` is the CloudEvent, null where ``cut`` is true."""

    id: str
    time_ms: int
    name: str
    severity: str
    text: str
    topic: str | None
    partition: int | None
    offset: int | None
    slot: int | None
    repeats: Annotated[
        int,
        Meta(description="How many facts that repeat it within a minute have no event; tenures point to it."),
    ]
    assumed: Annotated[Mapping[str, int], Meta(description="The numbers that it assumes.")]
    cut: bool
    body: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMark:
    """A step of a simulated coordinator (docs/trace.md) about a member, or about the group."""

    at_ms: int
    slot: int | None
    kind: str
    text: str
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineDocument:
    """What happened to one group between two points in time."""

    form: str
    group_id: str
    group_type: str
    since_ms: int
    until_ms: int
    source: TimelineSource
    verdict: tuple[Statement, ...]
    basis: Basis
    remarks: tuple[Remark, ...]
    states: tuple[StateBar, ...]
    holes: tuple[Hole, ...]
    generations: tuple[GenerationFlag, ...]
    slots: tuple[SlotLane, ...]
    topics: tuple[TopicRows, ...]
    bucket_ms: Annotated[int, Meta(description="The width of a bucket of commits.")]
    offset_changes: tuple[OffsetChange, ...]
    deadlines: tuple[ExpiryDeadline, ...]
    conditions: tuple[ConditionBar, ...]
    events: tuple[EventRow, ...]
    folds: Annotated[tuple[EventFold, ...], Meta(description="How the table has them, to be opened.")]
    trace: tuple[TraceMark, ...]
    known_until_ms: Annotated[
        int,
        Meta(
            description="States, members, owners and commits are known up to this time. Open spans end here."
        ),
    ]
    events_until_ms: Annotated[
        int, Meta(description="Events and conditions are known up to this time. Open conditions end here.")
    ]
    known_since_ms: Annotated[
        int | None,
        Meta(description="Nothing of the time before is known, from since_ms on; null: nothing at all."),
    ] = None
    present: Annotated[
        Present | None, Meta(description="Members and partitions at known_until_ms; null without a log.")
    ] = None
    last_commit_ms: Annotated[
        int | None,
        Meta(
            description="The newest commit in the log, up to known_until_ms; null: none, or the log was not read."
        ),
    ] = None
    unread: tuple[Unread, ...] = ()
    quiet_times: Annotated[
        tuple[QuietTime, ...],
        Meta(
            description="Times without commits in which records came; empty also where no ends of topics were recorded."
        ),
    ] = ()
    commit_gaps: Annotated[
        tuple[Span, ...],
        Meta(
            description="Times of which the group's partition of the log lacks records: compaction has removed them, "
            "or they are of aborted transactions, or were not read. `commits` are what is left there, and 0 does not "
            "say that nothing was committed."
        ),
    ] = ()
    advice: Annotated[
        AdviceSummary | None,
        Meta(description="Which setting would have helped, and what deployments cost; null: nothing to say."),
    ] = None
    whatif: Annotated[Comparison | None, Meta(description="Null: nothing was asked (--whatif).")] = None


#: Its name beside those of the events.
TIMELINE: Final = "timeline"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def timeline_schema() -> dict[str, Any]:
    """The schema of a document, with ``form`` as its constant."""
    # msgspec leaves defaults as they are: a tuple is no JSON.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(TimelineDocument)))
    schema["$defs"][TimelineDocument.__name__]["properties"]["form"] = {"const": TIMELINE_FORM}
    return {"$schema": _DIALECT, "title": TIMELINE, **schema}
