"""Wrong times in records: cuts into batches and restarts do not matter, and a replay gives what the job gives."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import GroupMetadataValue, OffsetCommitValue
from groupreplay.state import Context, Group
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.contract.probe_messages import GroupAnswer, HeartbeatMessage
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import GROUP, PARTITION, Raw
from support.histories.raw_records import Raw as RawBytes
from support.histories.strategies import WrittenLog, histories, logs
from support.job.captures import CLUSTER_ID, ERA, in_bytes, write_capture
from support.job.packed import packed_by_key
from support.job.probes import PROBES, asked, probes_batch
from support.job.replays import events_of
from support.model.consumer_lives import NAMED

CONTEXT = replace(NAMED, cluster_id=CLUSTER_ID, era=ERA)
#: The same beside a prober.
PROBED = replace(CONTEXT, probing=True)
DAY = 86_400_000
KEY = b"g:" + GROUP.encode()
MALFORMED = "record.malformed"
BAD = b"x:" + str(PARTITION).encode()
#: What is added to a record's time; None: the record has no timestamp.
SHIFTS: Sequence[int | None] = (0, 0, 0, 50_000, 70_000, 3_600_000, DAY - 1, 2 * DAY, 2**60, -(2**60), None)


def wrong_times(data: st.DataObject, records: Sequence[Raw]) -> list[RawBytes]:
    """The bytes of the records; the times of some operations, and of some values, are wrong."""
    shifts: dict[int, int | None] = {}
    rows = []
    for one in records:
        if one.at not in shifts:
            shifts[one.at] = data.draw(st.sampled_from(SHIFTS))
        shift = shifts[one.at]
        inside = data.draw(st.sampled_from((shift or 0, shift or 0, 0, 2**60, -5)))
        value = one.value
        if isinstance(value, OffsetCommitValue):
            value = replace(value, commit_timestamp_ms=value.commit_timestamp_ms + inside)
        elif isinstance(value, GroupMetadataValue):
            value = replace(value, current_state_timestamp_ms=value.current_state_timestamp_ms + inside)
        at_ms = -1 if shift is None else one.at + shift
        rows.append(RawBytes(PARTITION, one.offset, at_ms, *in_bytes(replace(one, value=value))))
    return rows


class Answer(NamedTuple):
    """A prober's answer, with its place in the topic, and when the broker appended it."""

    offset: int
    appended_ms: int
    message: GroupAnswer


def answer_rows(answers: Sequence[Answer]) -> list[pa.RecordBatch]:
    """The topic of probes; a batch for each answer."""
    return [
        probes_batch([one.message], append_ms=one.appended_ms, first_offset=one.offset) for one in answers
    ]


def packed_answers(answers: Sequence[Answer]) -> list[bytes]:
    """The answers as the query gets them."""
    probe_filter = ProbeFilter(topic=PROBES, cluster_id=CLUSTER_ID)
    rows = (row for batch in pack_probes(answer_rows(answers), probe_filter) for row in batch.to_pylist())
    return [row["packed"] for row in rows if row["packed"] is not None]


@dataclass
class Job:
    """The state and the events of the job after some batches, with a restart after each."""

    caught_up_ms: int
    context: Context = CONTEXT
    blob: bytes | None = None
    bad: bytes | None = None
    deadline_ms: int | None = None
    removable: bool = False
    rows: list[OutputRow] = field(default_factory=list)
    bad_rows: list[OutputRow] = field(default_factory=list)

    def batch(self, rows: Sequence[RawBytes], answers: Sequence[Answer] = (), now_ms: int = 0) -> None:
        """One batch."""
        packed = packed_by_key(rows, caught_up_ms=self.caught_up_ms)
        mine = [*packed.get(KEY, ()), *packed_answers(answers)]
        if mine:
            self.call(mine, now_ms)
        if BAD in packed:
            result = advance(BAD, self.bad, packed[BAD], now_ms=0, recorded_ms=None, context=self.context)
            self.bad = result.blob
            self.bad_rows += result.rows

    def call(self, packed: Sequence[bytes], now_ms: int) -> None:
        """One call for the group."""
        result = advance(KEY, self.blob, packed, now_ms=now_ms, recorded_ms=None, context=self.context)
        self.blob, self.deadline_ms, self.removable = result.blob, result.deadline_ms, result.removable
        self.rows += result.rows

    def malformed(self) -> list[Any]:
        """The events about records."""
        return events_of(self.bad_rows)

    def end(self, now_ms: int) -> tuple[list[Any], Any]:
        """The events and the group at the end of the log."""
        if self.deadline_ms is not None and self.deadline_ms <= now_ms:
            self.call([], now_ms)
        assert self.blob is not None
        return events_of(self.rows), Group.from_snapshot(GROUP, self.context, self.blob).describe()


every_log = pytest.mark.parametrize(
    "log_of", [histories().map(WrittenLog), logs()], ids=["arbitrary classic", "written by a coordinator"]
)


@every_log
@given(data=st.data())
def test_cuts_and_restarts_do_not_matter(log_of: st.SearchStrategy[WrittenLog], data: st.DataObject) -> None:
    """The same events and the same group, wherever the log is cut into batches; every wrong time counts once."""
    records = data.draw(log_of).records
    rows = wrong_times(data, records)
    end_ms = records[-1].at + 1
    whole, cut = Job(end_ms), Job(end_ms)
    whole.batch(rows)
    begin = 0
    for end in sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=5)) | {len(rows)}):
        cut.batch(rows[begin:end])
        begin = end
    assert cut.end(end_ms) == whole.end(end_ms)
    assert cut.malformed() == whole.malformed()
    assert (cut.bad is None) == (whole.bad is None)


def heartbeat_after(row: RawBytes, at_ms: int) -> HeartbeatMessage:
    """The heartbeat of a job that has caught up at this time, and has read up to this record."""
    return HeartbeatMessage(
        cluster_id=CLUSTER_ID,
        era=ERA,
        job_id="j",
        run_id="r",
        at_ms=at_ms,
        caught_up_ms=at_ms,
        offsets={PARTITION: row.offset + 1},
    )


@every_log
@given(data=st.data())
def test_a_replay_gives_what_the_job_gives(
    log_of: st.SearchStrategy[WrittenLog], data: st.DataObject
) -> None:
    """With a heartbeat that has passed the log, a replay has the limit that the job had when it read the log."""
    records = data.draw(log_of).records
    rows = wrong_times(data, records)
    caught_up_ms = records[-1].at + 1
    heartbeat = heartbeat_after(rows[-1], caught_up_ms)
    with tempfile.TemporaryDirectory() as folder:
        path = write_capture(Path(folder) / "a.parquet", rows, probes=probes_batch([heartbeat]))
        replay = Replay(CONTEXT)
        told = events_of(replay.feed(read_captures([path])))
    assert replay.latest_ms <= caught_up_ms
    job = Job(caught_up_ms)
    job.batch(rows)
    events, group = job.end(replay.latest_ms + 1)
    assert [one for one in told if MALFORMED not in one["type"]] == events
    assert [one for one in told if MALFORMED in one["type"]] == job.malformed()
    assert [one.describe() for one in replay.groups()] == ([] if job.removable else [group])


def told_of(events: Sequence[Any]) -> list[Any]:
    """Events without their times: that of a record whose own time cannot be is when it had been read."""
    return [(one["id"], one["type"], {**one["data"], "cause": None, "time_ms": None}) for one in events]


@every_log
@given(data=st.data())
def test_what_is_said_of_wrong_times(log_of: st.SearchStrategy[WrittenLog], data: st.DataObject) -> None:
    """A job whose batches are minutes apart and a replay of its heartbeats name the same records, with the same counts.

    A replay has the caught-up times to five minutes.
    """
    records = data.draw(log_of).records
    rows = wrong_times(data, records)
    job, heartbeats, begin, at_ms = Job(0), list[HeartbeatMessage](), 0, records[-1].at + 1
    for end in sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=5)) | {len(rows)}):
        at_ms += data.draw(st.integers(0, 420_000))
        job.caught_up_ms = at_ms
        job.batch(rows[begin:end])
        begin = end
        heartbeats.append(heartbeat_after(rows[end - 1], at_ms))
    with tempfile.TemporaryDirectory() as folder:
        path = write_capture(Path(folder) / "a.parquet", rows, probes=probes_batch(heartbeats))
        written = events_of(Replay(CONTEXT).feed(read_captures([path])))
    assert told_of([one for one in written if MALFORMED in one["type"]]) == told_of(job.malformed())


def late_answers(data: st.DataObject, records: Sequence[Raw]) -> list[Answer]:
    """Answers that were appended some time after their question, in the order of the topic."""
    begin, end = records[0].at, records[-1].at + 60_000
    asked_at = sorted(data.draw(st.lists(st.integers(begin, end), min_size=1, max_size=8)))
    names = sorted(
        {one.member_id for raw in records for one in getattr(raw.value, "members", ())} | {"stranger"}
    )
    found, appended_ms = list[Answer](), 0
    for offset, taken_ms in enumerate(asked_at):
        lag_ms = data.draw(st.sampled_from((0, 5, 700, 15_000, 120_000)))
        appended_ms = max(appended_ms, taken_ms + lag_ms)
        state = data.draw(st.sampled_from(("PreparingRebalance", "CompletingRebalance", "Stable", "Empty")))
        members = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
        message = asked(GROUP, state, at=taken_ms, members=members)
        ids = tuple(msgspec.structs.replace(one, member_id=one.client_id) for one in message.members)
        found.append(Answer(offset, appended_ms, msgspec.structs.replace(message, members=ids)))
    return found


@given(log=logs(), data=st.data())
def test_answers_that_come_late(log: WrittenLog, data: st.DataObject) -> None:
    """A replay applies an answer where a job that was up to date applied it: behind what was written before its append.

    A batch reads the log first and then the answers; everything up to the batch before it is known to be complete.
    """
    records = log.records
    answers = late_answers(data, records)
    end_ms = max(records[-1].at, answers[-1].appended_ms) + 1
    rows = [RawBytes(PARTITION, one.offset, one.at, *in_bytes(one)) for one in records]
    job, before_ms = Job(end_ms, PROBED), 0
    moments = data.draw(st.sets(st.integers(records[0].at, end_ms), max_size=8)) | {end_ms}
    for moment_ms in sorted(moments):
        new_rows = [one for one in rows if before_ms < one.timestamp_ms <= moment_ms]
        new_answers = [one for one in answers if before_ms < one.appended_ms <= moment_ms]
        job.batch(new_rows, new_answers, before_ms)
        if not new_rows and not new_answers and job.deadline_ms is not None and job.deadline_ms <= before_ms:
            job.call([], before_ms)
        before_ms = moment_ms
    events, group = job.end(end_ms)
    with tempfile.TemporaryDirectory() as folder:
        path = write_capture(Path(folder) / "a.parquet", rows, probes=pa.concat_batches(answer_rows(answers)))
        replay = Replay(PROBED, now_ms=end_ms - 1)
        told = events_of(replay.feed(read_captures([path])))
    assert told == events
    assert [one.describe() for one in replay.groups()] == ([] if job.removable else [group])
