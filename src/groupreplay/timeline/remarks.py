"""What a timeline does not have, or has in sums only, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from groupreplay.state.phrases import counted, counted_verb, first_of, milliseconds, timestamp
from groupreplay.timeline.document import Hole, Remark, TimelineDocument, Unread
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.rows import RowSums

if TYPE_CHECKING:
    from groupreplay.timeline.states import TimelineInput

_GAPS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSums:
    """What a document leaves out or joins: numbers of events, bodies of events, slots, steps, generations and so on.

    States and holdings of members that were shorter than ``states_ms`` were joined, and members of a slot that were
    there for less than ``tenures_ms``.
    """

    events: int
    slots: int
    states_ms: int
    trace: int
    rows: RowSums
    tenures_ms: int = 0
    marks: int = 0
    conditions: int = 0
    deadlines: int = 0
    bodies: int = 0
    changes: int = 0
    generations: int = 0


def remarks(
    given: TimelineInput,
    events: Sequence[ReadEvent],
    document: TimelineDocument,
    sums: DocumentSums,
    *,
    unread: bool,
) -> list[Remark]:
    """The remarks: first what is missing, then what was summed up; ``document`` has all but its remarks."""
    missing = [
        *_removed(events, document.holes),
        *_removed_commits(document, has_commits=len(given.commits.at_ms) > 0),
        *_missing(given, events, unread=unread, shared=sums.rows.shared),
    ]
    joined, left_out = _joined(sums), _left_out(sums)
    return [
        *missing,
        *(Remark(kind=kind, text=text) for amount, kind, text in (*joined, *left_out) if amount),
    ]


def _joined(sums: DocumentSums) -> tuple[tuple[int, str, str], ...]:
    """What was joined, if the first number is not 0."""
    return (
        (
            sums.rows.shortest_ms,
            "summed_owners",
            f"Owners that held a partition for less than {milliseconds(sums.rows.shortest_ms)} are joined where they "
            "follow each other; the number of changes is shown.",
        ),
        (
            sums.states_ms,
            "summed_states",
            "CompletingRebalance is shown as a part of PreparingRebalance; states and numbers of partitions that held "
            f"for less than {milliseconds(sums.states_ms)} are joined where they follow each other.",
        ),
        (
            sums.tenures_ms,
            "summed_members",
            f"Members that were in a slot for less than {milliseconds(sums.tenures_ms)} are one bar where they follow "
            "each other.",
        ),
    )


def _left_out(sums: DocumentSums) -> tuple[tuple[int, str, str], ...]:
    """What was left out, and how much of it."""
    rows = sums.rows
    counts = (
        (sums.slots, "slot", "summed_members", "of members have no lane here: those with the shortest time."),
        (
            sums.marks,
            "event",
            "summed_members",
            "of members have no mark in the lanes; bars show who came and left.",
        ),
        (
            rows.left_out,
            "partition",
            "summed_partitions",
            "have no row here: those whose owner changed least.",
        ),
        (
            sums.conditions,
            "condition",
            "summed_conditions",
            "have no bar here: the mildest and shortest.",
        ),
        (sums.deadlines, "expiry time", "summed_offsets", "of offsets are left out: the latest."),
        (
            sums.generations,
            "generation",
            "summed_generations",
            "have no flag here: those with the fewest moved partitions.",
        ),
        (rows.pauses_left_out, "short pause", "summed_pauses", "of commits are not marked."),
        (sums.trace, "step", "summed_trace", "of the trace have no mark here."),
        (sums.changes, "changed offset", "summed_offsets", "are left out; the events have them."),
    )
    return (
        *_events_left_out(sums),
        *((amount, kind, f"{counted(amount, noun)} {what}") for amount, noun, kind, what in counts),
    )


def _events_left_out(sums: DocumentSums) -> tuple[tuple[int, str, str], ...]:
    return (
        (
            sums.events,
            "summed_events",
            f"{counted_verb(sums.events, 'event', 'has', 'have')} no row here, first those that tell of no problem; "
            "groupreplay replay prints them.",
        ),
        (
            sums.bodies,
            "summed_events",
            f"{counted_verb(sums.bodies, 'event', 'has', 'have')} no JSON here; groupreplay replay -o jsonl prints it.",
        ),
    )


def _unread_text(one: Unread) -> str:
    what = {"log": "The offsets topic", "probes": "What the prober was answered"}[one.what]
    if one.since_ms is None:
        missing = {
            "log": "members and states are those of events, and partitions and commits are not known",
            "probes": "whether the brokers were asked about classic groups is not known",
        }[one.what]
        return f"{what} could not be read: {missing}. {one.text}"
    return f"{what} could not be read after {timestamp(one.since_ms)}: nothing later is known. {one.text}"


def _removed(events: Sequence[ReadEvent], gaps: Sequence[Hole]) -> Iterator[Remark]:
    """What the log does not have any more, and what the brokers removed, which the log has."""
    if gaps:
        shown = first_of(list(dict.fromkeys(gap.text for gap in gaps)), str, _GAPS_SHOWN, "; ")
        yield Remark(
            kind="history",
            text=f"Compaction has removed records of this group, or the log was not read from its begin: "
            f"{shown}. Grey times are unknown.",
        )
    expired = sum(event.number("partition_count") or 0 for event in events if event.name == "offsets.expired")
    if expired:
        yield Remark(
            kind="expired_offsets",
            text=f"The brokers removed {counted(expired, 'committed offset')} at the end of their retention "
            "(offsets.expired): the log shows that, and nothing is missing from it for that reason.",
        )


def _removed_commits(document: TimelineDocument, *, has_commits: bool) -> Iterator[Remark]:
    if not document.commit_gaps:
        return
    left = "the log has commits of this group, and there may have been more"
    if not has_commits:
        left = "the log has no offset commit of this group, and there may have been some"
    yield Remark(
        kind="removed_commits",
        text="Compaction has removed records from this group's partition of the log, or they are of aborted "
        f"transactions, or were not read: {left}. A page has these times in grey.",
    )


def _missing(
    given: TimelineInput, events: Sequence[ReadEvent], *, unread: bool, shared: bool
) -> Iterator[Remark]:
    yield from _missing_log(given)
    yield from _missing_probes(given, events)
    if any(event.data.get("truncated") is True for event in events):
        yield Remark(
            kind="cut_lists", text="Lists in some events were cut to 64 KiB; pictures use the records."
        )
    if unread:
        yield Remark(
            kind="no_assignments",
            text="Some members' assignments cannot be read: their partitions are not shown.",
        )
    if shared:
        yield Remark(
            kind="shared_partitions",
            text="Members of a share group share partitions: the ribbon shows how many do.",
        )
    if given.undated:
        yield Remark(
            kind="undated_records",
            text=f"{counted(given.undated, 'record')} without a usable time are left out.",
        )
    for commit in given.pending:
        yield Remark(kind="pending_commits", text=f"{commit.text()}.")


def _missing_log(given: TimelineInput) -> Iterator[Remark]:
    unread = [one for one in given.unread if one.what == "log"]
    for one in unread:
        yield Remark(kind="unread_log", text=_unread_text(one))
    if not given.has_log:
        if not unread:
            yield Remark(kind="no_records", text="Made from events alone: states and commits are not known.")
        return
    if not given.records:
        yield Remark(kind="no_records", text="The log has no record of this group's members or generations.")
    if not len(given.commits.at_ms) and not given.commits.gaps:
        yield Remark(kind="no_commits", text="The log has no offset commit of this group.")


def _missing_probes(given: TimelineInput, events: Sequence[ReadEvent]) -> Iterator[Remark]:
    unread = [one for one in given.unread if one.what == "probes"]
    for one in unread:
        yield Remark(kind="unread_probes", text=_unread_text(one))
    is_classic = any(event.is_classic for event in events)
    if is_classic and not given.probed and not unread:
        yield Remark(
            kind="no_probes",
            text="No prober asked the brokers: a classic rebalance is seen when it has ended, and one that never "
            "ended is not seen.",
        )
    if given.misdated:
        yield Remark(
            kind="misdated_probes",
            text=f"{counted(given.misdated, 'answer')} to the prober are not used: dated more than a minute ahead of "
            "the broker's append time. Check the clock of the job's machine.",
        )
