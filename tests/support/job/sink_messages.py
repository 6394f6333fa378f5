"""What the job writes to its topics, made by its own encoders, for whoever reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from zlib import crc32

import msgspec

from groupreplay.state import Event, Group
from groupreplay.state.events.event import Severity
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.output.document import encode_document
from groupreplay.state.output.envelope import cloud_event
from groupreplay.streaming.contract.messages import StateCost
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.histories.builders import GROUP, generation, member
from support.histories.probed import PROBING, START, TWO, rounds, told
from support.job.probes import summed_up
from support.job.progress import IDENTITY, batch

#: Probes see the group rebalancing from here on.
SINCE_MS = START + 10_000
CLUSTER = PROBING.cluster_id
#: Ids of groups that a label or a screen cannot show as they are.
HOSTILE_IDS = (
    'quote"s',
    "back\\slash",
    "line\nbreak",
    "return\rhere",
    "\x00nul",
    "\x1b[31mred",
    "\u202ebidi",
    "{curly}=",
    "x" * 30_000,
    "x" * 30_001,
    "",
    "gruppe-ä-グループ",
    r"\u{a}",
)


def document(group: Group, group_id: str = GROUP, labels: dict[str, str] | None = None) -> bytes:
    """The document of ``group-states``, under any id."""
    # A copy, because a document is to be taken once.
    made = Group.from_snapshot(group.group_id, PROBING, group.snapshot()).take_document()
    assert isinstance(made, dict)
    return encode_document({**made, "group_id": group_id, "labels": labels or {}})


def events(
    said: Iterable[Event],
    group_id: str | None = GROUP,
    *,
    late_ms: int = 0,
    labels: dict[str, str] | None = None,
) -> list[bytes]:
    """The events of ``group-events``, under any id of a group, emitted so long after they happened."""
    return [
        cloud_event(
            # Another place for another group: ids are made of places.
            replace(one, group_id=one.group_id and group_id, ordinal=crc32((group_id or "").encode()) % 1000),
            replace(PROBING, labels=labels or {}),
            one.time_ms + late_ms,
        ).value
        for one in said
    ]


def counted(
    values: Iterable[bytes], written_ms: int = START, into: TopicsSnapshot | None = None
) -> TopicsSnapshot:
    """A snapshot (a new one, if none is given) that has read these events."""
    snapshot = TopicsSnapshot() if into is None else into
    for value in values:
        snapshot.take_event(value, written_ms)
    return snapshot


def stable() -> tuple[Group, list[Event]]:
    """Two members in generation 5, and what was said of it."""
    return told([generation(4, member("a", [0, 1]), at=START - 60_000), TWO], [], START + 1_000)


def stuck(*, for_ms: int = 200_000) -> tuple[Group, list[Event]]:
    """The same group in a rebalance that does not end."""
    until = SINCE_MS + for_ms
    return told([TWO], rounds(SINCE_MS, until), until)


def expired(partitions: int, *, matters: bool = True) -> Event:
    """Offsets of a group that reached the end of their retention."""
    fact = OffsetsExpired(
        partitions=(),
        partition_count=partitions,
        reason="retention",
        deadline_ms=START,
        late_ms=5_000,
        check_interval_ms=600_000,
        matters=matters,
    )
    _, said = stable()
    return replace(said[-1], fact=fact, severity=Severity.ERROR)


def job_document(at_ms: int, **changes: Any) -> bytes:
    """The job's own document, written at this moment."""
    report = JobReport(replace(IDENTITY, cluster_id=CLUSTER))
    types = {"OffsetCommit": 4, "GroupMetadata": 1}
    state = StateCost(written=6, memory_bytes=4_096, update_seconds=0.5, timer_seconds=0.25)
    report.take([batch(3, {0: 5}, record_types=types, phases={"addBatch": 1.25}, state=state)])
    report.ends = {0: 7}
    report.caught_up_ms = at_ms - 1_000
    summary = summed_up(at=at_ms - 2_000, brokers={1: None, 2: "timed out"}, partitions={}, count=None)
    report.last_round = msgspec.structs.replace(summary, cluster_id=CLUSTER, groups=1)
    return msgspec.json.encode({**msgspec.to_builtins(report.document(at_ms, 1_500)), **changes})
