"""Wrong times in records: cuts into batches and restarts do not matter, and a replay gives what the job gives."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import GroupMetadataValue, OffsetCommitValue
from groupreplay.state import Group
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.inspection.capture_file import read_captures
from support.histories.builders import GROUP, PARTITION, Raw
from support.histories.raw_records import Raw as RawBytes
from support.histories.strategies import WrittenLog, histories, logs
from support.job.captures import CLUSTER_ID, ERA, in_bytes, write_capture
from support.job.packed import packed_by_key
from support.job.probes import probes_batch
from support.model.consumer_lives import NAMED

CONTEXT = replace(NAMED, cluster_id=CLUSTER_ID, era=ERA)
DAY = 86_400_000
KEY = b"g:" + GROUP.encode()
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


@dataclass
class Job:
    """The state and the events of the job after some batches, with a restart after each."""

    caught_up_ms: int
    blob: bytes | None = None
    bad: bytes | None = None
    deadline_ms: int | None = None
    removable: bool = False
    rows: list[OutputRow] = field(default_factory=list)

    def batch(self, rows: Sequence[RawBytes]) -> None:
        """One batch."""
        packed = packed_by_key(rows, caught_up_ms=self.caught_up_ms)
        if KEY in packed:
            self.call(packed[KEY], 0)
        if BAD in packed:
            self.bad = advance(BAD, self.bad, packed[BAD], now_ms=0, recorded_ms=None, context=CONTEXT).blob

    def call(self, packed: Sequence[bytes], now_ms: int) -> None:
        """One call for the group."""
        result = advance(KEY, self.blob, packed, now_ms=now_ms, recorded_ms=None, context=CONTEXT)
        self.blob, self.deadline_ms, self.removable = result.blob, result.deadline_ms, result.removable
        self.rows += result.rows

    def end(self, now_ms: int) -> tuple[list[Any], Any]:
        """The events and the group at the end of the log."""
        if self.deadline_ms is not None and self.deadline_ms <= now_ms:
            self.call([], now_ms)
        events = [json.loads(one.value or b"") for one in self.rows if one.output is Output.EVENTS]
        assert self.blob is not None
        return events, Group.from_snapshot(GROUP, CONTEXT, self.blob).describe()


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
    assert (cut.bad is None) == (whole.bad is None)


@every_log
@given(data=st.data())
def test_a_replay_gives_what_the_job_gives(
    log_of: st.SearchStrategy[WrittenLog], data: st.DataObject
) -> None:
    """With a heartbeat that has passed the log, a replay has the limit that the job had when it read the log."""
    records = data.draw(log_of).records
    rows = wrong_times(data, records)
    caught_up_ms = records[-1].at + 1
    heartbeat = HeartbeatMessage(
        cluster_id=CLUSTER_ID,
        era=ERA,
        job_id="j",
        run_id="r",
        at_ms=caught_up_ms,
        caught_up_ms=caught_up_ms,
        offsets={PARTITION: rows[-1].offset + 1},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = write_capture(Path(folder) / "a.parquet", rows, probes=probes_batch([heartbeat]))
        replay = Replay(CONTEXT)
        written = [one.value for one in replay.feed(read_captures([path])) if one.output is Output.EVENTS]
    assert replay.latest_ms <= caught_up_ms
    job = Job(caught_up_ms)
    job.batch(rows)
    events, group = job.end(replay.latest_ms + 1)
    of_group = [
        one for one in map(json.loads, filter(None, written)) if "record.malformed" not in one["type"]
    ]
    assert of_group == events
    assert [one.describe() for one in replay.groups()] == ([] if job.removable else [group])
