"""PySpark's worker side of ``applyInPandasWithState``, without pandas when the function is ``step``.

PySpark makes a frame for the rows of every key and a frame for its state and concatenates all of them: some 740 µs
per key, more than the call of ``step`` itself. This module replaces three functions of PySpark's worker. Other
functions keep PySpark's way, and so do workers that stock Spark starts on a cluster: ``step`` serves both.

Import it only with a release that ``internals.has_known_internals`` accepts. The lines differ in how they call these
functions and what they expect between them; nothing here uses the parts that differ.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import IO, Any, Final

import msgspec
import pyarrow as pa
import pyspark.worker
from pyspark.serializers import write_int
from pyspark.sql.pandas.serializers import (
    ApplyInPandasWithStateSerializer,
    ArrowStreamSerializer,
    SpecialLengths,
)
from pyspark.sql.streaming.state import GroupState

from groupreplay.streaming.base.memory import FreedMemory
from groupreplay.streaming.spark.internals.state_pickles import read_state
from groupreplay.streaming.spark.operator import OUTPUT_SCHEMA, Job, OutputCells, rows_of_call, step

#: The Arrow types of the columns of a result.
_TYPES: Final = {"string": pa.string(), "binary": pa.binary(), "integer": pa.int32()}
_LARGE_TYPES: Final = {**_TYPES, "string": pa.large_string(), "binary": pa.large_binary()}
_COLUMNS: Final = [column.split() for column in OUTPUT_SCHEMA.split(", ")]
_OUTPUT: Final = pa.struct([(name, _TYPES[kind]) for name, kind in _COLUMNS])
_LARGE_OUTPUT: Final = pa.struct([(name, _LARGE_TYPES[kind]) for name, kind in _COLUMNS])

#: A batch ends behind this size: a column of Arrow cannot hold 2 GiB, and the worker holds a batch as a whole.
_BATCH_BYTES: Final = 64 << 20
#: A task with so many calls leaves memory to give back.
_MANY_CALLS: Final = 100
#: Some rows of one key, with the columns that ``query.output_rows`` selects.
Columns = Sequence[list[Any]]

_freed_memory: Final = FreedMemory(_MANY_CALLS)


def install() -> None:
    """Makes workers forked from this process call ``step`` without pandas."""
    _worker.fail_on_stopiteration = _fail_on_stopiteration
    _worker.wrap_grouped_map_pandas_udf_with_state = _wrap
    _worker.ApplyInPandasWithStateSerializer = GroupSerializer


_worker: Final[Any] = pyspark.worker
_plain_fail_on_stopiteration: Final = _worker.fail_on_stopiteration
_plain_wrap: Final = _worker.wrap_grouped_map_pandas_udf_with_state


def _fail_on_stopiteration(function: Callable[..., Any]) -> Callable[..., Any]:
    """PySpark's wrapper, with a reference to the function that it wraps."""
    wrapper: Callable[..., Any] = _plain_fail_on_stopiteration(function)
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    return wrapper


def _wrap(function: Callable[..., Any], *others: Any) -> Any:
    """The function that the worker calls for every key. A worker may serve both kinds, one task after the other.

    ``others`` are the return type and, from 4.0 on, Spark's settings.
    """
    inner: Any = inspect.unwrap(function)
    GroupSerializer.without_pandas = getattr(inner, "func", None) is step
    if not GroupSerializer.without_pandas:
        return _plain_wrap(function, *others)
    call = _plain_fail_on_stopiteration(partial(_call, job=inner.keywords["job"]))
    return lambda key, chunks, state: (call(key, chunks, state), state)


def _call(key: Columns, chunks: Iterator[Columns], state: GroupState, *, job: Job) -> list[OutputCells]:
    # The call of a timer has one row of nulls.
    given = () if state.hasTimedOut else ((packed, caught_up_ms) for _, packed, caught_up_ms in chunks)
    return rows_of_call(key[0][0], given, state, job)


class GroupSerializer(ApplyInPandasWithStateSerializer):
    """PySpark's batches in and out, with plain lists instead of pandas' Series and frames."""

    #: Set when the function of the task is known, before its first batch is read.
    without_pandas = False
    #: The calls of the task.
    _calls = 0

    def load_stream(
        self, stream: IO[bytes]
    ) -> Iterator[tuple[Iterator[tuple[Columns, GroupState]], GroupState]]:
        """For each key: (its chunks of rows, its state)."""
        if not self.without_pandas:
            yield from super().load_stream(stream)
            return
        chunks: list[tuple[Columns, GroupState]] = []
        for columns, state_row in _chunks(ArrowStreamSerializer.load_stream(self, stream)):
            state = chunks[0][1] if chunks else self._state(state_row)
            chunks.append((columns, state))
            if state_row["isLastChunk"]:
                yield iter(chunks), state
                chunks = []

    def _state(self, row: dict[str, Any]) -> GroupState:
        stored = read_state(row["object"]) if row["object"] else None
        return GroupState(
            **{**msgspec.json.decode(row["properties"]), "optionalValue": stored},
            keyAsUnsafe=row["keyRowAsUnsafe"],
            valueSchema=self.state_object_schema,
        )

    def dump_stream(self, iterator: Iterable[Any], stream: IO[bytes]) -> Any:
        """Writes the rows and the states that the calls return, up to ``_BATCH_BYTES`` at a time."""
        if not self.without_pandas:
            return super().dump_stream(iterator, stream)
        ArrowStreamSerializer.dump_stream(self, _with_header(self._batches(iterator), stream), stream)
        _freed_memory.note(self._calls)
        return None

    def _batches(self, results: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        rows: list[OutputCells] = []
        states: list[tuple[Any, ...]] = []
        size = self._calls = 0
        for output, state in results:
            self._calls += 1
            rows += output
            states.append(self._state_cells(state))
            size += sum(_size(row) for row in output) + _size(states[-1])
            if max(len(rows), len(states)) > self.arrow_max_records_per_batch or size > _BATCH_BYTES:
                yield self._batch(rows, states)
                rows, states, size = [], [], 0
        if states:
            yield self._batch(rows, states)

    def _state_cells(self, state: GroupState) -> tuple[Any, ...]:
        stored = None
        if state.exists:
            # PySpark uses cloudpickle, which writes the same bytes in several times the time.
            stored = pickle.dumps(state._value_schema.toInternal(state._value), pickle.HIGHEST_PROTOCOL)
        return _state_json(state), state._keyAsUnsafe, stored, state.oldTimeoutTimestamp

    def _batch(self, rows: Sequence[OutputCells], states: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        # The three columns of a batch have one length; the first has the number of rows in use of the others.
        length = max(len(rows), len(states))
        counts = [(len(rows), len(states))] * length
        return pa.RecordBatch.from_arrays(
            [
                _structs(counts, self.result_count_pdf_arrow_type, length),
                _structs(rows, self._output_type(), length),
                _structs(states, self.result_state_pdf_arrow_type, length),
            ],
            ["_0", "_1", "_2"],
        )

    def _output_type(self) -> pa.StructType:
        """The Arrow type of ``OUTPUT_SCHEMA``, with large texts where Spark was told to use them."""
        is_large = pa.types.is_large_string(self.result_state_pdf_arrow_type.field(0).type)
        return _LARGE_OUTPUT if is_large else _OUTPUT


def _size(cells: Sequence[Any]) -> int:
    """Bytes and characters of the texts in a row."""
    return sum(len(cell) for cell in cells if isinstance(cell, bytes | str))


def _state_json(state: GroupState) -> str:
    """The same text as ``GroupState.json``, in a fifth of its time."""
    return msgspec.json.encode(
        {
            "optionalValue": None,  # has a column of its own
            "batchProcessingTimeMs": state._batch_processing_time_ms,
            "eventTimeWatermarkMs": state._event_time_watermark_ms,
            "timeoutConf": state._timeout_conf,
            "hasTimedOut": state._has_timed_out,
            "watermarkPresent": state._watermark_present,
            "defined": state._defined,
            "updated": state._updated,
            "removed": state._removed,
            "timeoutTimestamp": state._timeout_timestamp,
        }
    ).decode()


def _with_header(batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        if not number:
            # Only when the first batch exists: an error before it is written in this place.
            write_int(SpecialLengths.START_ARROW_STREAM, stream)
        yield batch


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Columns, dict[str, Any]]]:
    """(rows of one key, its state). The last column of a batch says which rows of the others belong to which key."""
    for batch in batches:
        *columns, states = (column.to_pylist() for column in batch.columns)
        for state in states:
            if state is None:
                break
            start = state["startOffset"]
            end = start + state["numRows"]
            yield [column[start:end] for column in columns], state


def _structs(rows: Sequence[tuple[Any, ...]], arrow_type: pa.StructType, length: int) -> pa.StructArray:
    padding = [None] * (length - len(rows))
    columns = zip(*rows, strict=True) if rows else ((),) * arrow_type.num_fields
    return pa.StructArray.from_arrays(
        [
            pa.array([*column, *padding], field.type)
            for column, field in zip(columns, arrow_type, strict=True)
        ],
        fields=list(arrow_type),
    )
