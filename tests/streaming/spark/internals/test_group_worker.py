"""PySpark's own worker code and ours, given the same bytes of a task."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pyspark.rdd
import pyspark.util
import pyspark.worker
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import CPickleSerializer, read_int, write_int, write_long
from pyspark.sql.types import StructType

from groupreplay.state import Context
from groupreplay.state.stored_form import SnapshotError
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.platforms import line_name
from groupreplay.streaming.spark.faults import known_fault
from groupreplay.streaming.spark.internals import group_worker
from groupreplay.streaming.spark.operator import OUTPUT_COLUMNS, OUTPUT_SCHEMA, Job, step
from groupreplay.streaming.spark.query import STATE_SCHEMA
from support.histories.raw_records import commit, generation, log
from support.job.packed import packed_by_key

NOW_MS = 10_000_000
JOB = Job(context=Context(cluster_id="c"), topics=TopicNames())
PATCHED = (
    "fail_on_stopiteration",
    "wrap_grouped_map_pandas_udf_with_state",
    "ApplyInPandasWithStateSerializer",
)
STATE_TYPE = pa.struct(
    [
        ("properties", pa.string()),
        ("keyRowAsUnsafe", pa.binary()),
        ("object", pa.binary()),
        ("startOffset", pa.int32()),
        ("numRows", pa.int32()),
        ("isLastChunk", pa.bool_()),
    ]
)
Row = tuple[bytes | None, bytes | None, int | None]


def eval_type() -> int:
    """The number of ``applyInPandasWithState``; 3.5 has the names of these numbers in another module."""
    module = pyspark.rdd if line_name(pyspark.__version__) == "3.5" else pyspark.util
    return int(module.PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE)


def install_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours instead of PySpark's, for the rest of one test."""
    for name in PATCHED:
        monkeypatch.setattr(pyspark.worker, name, getattr(pyspark.worker, name))
    group_worker.install()


def schema(text: str) -> StructType:
    """A schema of columns whose types have the same name in DDL and in JSON, without a JVM to parse it."""
    pairs = [pair.split() for pair in text.split(", ")]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in pairs]
    return StructType.fromJson({"type": "struct", "fields": fields})


def task(function: Any, rows_per_batch: int = 10_000) -> io.BytesIO:
    """What the JVM sends to a worker before the first batch of ``applyInPandasWithState``."""
    stream = io.BytesIO()

    def text(value: str) -> None:
        write_int(len(value.encode()), stream)
        stream.write(value.encode())

    line = line_name(pyspark.__version__)
    write_int(1, stream)
    text("spark.sql.execution.arrow.maxRecordsPerBatch")
    text(str(rows_per_batch))
    if line == "4.2":
        write_int(1, stream)
        text("state_value_schema")
    text(schema(STATE_SCHEMA).json())
    if line in ("4.0", "4.1"):
        stream.write(b"\0")  # no profiler
    write_int(1, stream)  # one function
    offsets = [1, 0, 0, 1, 2]  # one key, column 0; values: columns 0 to 2
    write_int(1 + len(offsets), stream)
    for offset in [len(offsets), *offsets]:
        write_int(offset, stream)
        stream.write(b"\0" if line == "4.2" else b"")  # no name of an argument
    write_int(1, stream)  # not chained
    command = pyspark.cloudpickle.dumps((function, schema(OUTPUT_SCHEMA)))
    write_int(len(command), stream)
    stream.write(command)
    if line == "4.2":
        write_long(0, stream)  # the number of its result, for profilers
    stream.seek(0)
    return stream


def worker_parts(function: Any, rows_per_batch: int) -> Any:
    """(the function that is called, the reader of batches, the writer of results), as a worker makes them."""
    stream = task(function, rows_per_batch)
    confs = []
    if line_name(pyspark.__version__) == "4.2":
        worker: Any = pyspark.worker
        confs = [worker.RunnerConf(stream), worker.EvalConf(stream)]
    called, _, reader, answer = pyspark.worker.read_udfs(  # type: ignore[no-untyped-call]
        CPickleSerializer(), stream, eval_type(), *confs
    )
    return called, reader, answer


def state_row(stored: bytes | None, timed_out: bool, start: int, rows: int, last: bool) -> dict[str, Any]:
    """What the JVM sends for the state of one key, and which rows of the batch belong to the key."""
    properties = {
        "batchProcessingTimeMs": NOW_MS,
        "eventTimeWatermarkMs": NOW_MS - 1000,
        "timeoutConf": "ProcessingTimeTimeout",
        "hasTimedOut": timed_out,
        "watermarkPresent": True,
        "defined": stored is not None,
        "updated": False,
        "removed": False,
        "timeoutTimestamp": -1,
    }
    pickler: Any = CPickleSerializer()
    return {
        "properties": json.dumps(properties),
        "keyRowAsUnsafe": b"unsafe",
        "object": None if stored is None else pickler.dumps((stored,)),
        "startOffset": start,
        "numRows": rows,
        "isLastChunk": last,
    }


def batch(rows: Sequence[Row], states: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """One batch as the JVM fills it: the shorter side is filled up with nulls."""
    length = max(len(rows), len(states))
    padded = [*rows, *[(None, None, None)] * (length - len(rows))]
    columns = list(zip(*padded, strict=True))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[0], pa.binary()),
            pa.array(columns[1], pa.binary()),
            pa.array(columns[2], pa.int64()),
            pa.array([*states, *[None] * (length - len(states))], STATE_TYPE),
        ],
        ["key", "packed", "caught_up_ms", "!__state__!"],
    )


def spoken(function: Any, given: Sequence[pa.RecordBatch], rows_per_batch: int = 10_000) -> list[Any]:
    """(rows, states) of each batch that a worker answers, as the JVM reads them."""
    incoming = io.BytesIO()
    with pa.RecordBatchStreamWriter(incoming, given[0].schema) as writer:
        for one in given:
            writer.write_batch(one)
    incoming.seek(0)
    outgoing = io.BytesIO()
    called, reader, answer = worker_parts(function, rows_per_batch)
    answer.dump_stream(called(0, reader.load_stream(incoming)), outgoing)
    outgoing.seek(0)
    assert read_int(outgoing) == -6  # START_ARROW_STREAM  # type: ignore[no-untyped-call]
    answers = []
    for one in pa.ipc.open_stream(outgoing):
        counts, rows, states = one.columns
        count = counts[0].as_py()
        answers.append(
            (
                rows.type,
                rows.to_pylist()[: count["dataCount"]],
                states.type,
                [readable(state) for state in states.to_pylist()[: count["stateCount"]]],
            )
        )
    return answers


def readable(state: dict[str, Any]) -> dict[str, Any]:
    """A state with its parts as Python values: the order of a JSON object's fields does not matter."""
    pickler: Any = CPickleSerializer()
    stored = None if state["object"] is None else pickler.loads(state["object"])
    return {**state, "properties": json.loads(state["properties"]), "object": stored}


def packed_rows() -> list[Row]:
    """The rows of three groups and of a record that cannot be read."""
    records = [
        commit("a", offset=5),
        generation("b", 1),
        commit("c", partition=1, offset=7),
        (b"\xff\xff", b"nobody knows"),
    ]
    return [(key, packed, -1) for key, blobs in packed_by_key(log(records)).items() for packed in blobs]


def history() -> list[pa.RecordBatch]:
    """Keys with one row, with rows in two chunks and two batches, with a timer, with the caught-up time."""
    rows = packed_rows()
    assert len({key for key, _, _ in rows}) == len(rows) >= 4
    first = batch(rows, [state_row(None, False, at, 1, at < len(rows) - 1) for at in range(len(rows))])
    second = batch(
        [(rows[-1][0], None, NOW_MS), (b"g:silent", None, None), (b"g:new", None, NOW_MS)],
        [
            state_row(None, False, 0, 1, True),
            state_row(None, True, 1, 1, True),
            state_row(None, False, 2, 1, True),
        ],
    )
    return [first, second]


@pytest.mark.parametrize("rows_per_batch", [10_000, 2])
def test_the_result_equals_that_of_pyspark(monkeypatch: pytest.MonkeyPatch, rows_per_batch: int) -> None:
    """The same rows and states, and again when the states come back with a timer that is due."""
    function = partial(step, job=JOB)
    given = history()
    stock = spoken(function, given, rows_per_batch)
    keys = [key for key, _, _ in packed_rows()] + [b"g:silent", b"g:new"]
    kept = [
        (key, state["object"][0])
        for key, state in zip(keys, merged(stock)[-1], strict=True)
        if state["object"]
    ]
    assert len(kept) >= 4
    again = [
        batch(
            [(key, None, None) for key, _ in kept],
            [state_row(blob, True, at, 1, True) for at, (_, blob) in enumerate(kept)],
        )
    ]
    stock_again = spoken(function, again, rows_per_batch)
    assert sum(len(rows) for _, rows, _, _ in stock) >= 5
    install_until_the_end(monkeypatch)
    ours, ours_again = (spoken(function, one, rows_per_batch) for one in (given, again))
    assert merged(ours) == merged(stock)
    assert merged(ours_again) == merged(stock_again)


def merged(answers: list[Any]) -> tuple[Any, ...]:
    """All batches as one; where one ends is the writer's own business."""
    (row_type,) = {str(one) for one, _, _, _ in answers}
    (state_type,) = {str(one) for _, _, one, _ in answers}
    rows = [row for _, rows, _, _ in answers for row in rows]
    states = [state for _, _, _, states in answers for state in states]
    return row_type, rows, state_type, states


def test_batches_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """States and messages of more than 2 GiB in one batch of 100 000 rows cannot be written: batches end earlier."""
    install_until_the_end(monkeypatch)
    whole = spoken(partial(step, job=JOB), history(), 100_000)
    monkeypatch.setattr(group_worker, "_BATCH_BYTES", 600)
    parts = spoken(partial(step, job=JOB), history(), 100_000)
    assert len(whole) == 1
    assert len(parts) > 2
    assert merged(parts) == merged(whole)


@pytest.mark.long
def test_more_than_two_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes that failed: 2 100 messages of a megabyte, and as many states of half a megabyte, from one task."""
    install_until_the_end(monkeypatch)
    message, blob = bytes(1 << 20), bytes(1 << 19)

    def call(key: bytes, chunks: Any, state: Any, job: Job) -> list[Any]:
        state.update((blob,))
        return [("t", key, message, None, None, None)]

    monkeypatch.setattr(group_worker, "rows_of_call", call)
    keys = [b"g:%d" % number for number in range(2_100)]
    given = batch(
        [(key, b"p", -1) for key in keys],
        [state_row(None, False, place, 1, True) for place in range(len(keys))],
    )
    sizes = [
        (len(rows), sum(len(row["value"]) for row in rows))
        for _, rows, _, _ in spoken(partial(step, job=JOB), [given], 100_000)
    ]
    assert sum(count for count, _ in sizes) == len(keys)
    assert max(size for _, size in sizes) <= group_worker._BATCH_BYTES + len(message)


def test_another_function_keeps_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has served our function serves any other as PySpark does."""
    install_until_the_end(monkeypatch)

    def count(key: tuple[bytes], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        total = sum(len(frame) for frame in frames)
        state.update((b"%d" % total,))
        yield pd.DataFrame([["t", key[0], b"%d" % total, None, None, None]], columns=list(OUTPUT_COLUMNS))

    spoken(partial(step, job=JOB), history())
    ((_, rows, _, states), *_) = spoken(count, history()[:1])
    assert [row["value"] for row in rows] == [b"1"] * len(rows)
    assert {state["object"] for state in states} == {(b"1",)}


def test_a_call_that_fails_fails_before_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error takes the place of the answer, and ``StopIteration`` is an error as well."""
    install_until_the_end(monkeypatch)
    broken = Job(context=None, topics=TopicNames())  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        spoken(partial(step, job=broken), history())

    def stops(*_: Any) -> list[Any]:
        raise StopIteration

    monkeypatch.setattr(group_worker, "rows_of_call", stops)
    with pytest.raises(PySparkRuntimeError, match="STOP_ITERATION_OCCURRED"):
        spoken(partial(step, job=JOB), history())


def test_a_state_that_runs_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is refused, and nothing runs; the job ends with the error of a damaged state. PySpark's own worker runs it."""
    made = tmp_path / "made"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(made),)

    evil = {**state_row(b"", False, 0, 1, True), "object": pickle.dumps((Evil(),))}
    given = [batch(packed_rows()[:1], [evil])]
    with monkeypatch.context() as ours:
        install_until_the_end(ours)
        with pytest.raises(SnapshotError) as caught:
            spoken(partial(step, job=JOB), given)
    assert not made.exists()
    text = f"groupreplay.state.stored_form.SnapshotError: {caught.value}"
    fault = known_fault(text, "/checkpoint")
    assert fault is not None
    assert (fault.exit_code, fault.where) == (ExitCode.DATA, "/checkpoint")
    assert fault.what.startswith("the state in the checkpoint is damaged: ")
    with suppress(Exception):
        spoken(partial(step, job=JOB), given)
    assert made.exists()
