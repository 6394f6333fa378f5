"""Groups that are active are read ahead of the others, and nothing else changes."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, repeat
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark.sql.streaming.datasource", reason="data sources that bound a batch: Spark 4.2")

from groupreplay.codecs import GroupMetadataKey, encode_key
from groupreplay.state import Group
from groupreplay.state.snapshot.observations import CommitRun
from groupreplay.streaming.contract.log import with_units
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, pack
from groupreplay.streaming.engine.wire import BAD_RECORDS_TAG, GROUP_TAG, unpack_bad_records, unpack_group
from groupreplay.streaming.spark.active_groups import groups_to_read_ahead, records_of, rows_of
from groupreplay.streaming.spark.log_offsets import ActiveGroups, Span
from groupreplay.streaming.spark.log_source import LogPlan, LogReader
from support.histories.raw_records import Raw
from support.histories.strategies import histories
from support.job.captures import in_bytes, rows_batch
from support.model.consumer_lives import NAMED

PARTITIONS = 3
GROUPS = tuple(f"group-{number}" for number in range(6))
PLAN = LogPlan(servers="h:1", properties={}, topic="t", partitions=PARTITIONS, max_offsets=6, tasks=2)
#: A record of the first group that no version of Kafka has written.
BROKEN = encode_key(GroupMetadataKey(group=GROUPS[0])), b"\x00\x00\x00\x07broken"


@st.composite
def written(draw: Any) -> list[Raw]:
    """Histories of several groups, in the order of their times, with offsets that compaction has removed."""
    of_groups = [(group, draw(histories())) for group in GROUPS[: draw(st.integers(2, len(GROUPS)))]]
    records = [
        (raw.at, number % PARTITIONS, *in_bytes(replace(raw, key=replace(raw.key, group=group))))
        for number, (group, history) in enumerate(of_groups)
        for raw in history
    ]
    records += [(at, at % PARTITIONS, *BROKEN) for at in draw(st.lists(st.integers(0, 60_000), max_size=3))]
    offsets: Counter[int] = Counter()
    log = []
    for at_ms, partition, key, value in sorted(records, key=lambda record: record[0]):
        offsets[partition] += draw(st.integers(1, 3))
        log.append(Raw(partition, offsets[partition], at_ms, key, value))
    return log


@dataclass
class Reading:
    """A log that grows, read by ``LogReader`` as Spark would, and what the calls for each key have come to."""

    log: Sequence[Raw]
    plan: LogPlan
    states: dict[bytes, bytes | None] = field(default_factory=dict)
    events: defaultdict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    bad: defaultdict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[int] = field(default_factory=Counter)
    #: Records that each group was handed.
    handed: Counter[bytes] = field(default_factory=Counter)

    def reader(self, visible: int) -> LogReader:
        """Of a new process, which finds so many records."""
        reader = LogReader(self.plan)
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for record in self.log[:visible]:
            ends[record.partition] = record.offset + 1
        firsts = dict.fromkeys(ends, 0)
        reader.__dict__["_connection"] = SimpleNamespace(
            first_offsets=lambda *_: firsts, end_offsets=lambda *_: ends
        )
        return reader

    def read_log(
        self, _: object, spans: Sequence[Span], *others: object, **named: object
    ) -> Iterator[pa.RecordBatch]:
        """In place of ``read_log``."""
        for number, start, end in spans:
            rows = [
                record for record in self.log if record.partition == number and start <= record.offset < end
            ]
            if rows:
                yield rows_batch(rows)

    def batch(self, reader: LogReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> None:
        """One call for each key with rows in the batch."""
        packed: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for task in reader.partitions(dict(start), dict(end)):
            for rows in reader.read(task):
                for key, blob, counts in zip(*(rows[at].to_pylist() for at in (0, 1, 3)), strict=True):
                    packed[key].append(blob)
                    self.counts.update(dict(enumerate(counts or ())))
        for key, blobs in packed.items():
            if key.startswith(BAD_RECORDS_TAG):
                self.bad[key] += [bad.record.offset for bad in unpack_bad_records(blobs)]
            if key.startswith(GROUP_TAG):
                self.call(key, blobs, 0)

    def call(self, key: bytes, packed: Sequence[bytes], now_ms: int) -> None:
        """A call of the operator."""
        for item in unpack_group(packed).items:
            self.handed[key] += item.extent.commits if isinstance(item, CommitRun) else 1
        state = self.states.get(key)
        result = advance(key, state, packed, now_ms=now_ms, recorded_ms=None, context=NAMED)
        self.states[key] = None if result.removable else result.blob
        self.events[key] += [row.value for row in result.rows if row.output is Output.EVENTS and row.value]

    def to_end(self, visible: Iterator[int], restarts: Iterator[bool]) -> dict[str, Any]:
        """Reads until nothing is left, then lets time pass; the events, states, unusable records and counts."""
        reader = self.reader(shown := next(visible))
        place = reader.initialOffset()
        while True:
            reader = self.reader(shown) if next(restarts) else reader
            end = reader.latestOffset(place, reader.getDefaultReadLimit())
            if end == place and shown == len(self.log):
                break
            # The batch of a process that has died is planned by nobody again.
            self.batch(self.reader(shown) if next(restarts) else reader, place, end)
            place, shown = end, next(visible)
            reader.__dict__["_connection"] = self.reader(shown)._connection
        assert place.keys() == {"t"}
        for key in sorted(self.states):
            self.call(key, [], 10**12)
        return {
            "events": {key: events for key, events in self.events.items() if events},
            "groups": {key: described(key, state) for key, state in self.states.items() if state is not None},
            "bad": {key: sorted(offsets) for key, offsets in self.bad.items()},
            "counts": +self.counts,
            "handed": self.handed,
        }


def described(key: bytes, state: bytes) -> dict[str, Any]:
    """A group as ``describe`` shows it."""
    return Group.from_snapshot(key[len(GROUP_TAG) :].decode(), NAMED, state).describe()


@pytest.fixture
def reading_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Raw]], Reading]:
    """Makes a reading of a log, without brokers."""

    def reading(log: Sequence[Raw], active: ActiveGroups | None = None, **plan: Any) -> Reading:
        made = Reading(log, replace(PLAN, **plan))
        monkeypatch.setattr("groupreplay.streaming.sources.topic.read_log", made.read_log)
        monkeypatch.setattr("groupreplay.streaming.spark.log_source._open_log", lambda *_: None)
        monkeypatch.setattr(
            "groupreplay.streaming.spark.active_groups.groups_to_read_ahead", lambda *_: active
        )
        return made

    return reading


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=written(), active=st.sets(st.sampled_from(GROUPS)), data=st.data())
def test_every_group_has_all_of_its_records_once(
    reading_of: Callable[..., Reading], log: list[Raw], active: set[str], data: st.DataObject
) -> None:
    """Whoever is read ahead, while the log grows and processes die: the same events, groups, counts, bad records."""
    whole = reading_of(log, max_offsets=10**9).to_end(repeat(len(log)), repeat(False))
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    ahead = ActiveGroups.of(name.encode() for name in active)
    reading = reading_of(log, ahead, long_log=0)
    most = chance.choice((2, 5, 20, len(log)))
    visible = accumulate(
        (chance.randint(0, most) for _ in count()), lambda shown, more: min(len(log), shown + more)
    )
    assert reading.to_end(visible, (chance.random() < 0.3 for _ in count())) == whole


def test_how_far_the_log_was_read_for_active_groups() -> None:
    """An operation of one of them is over when any record follows it, of whatever group; that record is not theirs."""
    names = ("resting", "active", "resting")
    keys = [encode_key(GroupMetadataKey(group=name)) for name in names]
    batch = rows_batch([Raw(0, offset, 1_000, key, None) for offset, key in enumerate(keys)])
    active = ActiveGroups.of([b"active"])
    (chosen,) = records_of(active, [batch])
    assert chosen["offset"].to_pylist() == [1, 2]
    (rows,) = rows_of(active, pack([with_units(chosen, INPUT_COLUMNS)]))
    assert rows["key"].to_pylist() == [GROUP_TAG + b"active"]
    assert unpack_group(rows["packed"].to_pylist()).seen_to == 2


NOW_MS = 1_800_000_000_000
RECENT_MS = NOW_MS - 119_000


def chosen(records: Sequence[tuple[str, int]]) -> ActiveGroups | None:
    """Which of the groups are read ahead, of a partition with a record of each of these groups and times."""
    log = [
        Raw(0, offset, at_ms, encode_key(GroupMetadataKey(group=group)), None)
        for offset, (group, at_ms) in enumerate(records)
    ]
    log.append(Raw(0, len(log), NOW_MS, None, None))

    def read(spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        return (rows_batch([one for one in log if start <= one.offset < end]) for _, start, end in spans)

    return groups_to_read_ahead(read, [(0, 0, len(log))], NOW_MS)


def test_groups_of_the_last_two_minutes_are_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a record that is dated ahead; but none if there are too many, or if most of the log is theirs."""
    resting = [(f"resting-{number}", NOW_MS - 121_000) for number in range(20)]
    active = [("a", RECENT_MS), ("b", NOW_MS + 10**9)]
    assert chosen(resting) is None
    assert chosen([*resting, *active]) == ActiveGroups.of([b"a", b"b"])
    # From the middle on most records are theirs.
    assert chosen([*resting, *active * 10]) is None
    monkeypatch.setattr("groupreplay.streaming.spark.active_groups._MOST_GROUPS", 1)
    assert chosen([*resting, *active]) is None
    assert chosen([*resting, active[0]]) == ActiveGroups.of([b"a"])
