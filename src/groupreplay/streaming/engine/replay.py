"""The driver without Spark: records in, events out, through the same two functions that Spark calls.

Uses no clock: an event is recorded at the time it happened, so that the same records give the same bytes.
"""

from __future__ import annotations

import heapq
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import IO, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state import Context, Group
from groupreplay.state.display.phrases import timestamp
from groupreplay.state.events.group_events import GroupQuarantined
from groupreplay.state.output.envelope import event_type
from groupreplay.state.plausible_times import UNKNOWN_MS
from groupreplay.state.snapshot.observations import CommitRun, GroupRecord
from groupreplay.streaming.contract.messages import Integer, Output, OutputRow
from groupreplay.streaming.engine import quarantine
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.binary_columns import numbers
from groupreplay.streaming.engine.packing.horizons import Horizons
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS as RECORD_COLUMNS
from groupreplay.streaming.engine.packing.pack import packed_rows
from groupreplay.streaming.engine.probe_rows import INPUT_COLUMNS, ProbeFilter, pack_probes
from groupreplay.streaming.engine.wire import BAD_RECORDS_TAG, GROUP_TAG, unpack_group
from groupreplay.streaming.kafka.topic_reader import Rows

_SPILL_BYTES: Final = 64 * 1024 * 1024
_QUARANTINED: Final = event_type(GroupQuarantined.NAME)
_SEPARATOR: Final = b"\0"
_PLACED: Final = ("partition", "offset", "timestamp")


class Replay:
    """All groups of one input. ``feed`` it the rows once, then read ``groups``.

    Memory grows with the number of groups, of committed partitions and of a prober's answers, not with the length
    of the log. ``groups`` holds the ids of the selected groups; None: all. ``until_ms`` ends the log: later records are
    ignored, but records that compaction has removed since then are missing. ``now_ms`` is the time up to which the log
    is complete, if that is later than its last record: deadlines up to then take effect.
    """

    def __init__(
        self,
        context: Context,
        groups: Container[str] | None = None,
        *,
        until_ms: int | None = None,
        now_ms: int | None = None,
    ) -> None:
        self.context = context
        self.dead_letters = 0
        self.quarantined = 0
        self._until_ms = until_ms
        self._only = groups
        self._wanted_keys: dict[bytes, bool] = {}
        self.latest_ms = 0 if now_ms is None else now_ms
        self._horizons = Horizons(self.latest_ms)
        self._blobs: dict[bytes, bytes] = {}
        self._deadlines: dict[bytes, int] = {}
        self._answers: dict[bytes, deque[_Answer]] = {}

    def feed(self, rows: Rows) -> Iterator[OutputRow]:
        """All messages that the job would write for these rows. The end of the rows is the end of the log."""
        probe_filter = ProbeFilter(topic=rows.probes_topic, cluster_id=rows.cluster_id)
        # All heartbeats are known before the first record is packed.
        messages = self._horizons.reading(rows.probes, rows.cluster_id, rows.era)
        answers = pack_probes(map(self._messages, messages), probe_filter)
        for key, blob in self._wanted((one["key"].to_pylist(), one["packed"].to_pylist()) for one in answers):
            if key.startswith(GROUP_TAG):
                (probe,) = unpack_group([blob]).probes
                self._answers.setdefault(key, deque()).append(_Answer(probe.heard_ms, blob))
            else:
                yield from self._advance(key, [blob], now_ms=0)
        records = packed_rows(map(self._columns, rows.batches), self._horizons)
        for key, blob in self._wanted((one.keys, one.packed) for one in records):
            yield from self._advance(key, [*self._answers_before(key, blob), blob], now_ms=0)
        now_ms = self.latest_ms + 1
        for key in list({**self._blobs, **self._answers}):
            left = [answer.packed for answer in self._answers.pop(key, ())]
            if left or self._deadlines.get(key, now_ms + 1) <= now_ms:
                yield from self._advance(key, left, now_ms=now_ms)

    @property
    def group_count(self) -> int:
        """How many groups the log has, with those that were deleted."""
        return sum(key.startswith(GROUP_TAG) for key in self._blobs)

    def groups(self) -> Iterator[Group]:
        """The groups at the end of the log, by name."""
        for key in sorted(self._blobs):
            if key.startswith(GROUP_TAG) and quarantine.read(self._blobs[key]) is None:
                yield Group.from_snapshot(key[len(GROUP_TAG) :].decode(), self.context, self._blobs[key])

    def wants(self, group_id: str) -> bool:
        """Whether this group is selected; events about bad records may name others."""
        return self._only is None or group_id in self._only

    def _wanted(self, rows: Iterable[tuple[list[bytes], list[bytes]]]) -> Iterator[tuple[bytes, bytes]]:
        """(key, packed) of the selected groups and of bad records."""
        for pair in chain.from_iterable(zip(*columns, strict=True) for columns in rows):
            if self._only is None or self._wants_key(pair[0]):
                yield pair

    def _wants_key(self, key: bytes) -> bool:
        found = self._wanted_keys.get(key)
        if found is None:
            is_group = key.startswith(GROUP_TAG)
            found = (
                self.wants(key[len(GROUP_TAG) :].decode()) if is_group else key.startswith(BAD_RECORDS_TAG)
            )
            self._wanted_keys[key] = found
        return found

    def _answers_before(self, key: bytes, records: bytes) -> list[bytes]:
        """The answers about a group up to the time of the last of these records.

        Not all at once: of the answers that wait in a state, only the first and the last are kept. And not those after
        the caught-up time, because a clock that is ahead must not be given the answers of a day.
        """
        answers = self._answers.get(key)
        if not answers:
            return []
        last_ms = max(map(self._at_most_caught_up_ms, unpack_group([records]).items))
        before = list[bytes]()
        while answers and answers[0].heard_ms <= last_ms:
            before.append(answers.popleft().packed)
        return before

    def _at_most_caught_up_ms(self, item: CommitRun | GroupRecord) -> int:
        caught_up_ms = self._horizons.first_ms(item.partition, item.last_offset)
        return min(item.last_ms, caught_up_ms) if caught_up_ms > UNKNOWN_MS else item.last_ms

    def _columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = self._of_the_time(batch)
        if (pc.max(kept.column("timestamp")).as_py() or 0) > self.latest_ms:
            partition, offset, times_ms = (numbers(kept.column(name)) for name in _PLACED)
            for number in np.unique(partition).tolist():
                mine = partition == number
                latest_ms = self._horizons.latest_ms(number, offset[mine], times_ms[mine])
                self.latest_ms = max(self.latest_ms, latest_ms)
        return kept.select([*_PLACED, "key", "value"]).rename_columns(list(RECORD_COLUMNS))

    def _messages(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = self._of_the_time(batch)
        latest_ms = pc.max(kept.column("timestamp")).as_py() or 0
        # A message has no caught-up time of its own.
        self.latest_ms = max(self.latest_ms, min(latest_ms, self._horizons.last_limit_ms()))
        return kept.select(list(INPUT_COLUMNS))

    def _of_the_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows up to the end of the log."""
        if self._until_ms is None:
            return batch
        return batch.filter(pc.less_equal(batch.column("timestamp"), self._until_ms))

    def _advance(self, key: bytes, packed: list[bytes], *, now_ms: int) -> Iterator[OutputRow]:
        result = advance(
            key, self._blobs.get(key), packed, now_ms=now_ms, recorded_ms=None, context=self.context
        )
        if result.removable or result.blob is None:
            self._blobs.pop(key, None)
        elif result.changed:
            self._blobs[key] = result.blob
        if result.deadline_ms is None:
            self._deadlines.pop(key, None)
        else:
            self._deadlines[key] = result.deadline_ms
        if any(row.event_type == _QUARANTINED for row in result.rows):
            self.quarantined += 1
        else:
            self.dead_letters += sum(row.output is Output.DEAD_LETTERS for row in result.rows)
        yield from result.rows


class _Answer(NamedTuple):
    """A prober's answer about a group, as ``pack_probes`` makes it."""

    heard_ms: int
    packed: bytes


class EventHead(msgspec.Struct):
    """The attributes of a CloudEvent that decide its place and whether it is selected."""

    type: str
    time: str
    sequence: str
    severitynumber: Integer


_attributes: Final = msgspec.json.Decoder(EventHead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which events are selected; times in milliseconds, ``until_ms`` excluded; None for all."""

    types: Collection[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    least_severity: int = 0

    def __call__(self, event: EventHead) -> bool:
        """Whether an event is selected."""
        return (
            (self.types is None or event.type in self.types)
            and event.severitynumber >= self.least_severity
            and (self.since_ms is None or event.time >= timestamp(self.since_ms))
            and (self.until_ms is None or event.time < timestamp(self.until_ms))
        )


def events_in_order(rows: Iterable[OutputRow], wanted: Callable[[EventHead], bool]) -> Iterator[bytes]:
    """The selected CloudEvents among the rows, by time and then by their place in the log.

    The replay yields the events group by group, so they are sorted here: in memory while they are few, else in
    temporary files that are merged.
    """
    held: list[bytes] = []
    size = 0
    with ExitStack() as stack:
        runs: list[IO[bytes]] = []
        for row in rows:
            if row.output is not Output.EVENTS or row.value is None:
                continue
            event = _attributes.decode(row.value)
            if not wanted(event):
                continue
            # JSON has neither raw NUL nor raw line ends, so whole lines sort as their keys do.
            line = f"{event.time}/{event.sequence}".encode() + _SEPARATOR + row.value + b"\n"
            held.append(line)
            size += len(line)
            if size >= _SPILL_BYTES:
                runs.append(stack.enter_context(tempfile.TemporaryFile(prefix="groupreplay-events-")))
                runs[-1].writelines(sorted(held))
                runs[-1].seek(0)
                held, size = [], 0
        for line in heapq.merge(*runs, sorted(held)):
            yield line.partition(_SEPARATOR)[2].rstrip(b"\n")
