"""The driver without Spark: batches of records in, events and documents out, through the functions that Spark calls.

Uses no clock: an event is recorded at the time it happened, so that the same records give the same bytes.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state import Context, Group
from groupreplay.state.events.group_events import GroupQuarantined
from groupreplay.state.output.envelope import event_type
from groupreplay.state.plausible_times import UNKNOWN_MS
from groupreplay.streaming.contract.log import numbers, with_units
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine import quarantine
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS as RECORD_COLUMNS
from groupreplay.streaming.engine.packing.pack import packed_rows
from groupreplay.streaming.engine.packing.record_times import Horizons
from groupreplay.streaming.engine.probe_rows import INPUT_COLUMNS, ProbeFilter, pack_probes
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    DOCUMENT_WANTED,
    GROUP_TAG,
    PackedDocumentRequest,
    PackedItem,
    packed_groups,
    to_wire,
    unpack_probe,
)
from groupreplay.streaming.sources.source import Rows

_QUARANTINED: Final = event_type(GroupQuarantined.NAME)
_PLACED: Final = ("partition", "offset", "timestamp")


class Live:
    """All groups of one log, as far as it was read: ``take`` the next batch, and ``tick`` when time has passed.

    The events, and the last document of each group but for the place and time of its last commit, do not depend on how
    the log is divided into batches, nor on the ticks between them, if these keep what they promise: after
    ``tick(now_ms)`` comes no record or answer from before that time. An answer of the prober comes with a batch before
    the records that are later than it, or in the same. Times that cannot be are judged by the heartbeats read so far.
    So are the coordinators' clocks, of which a batch shows one record a partition: their conditions depend on it.

    Memory grows with the number of groups, of committed partitions and of answers that wait, not with the length of
    the log. ``groups`` holds the ids of the selected groups; None: all. ``until_ms``: later records and messages are
    ignored. ``otherwise_ms``: see ``Horizons``. What it remembers can be kept elsewhere: ``changes`` and ``waiting``
    give it, ``restore`` takes it back.
    """

    def __init__(
        self,
        context: Context,
        groups: Container[str] | None = None,
        *,
        until_ms: int | None = None,
        otherwise_ms: int = UNKNOWN_MS,
    ) -> None:
        self.context = context
        self.dead_letters = 0
        self.quarantined = 0
        #: The time of the last record, or message, that can be; 0 before the first one.
        self.latest_ms = 0
        self._until_ms = until_ms
        #: The ids of the selected groups; None: all, and what the job says of itself, which is of no group.
        self.only = None if isinstance(groups, GroupChoice) and not groups.patterns else groups
        self._wanted_keys: dict[bytes, bool] = {}
        self._horizons = Horizons(otherwise_ms)
        self._blobs: dict[bytes, bytes] = {}
        self._deadlines: dict[bytes, int] = {}
        self._answers: dict[bytes, deque[WaitingAnswer]] = {}
        self._changed: set[bytes] = set()

    def take(
        self, rows: Rows, read_ms: int | None = None, *, pending: Iterable[WaitingAnswer] = ()
    ) -> Iterator[OutputRow]:
        """The messages that the job would write for the next rows of the log; they must be read to their end.

        ``read_ms``: they were all read at this time, which judges their times in place of heartbeats. ``pending``:
        what else is known of groups, as if a prober had said it.
        """
        probe_filter = ProbeFilter(topic=rows.probes_topic, cluster_id=rows.cluster_id)
        messages = iter(rows.probes)
        if read_ms is None:
            # All heartbeats are known before the first record is packed.
            messages = self._horizons.reading(messages, rows.cluster_id, rows.era)
        else:
            self._horizons = Horizons(read_ms)
        answers = pack_probes(map(self._messages, messages), probe_filter)
        packed_answers = ((batch["key"].to_pylist(), batch["packed"].to_pylist()) for batch in answers)
        for key, blob in self._wanted(packed_answers):
            if key.startswith(GROUP_TAG):
                waiting = WaitingAnswer(key, unpack_probe(blob).heard_ms, blob)
                self._answers.setdefault(key, deque()).append(waiting)
            else:
                yield from self._advance(key, [blob], now_ms=0)
        for answer in pending:
            insort(self._answers.setdefault(answer.key, deque()), answer, key=attrgetter("heard_ms"))
        records = packed_rows(map(self._columns, rows.batches), self._horizons)
        chunks = self._wanted((chunk.keys, chunk.packed) for chunk in records)
        yield from self.apply(Call(key, [*self._answers_before(key, blob), blob]) for key, blob in chunks)

    def apply(self, calls: Iterable[Call]) -> Iterator[OutputRow]:
        """The messages that follow from packed rows; must be read to its end."""
        for key, packed in calls:
            yield from self._advance(key, packed, now_ms=0)

    def tick(self, now_ms: int) -> Iterator[OutputRow]:
        """The messages for what time alone has done: everything from before ``now_ms`` was taken.

        Answers from before take effect, operations are closed, and deadlines pass.
        """
        return self._pass(now_ms, now_ms)

    def changes(self) -> Iterator[KeyState]:
        """The state of each key that has changed since the last call."""
        changed, self._changed = self._changed, set()
        for key in sorted(changed):
            yield KeyState(key, self._blobs.get(key), self._deadlines.get(key))

    def waiting(self) -> list[WaitingAnswer]:
        """The answers that wait, in their order for each group."""
        return list(chain.from_iterable(self._answers.values()))

    def restore(self, states: Iterable[KeyState], waiting: Iterable[WaitingAnswer] = ()) -> None:
        """Goes on where another one with these states and answers ended; call it before the first rows."""
        for key, blob, deadline_ms in states:
            if blob is not None:
                self._blobs[key] = blob
            if deadline_ms is not None:
                self._deadlines[key] = deadline_ms
        for answer in waiting:
            self._answers.setdefault(answer.key, deque()).append(answer)

    def hand_over(self, key: bytes) -> KeyState:
        """The state of a key, which is not kept here any more until ``take_back``."""
        return KeyState(key, self._blobs.pop(key, None), self._deadlines.pop(key, None))

    def take_back(self, states: Sequence[KeyState]) -> None:
        """Keep these states again, which may have changed."""
        self.restore(states)
        self._changed.update(state.key for state in states)

    def documents(self) -> Iterator[OutputRow]:
        """The documents of all groups, and those of the job, as a new reader of them needs them."""
        for key in sorted(self._blobs):
            is_group = key.startswith(GROUP_TAG)
            wanted = to_wire(PackedDocumentRequest(in_topic=False)) if is_group else DOCUMENT_WANTED
            # No deadline passes at that time.
            yield from self._advance(key, [wanted], now_ms=1)

    def _pass(self, now_ms: int, answers_until_ms: int | None) -> Iterator[OutputRow]:
        """``answers_until_ms`` None: all answers that wait."""
        for key in sorted({*self._blobs, *self._answers}):
            left = self._answers.get(key, deque())
            heard = list[bytes]()
            while left and (answers_until_ms is None or left[0].heard_ms < answers_until_ms):
                heard.append(left.popleft().packed)
            if heard or self._deadlines.get(key, now_ms + 1) <= now_ms:
                yield from self._advance(key, heard, now_ms=now_ms)

    @property
    def group_count(self) -> int:
        """How many groups the log has, with those that were deleted."""
        return sum(key.startswith(GROUP_TAG) for key in self._blobs)

    def group(self, group_id: str) -> Group | None:
        """One group, from any thread; None: there is none, or it was set aside."""
        blob = self._blobs.get(GROUP_TAG + group_id.encode())
        if blob is None or quarantine.read(blob) is not None:
            return None
        return Group.from_snapshot(group_id, self.context, blob)

    def groups(self) -> Iterator[Group]:
        """The groups as far as the log was read, by name."""
        for key in sorted(self._blobs):
            if key.startswith(GROUP_TAG) and quarantine.read(self._blobs[key]) is None:
                yield Group.from_snapshot(key[len(GROUP_TAG) :].decode(), self.context, self._blobs[key])

    def wants(self, group_id: str) -> bool:
        """Whether this group is selected; events about bad records may name others."""
        return self.only is None or group_id in self.only

    def _wanted(self, rows: Iterable[tuple[list[bytes], list[bytes]]]) -> Iterator[tuple[bytes, bytes]]:
        """(key, packed) of the selected groups and of bad records; without a selection, of all keys."""
        for pair in chain.from_iterable(zip(*columns, strict=True) for columns in rows):
            if self.only is None or self._wants_key(pair[0]):
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
        last_ms = max(
            self._at_most_caught_up_ms(group.partition, item)
            for group in packed_groups([records])
            for item in group.items
        )
        before = list[bytes]()
        while answers and answers[0].heard_ms <= last_ms:
            before.append(answers.popleft().packed)
        return before

    def _at_most_caught_up_ms(self, partition: int, item: PackedItem) -> int:
        caught_up_ms = self._horizons.first_ms(partition, item.last_offset)
        return min(item.last_ms, caught_up_ms) if caught_up_ms > UNKNOWN_MS else item.last_ms

    def _columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = self._of_the_time(batch)
        if (pc.max(kept.column("timestamp")).as_py() or 0) > self.latest_ms:
            partition, offset, times_ms = (numbers(kept.column(name)) for name in _PLACED)
            for number in np.unique(partition).tolist():
                mine = partition == number
                latest_ms = self._horizons.latest_ms(number, offset[mine], times_ms[mine])
                self.latest_ms = max(self.latest_ms, latest_ms)
        return with_units(kept, RECORD_COLUMNS)

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
        self._changed.add(key)
        if any(row.event_type == _QUARANTINED for row in result.rows):
            self.quarantined += 1
        else:
            self.dead_letters += sum(row.output is Output.DEAD_LETTERS for row in result.rows)
        yield from result.rows


class KeyState(NamedTuple):
    """What is remembered of one tagged key: its state (None: none), and when it is evaluated next (None: never)."""

    key: bytes
    blob: bytes | None
    deadline_ms: int | None


class Call(NamedTuple):
    """Packed rows of a tagged key, in their order."""

    key: bytes
    packed: list[bytes]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(map(len, self.packed))


class WaitingAnswer(NamedTuple):
    """A prober's answer about the group of a tagged key, as ``pack_probes`` makes it."""

    key: bytes
    heard_ms: int
    packed: bytes
