"""A simulation as files: a capture of groups that never were, and beside it what really happened to them.

Knows files: rows of the capture, messages of the prober, lines of the truth. Must not know what a group does.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa

from groupreplay.codecs import encode_key, encode_value
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.phases import REBALANCING
from groupreplay.state.simulation import BEGIN_MS, Happened, Observed, Plan, Written, simulate
from groupreplay.streaming.capture_file import CaptureWriter
from groupreplay.streaming.errors import ExitCode, GroupReplayError
from groupreplay.streaming.probe_messages import (
    GroupAnswer,
    MemberAnswer,
    RoundSummary,
    encode_message,
)
from groupreplay.streaming.rows import ROW_SCHEMA, Advance, no_progress

CLUSTER_ID: Final = "simulated"
ERA: Final = "simulated"
PROBES_TOPIC: Final = "group-probes"
#: The one broker that there is.
_BROKER: Final = 1
_BATCH_ROWS: Final = 5_000
#: Topic, partition, offset, timestamp, timestamp type, key, value.
_Row = tuple[str, int, int, int, int, bytes, "bytes | None"]


def truth_path(path: Path) -> Path:
    """Where the truth about a capture stands: ``night.parquet`` has ``night.truth.jsonl``."""
    return path.with_suffix(".truth.jsonl")


def write_simulation(plan: Plan, path: Path, progress: Advance = no_progress) -> int:
    """Write the capture and the truth; the same plan gives the same bytes. Returns the number of records.

    Both files appear when they are whole, the capture first. Answers of the prober are in a topic of their own
    with a partition for each of the offsets topic, its summaries of rounds in the first one.

    Raises:
        GroupReplayError: a file cannot be written.
    """
    rounds = _Rounds(plan)
    with (
        _appearing(truth_path(path)) as truth,
        CaptureWriter(path, cluster_id=CLUSTER_ID, era=ERA) as capture,
    ):
        rows = _Rows(capture)
        done = 0
        for partition, group_ids in enumerate(plan.group_ids()):
            for item in simulate(plan, group_ids):
                if isinstance(item, Written):
                    rounds.note_record(partition, item.timestamp_ms)
                    rows.add(_record(partition, item))
                elif isinstance(item, Happened):
                    truth.write(_line(item) + "\n")
                else:
                    offset = rounds.note_answer(partition, item)
                    rows.add(_answer(partition + 1, offset, item, plan))
            done += len(group_ids)
            progress(done, plan.groups)
        for row in rounds.rows():
            rows.add(row)
        rows.flush()
    return capture.rows


class _Rows:
    """Rows of the capture, handed over in batches of one partition each."""

    def __init__(self, capture: CaptureWriter) -> None:
        self._capture = capture
        self._pending: dict[tuple[str, int], list[_Row]] = {}

    def add(self, row: _Row) -> None:
        """One more row, behind those of its partition."""
        rows = self._pending.setdefault(row[:2], [])
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            self._write(row[:2])

    def flush(self) -> None:
        """Hand over what is left."""
        for place in sorted(self._pending):
            self._write(place)

    def _write(self, place: tuple[str, int]) -> None:
        columns = zip(*self._pending.pop(place), strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, ROW_SCHEMA, strict=True)]
        self._capture.write(pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA))


def _record(partition: int, item: Written) -> _Row:
    value = None if item.value is None else encode_value(item.value)
    return OFFSETS_TOPIC, partition, item.offset, item.timestamp_ms, 0, encode_key(item.key), value


def _answer(partition: int, offset: int, item: Observed, plan: Plan) -> _Row:
    summary = item.summary
    message = GroupAnswer(
        cluster_id=CLUSTER_ID,
        group_id=item.group_id,
        taken_ms=item.taken_ms,
        state=summary.state.value,
        broker=_BROKER,
        protocol_type=summary.protocol_type,
        protocol=summary.protocol,
        members=tuple(
            MemberAnswer(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
            )
            for member in summary.members
        ),
        interval_ms=plan.probe_interval_ms or 0,
    )
    return PROBES_TOPIC, partition, offset, item.taken_ms, 0, *encode_message(message)


class _Rounds:
    """The rounds of the prober: where each partition ended then, and how many groups were in a rebalance."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        step_ms = plan.probe_interval_ms
        self._times = range(BEGIN_MS + step_ms, plan.end_ms, step_ms) if step_ms else range(0)
        self._ends = [array("q") for _ in range(plan.partitions)]
        self._records = [0] * plan.partitions
        self._answers = [0] * plan.partitions
        self._rebalancing = array("q", bytes(8 * len(self._times)))

    def note_record(self, partition: int, timestamp_ms: int) -> None:
        """A record; the rounds before it have not seen it."""
        self._pass(partition, timestamp_ms)
        self._records[partition] += 1

    def _pass(self, partition: int, until_ms: int) -> None:
        ends = self._ends[partition]
        while len(ends) < len(self._times) and self._times[len(ends)] <= until_ms:
            ends.append(self._records[partition])

    def note_answer(self, partition: int, item: Observed) -> int:
        """An answer; its offset."""
        self._rebalancing[self._times.index(item.taken_ms)] += item.summary.state in REBALANCING
        self._answers[partition] += 1
        return self._answers[partition] - 1

    def rows(self) -> Iterator[_Row]:
        """A summary of each round, when all partitions are complete. Nothing is open: both ends are one."""
        for partition in range(self._plan.partitions):
            self._pass(partition, self._plan.end_ms)
        for number, taken_ms in enumerate(self._times):
            message = RoundSummary(
                cluster_id=CLUSTER_ID,
                taken_ms=taken_ms,
                brokers={_BROKER: None},
                rights="ok",
                partitions={place: (ends[number], ends[number]) for place, ends in enumerate(self._ends)},
                partition_count=self._plan.partitions,
                groups=self._rebalancing[number],
            )
            yield PROBES_TOPIC, 0, number, taken_ms, 0, *encode_message(message)


def _line(item: Happened) -> str:
    change = item.change
    fields: dict[str, Any] = {
        "time_ms": change.at_ms,
        "group_id": item.group_id,
        "before": change.before.value,
        "after": change.after.value,
        "generation": change.generation,
    }
    return json.dumps(fields)


@contextmanager
def _appearing(path: Path) -> Iterator[TextIO]:
    """A text file that has its name only when it is whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise GroupReplayError(
            f"cannot write the truth, {error.strerror}",
            where=str(path),
            fix="check that the folder exists, may be written and has room",
            exit_code=ExitCode.USAGE,
        ) from None
    finally:
        part.unlink(missing_ok=True)
