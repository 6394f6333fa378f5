"""What a capture says beside its records: about the cluster, and which offsets and times each partition has.

It is stored in the metadata of the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.phrases import safe_text
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.policy.context import OwnSettings
from groupreplay.streaming.config.retention import Retention, of_brokers, parsed_release
from groupreplay.streaming.contract.log import LogExtent, numbers
from groupreplay.streaming.contract.messages import Integer, MessageDecoder

log = logging.getLogger(__name__)

#: Key in the metadata of a Parquet file: a ``CaptureContext`` as JSON. Written last.
CONTEXT: Final = b"groupreplay.context"
FORMAT: Final = "groupreplay.capture.v1"
#: A file that anybody may have written must not move the end of the log beyond the times that records can have.
_Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)]
_Duration: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class PartitionExtent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a capture holds of one partition.

    ``log_start`` and ``log_end`` are the offsets that the broker named (None: not asked): its first, and the one after
    its last. ``missing`` is the number of offsets between the two (or between the first and the last record) without a
    record. Compaction removes records, and transactions leave offsets that no consumer receives: one for each marker,
    and those of aborted commits. ``gaps`` counts missing stretches of at least two offsets.
    """

    topic: str
    partition: Integer
    records: Integer = 0
    first_offset: Integer | None = None
    last_offset: Integer | None = None
    first_ms: Integer | None = None
    last_ms: Integer | None = None
    log_start: Integer | None = None
    log_end: Integer | None = None
    missing: Integer = 0
    gaps: Integer = 0

    @property
    def compacted(self) -> Literal["no", "yes", "possibly"]:
        """``no``: every offset has its record; ``possibly``: single offsets have none, as markers leave them."""
        return "yes" if self.gaps else "possibly" if self.missing else "no"


class CaptureContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Context of a capture; what is None or empty was not known.

    Times in milliseconds since 1970. ``tool`` is the program and its release, ``command`` the one that wrote the file.
    The log is complete up to ``complete_ms`` by the clock of the machine that ran it; the file was begun at
    ``begun_ms``. ``brokers`` is the release of the brokers, ``partitions`` the number of the offsets topic's,
    ``topic_settings`` its configuration. ``sessions``: by type of group, the brokers' session timeout, the least
    one, and the heartbeat interval. ``group_settings``: by group of a newer kind, what it has set for itself, by
    Kafka's names; a group in the file that is missing there has set nothing. ``probes`` is the topic of the prober's
    answers (None: none was read).
    """

    format: str = FORMAT
    tool: str = ""
    command: str = ""
    begun_ms: _Moment | None = None
    complete_ms: _Moment | None = None
    brokers: str | None = None
    retention_ms: _Duration | None = None
    check_interval_ms: _Duration | None = None
    sessions: Mapping[str, tuple[_Duration, _Duration, _Duration]] = {}
    group_settings: Mapping[str, Mapping[str, _Duration]] | None = None
    partitions: Integer | None = None
    topic_settings: Mapping[str, str] = {}
    probes: str | None = None
    extents: Sequence[PartitionExtent] = ()

    def of_log(self) -> list[PartitionExtent]:
        """The extents of the offsets topic."""
        return [one for one in self.extents if one.topic == OFFSETS_TOPIC]


_decoder: Final = MessageDecoder[CaptureContext](CaptureContext)


def decoded_context(metadata: Mapping[bytes, bytes] | None) -> CaptureContext | None:
    """The context in the metadata of a file; None if there is none, or one of another format."""
    found = _decoder.decode((metadata or {}).get(CONTEXT))
    return found if found is not None and found.format == FORMAT else None


def retention_of(context: CaptureContext) -> Retention:
    """What the capture has of the brokers: retention of offsets, release, and session timeouts, also of groups."""
    release = None if context.brokers is None else parsed_release(context.brokers)
    if context.brokers is not None and release is None:
        named = safe_text(context.brokers)
        log.warning("the capture names its brokers %r, which is no release of Kafka", named)
    return Retention(
        retention_ms=context.retention_ms,
        check_interval_ms=context.check_interval_ms,
        broker_release=release,
        sessions={kind: of_brokers(*settings) for kind, settings in context.sessions.items()},
        own_settings=None if context.group_settings is None else OwnSettings(context.group_settings),
    )


def latest_context(contexts: Iterable[CaptureContext | None]) -> CaptureContext | None:
    """The context of the capture that was taken last, with what only others know; None if no file has one."""
    contexts = list(contexts)
    known = sorted((one for one in contexts if one is not None), key=lambda one: one.complete_ms or 0)
    if not known:
        return None
    merged = dict[str, object]()
    for one in known:
        merged |= {
            name: value
            for name, value in msgspec.structs.asdict(one).items()
            if value is not None and value not in ("", (), {})
        }
    merged["group_settings"] = _merged_settings(contexts)
    merged["extents"] = _merged_extents([extent for one in known for extent in one.extents])
    return CaptureContext(**merged)  # type: ignore[arg-type]


def _merged_settings(
    contexts: Sequence[CaptureContext | None],
) -> Mapping[str, Mapping[str, int]] | None:
    """The settings of the groups of all files; None if nobody asked about those of one."""
    merged = dict[str, Mapping[str, int]]()
    for context in contexts:
        if context is None or context.group_settings is None:
            return None
        merged |= context.group_settings
    return merged


def _merged_extents(extents: Sequence[PartitionExtent]) -> Sequence[PartitionExtent]:
    """The extents, if no partition occurs twice: those of overlapping files can only be counted by reading them."""
    places = {(one.topic, one.partition) for one in extents}
    return tuple(extents) if len(places) == len(extents) else ()


@dataclass(slots=True)
class _Counted:
    first_offset: int
    last_offset: int
    extent: LogExtent = field(default_factory=LogExtent)
    missing: int = 0
    gaps: int = 0


@dataclass(slots=True)
class ExtentCounter:
    """Takes the batches of each partition in the order of its offsets; then ``extents`` are known."""

    _found: dict[tuple[str, int], _Counted] = field(default_factory=dict)
    _bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows of one partition of one topic."""
        if not batch.num_rows:
            return
        place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        offsets = numbers(batch.column("offset"))
        counted = self._found.get(place)
        if counted is None:
            counted = self._found[place] = _Counted(int(offsets[0]), int(offsets[0]) - 1)
        skipped = np.diff(offsets, prepend=counted.last_offset) - 1
        counted.extent.add(batch)
        counted.missing += int(skipped.sum())
        counted.gaps += int((skipped > 1).sum())
        counted.last_offset = int(offsets[-1])

    def note_bounds(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """The bounds of partitions of a topic as the broker names them: the first offset, and the one after the last.

        With them, partitions without a record are listed, too, and what is missing before the first and after the last
        record counts.
        """
        self._bounds |= {(topic, number): (start, ends[number]) for number, start in starts.items()}

    def extents(self) -> list[PartitionExtent]:
        """The extents by topic and partition."""
        return [self._extent(place) for place in sorted({*self._found, *self._bounds})]

    def _extent(self, place: tuple[str, int]) -> PartitionExtent:
        topic, partition = place
        start, end = self._bounds.get(place, (None, None))
        counted = self._found.get(place)
        if counted is None:
            missing = 0 if start is None or end is None else end - start
            return PartitionExtent(
                topic=topic,
                partition=partition,
                log_start=start,
                log_end=end,
                missing=missing,
                gaps=int(missing > 1),
            )
        before = 0 if start is None else max(0, counted.first_offset - start)
        after = 0 if end is None else max(0, end - counted.last_offset - 1)
        return PartitionExtent(
            topic=topic,
            partition=partition,
            records=counted.extent.records,
            first_offset=counted.first_offset,
            last_offset=counted.last_offset,
            first_ms=counted.extent.first_ms,
            last_ms=counted.extent.last_ms,
            log_start=start,
            log_end=None if end is None else max(end, counted.last_offset + 1),
            missing=counted.missing + before + after,
            gaps=counted.gaps + (before > 1) + (after > 1),
        )
