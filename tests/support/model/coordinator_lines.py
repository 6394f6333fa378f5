"""What Kafka's coordinator logs about a group, beside what the model's trace says of the same steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from groupreplay.coordinator.trace_entries import (
    AnyEntry,
    AssignmentEntry,
    BranchEntry,
    EpochEntry,
    RebalanceEntry,
    ReconciliationEntry,
)

#: What a line begins with, up to the coordinator's own words; a stack trace has no such beginning.
_BEGIN = re.compile(r"^\S+ \[[^]]*\] \w+ \S*GroupMetadataManager - \[GroupCoordinator [^]]*\] ")
#: Parts that differ from run to run, or that the trace has in another form.
_LEFT_OUT = (
    (re.compile(r" with metadata hash -?\d+"), ""),
    (re.compile(r" assignor in \d+ms.*"), " assignor"),
    (re.compile(r", assignedPartitions=.*"), ""),
)
#: Lines about steps that a trace tells, by their beginnings behind the group's name.
_TOLD = re.compile(
    r"^(Preparing to rebalance|Dynamic member|Static member with groupInstanceId|"
    r"Pending (dynamic )?member|Member \S+ in group|Group \S+ (could not|with generation)|"
    r"\[Group \S+\] (Pending member|Member)|"
    r"\[GroupId \S+\] (Bumped|Converted|Computed a new target|"
    r"Member \S+ (updated its subscribed topics|new assignment)))"
)


def broker_lines(log: Path, group: str, ids: Mapping[str, str]) -> list[str]:
    """What the broker has logged of the group, with names in the place of ids."""
    lines = (
        _BEGIN.sub("", line) for line in log.read_text().splitlines() if group in line and _BEGIN.match(line)
    )
    return [_plain(line, ids) for line in lines if _TOLD.match(line)]


def trace_lines(trace: Iterable[AnyEntry], ids: Mapping[str, str]) -> list[str]:
    """The same lines as the trace tells them."""
    return [_plain(line, ids) for line in _lines(trace) if _TOLD.match(line)]


def _plain(line: str, ids: Mapping[str, str]) -> str:
    for pattern, kept in _LEFT_OUT:
        line = pattern.sub(kept, line)
    for known in sorted(ids, key=len, reverse=True):
        line = re.sub(rf"(?<![\w-]){re.escape(known)}(?![\w-])", ids[known], line)
    return line


def _lines(trace: Iterable[AnyEntry]) -> Iterator[str]:
    for entry in trace:
        group = entry.group_id
        if isinstance(entry, BranchEntry) and entry.says is not None:
            yield entry.says
        elif isinstance(entry, RebalanceEntry):
            now = "PreparingRebalance"
            yield (
                f"Preparing to rebalance group {group} in state {now} with old generation {entry.generation} "
                f"(reason: {entry.reason})."
            )
        elif isinstance(entry, EpochEntry):
            yield f"[GroupId {group}] Bumped group epoch to {entry.epoch} with metadata hash {entry.metadata_hash}."
        elif isinstance(entry, AssignmentEntry) and entry.assignor is not None:
            made = f"a new target assignment for epoch {entry.epoch} with '{entry.assignor}' assignor"
            yield f"[GroupId {group}] Computed {made} in 0ms"
        elif isinstance(entry, ReconciliationEntry):
            epochs = f"epoch={entry.epoch_after}, previousEpoch={entry.epoch_before}, state={entry.after}"
            yield f"[GroupId {group}] Member {entry.member_id} new assignment state: {epochs}"
