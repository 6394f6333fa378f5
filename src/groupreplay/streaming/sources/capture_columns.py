"""Where a capture has its columns: in the file, under whichever name, or in the file's path.

Paths are Hive folders, and the names that Kafka Connect gives.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.contract.log import ROW_SCHEMA

_FOLDER: Final = re.compile(r"([A-Za-z_][\w.]*)=(.*)")
#: ``topic+partition+start`` (Confluent's S3 sink), with ``+end`` (its HDFS sink); ``topic-partition-start`` (Aiven's).
_CONNECT_NAMES: Final = (
    re.compile(r"(?P<topic>[^+]+)\+(?P<partition>\d+)\+\d+(\+\d+)?(\.\w+)*\.parquet"),
    re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-\d+(\.\w+)*\.parquet"),
)


@dataclass(frozen=True, slots=True)
class CapturePlace:
    """A Parquet file, and values for columns that it may lack, by lower-case name."""

    path: Path
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)


def capture_places(paths: Iterable[Path]) -> list[CapturePlace]:
    """The files that these paths name; of a folder all ``*.parquet`` files below it.

    Raises:
        GroupReplayError: a folder contains no such file.
    """
    return [place for path in paths for place in (_in_folder(path) if path.is_dir() else [_place(path)])]


def _in_folder(folder: Path) -> list[CapturePlace]:
    found = sorted(
        path for path in folder.rglob("*.parquet") if path.is_file() and not _is_hidden(path, folder)
    )
    if not found:
        raise GroupReplayError(
            "no .parquet file in the folder",
            where=str(folder),
            fix="give the capture file itself",
            exit_code=ExitCode.DATA,
        )
    return [_place(path, folder) for path in found]


def _is_hidden(path: Path, folder: Path) -> bool:
    """Unfinished files and files about the data, as Spark and Hive name them: ``.x``, ``_temporary``, ``_delta_log``.

    Kafka Connect names folders and files after the topic, whose own name begins with an underscore.
    """
    return any(
        part.startswith(".")
        or (part.startswith("_") and "=" not in part and not part.startswith(OFFSETS_TOPIC))
        for part in path.relative_to(folder).parts
    )


def _place(path: Path, folder: Path | None = None) -> CapturePlace:
    parts = path.parts if folder is None else (folder.name, *path.relative_to(folder).parts)
    return CapturePlace(path, {**_of_name(path.name), **dict(_of_folders(parts[:-1]))})


def _of_folders(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if found := _FOLDER.fullmatch(part):
            yield found[1].lower(), unquote(found[2])


def _of_name(name: str) -> dict[str, str]:
    for pattern in _CONNECT_NAMES:
        if found := pattern.fullmatch(name):
            return {"topic": found["topic"], "partition": found["partition"]}
    return {}


#: Values of columns that a file may lack altogether.
_DEFAULTS: Final[Mapping[str, Any]] = {"topic": OFFSETS_TOPIC, "timestampType": 0}
#: What Kafka itself stores for a record without a timestamp (``RecordBatch.NO_TIMESTAMP``).
_NO_TIMESTAMP: Final = -1
_NULLS: Final = {"timestamp": _NO_TIMESTAMP, "timestampType": 0}

#: Of rows of many partitions: a topic is a number for each row, because 1 M names take longer to read than all else.
UNSORTED_SCHEMA: Final = pa.schema(
    [
        column.with_type(pa.dictionary(pa.int32(), column.type)) if column.name == "topic" else column
        for column in ROW_SCHEMA
    ]
)


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """Where a file has the columns of ``ROW_SCHEMA``: name -> the file's column, or name -> a constant value."""

    path: Path
    stored: Mapping[str, str]
    constants: Mapping[str, Any]


def column_layout(schema: pa.Schema, place: CapturePlace, renamed: Mapping[str, str]) -> ColumnLayout:
    """The layout of a file; ``renamed`` (name -> the file's column) comes from a flag.

    A column of the file counts first (its name in any case), then a folder ``name=value`` or the name of the file, then
    the default: without a topic all records are of the offsets topic.

    Raises:
        GroupReplayError: a column is missing or has a type that does not fit.
    """
    stored, constants = dict[str, str](), dict[str, Any]()
    for name in renamed:
        if name not in ROW_SCHEMA.names:
            raise unusable(
                f"a capture has no column {name}", "--column", f"its columns are {_listed(ROW_SCHEMA.names)}"
            )
    for field in ROW_SCHEMA:
        name = field.name
        column = _column_of(schema, renamed.get(name, name))
        if column is not None:
            _need_type(schema.field(column), field, place.path)
            stored[name] = column
        elif name in renamed:
            raise unfit(
                f"the column {renamed[name]} is missing", place.path, f"there are {_listed(schema.names)}"
            )
        elif name.lower() in place.values and not pa.types.is_binary(field.type):
            constants[name] = _parsed(place.values[name.lower()], field, place.path)
        elif name in _DEFAULTS:
            constants[name] = _DEFAULTS[name]
        else:
            fix = (
                f"a capture has the columns {_listed(ROW_SCHEMA.names)}; "
                f"another name is given by --column {name}=NAME, this file has {_listed(schema.names)}"
            )
            raise unfit(f"the column {name} is missing", place.path, fix)
    return ColumnLayout(place.path, stored, constants)


def conformed(table: pa.Table, layout: ColumnLayout, schema: pa.Schema = ROW_SCHEMA) -> pa.Table:
    """The table with the columns and types of ``ROW_SCHEMA``, or of ``UNSORTED_SCHEMA``.

    Raises:
        GroupReplayError: a row has no topic, partition or offset.
        pa.ArrowException: a value does not fit into its column.
    """
    columns = []
    for field in schema:
        if field.name in layout.constants:
            columns.append(_repeated(layout.constants[field.name], field.type, table.num_rows))
            continue
        column = as_type(table[layout.stored[field.name]], field.type)
        if not field.nullable and column.null_count:
            if field.name not in _NULLS:
                fix = "records without their place in the log cannot be put in order; leave them out of the file"
                raise unfit(f"a row has no {field.name}", layout.path, fix)
            column = pc.fill_null(column, scalar_of(_NULLS[field.name], field.type))
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def of_one_place(table: pa.Table, place: Mapping[str, Any]) -> pa.Table:
    """The table with the columns of ``ROW_SCHEMA``; those that ``place`` names have its value in all rows."""
    columns = [
        _repeated(place[field.name], field.type, table.num_rows) if field.name in place else table[field.name]
        for field in ROW_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=ROW_SCHEMA)


def _repeated(value: str | int, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(kind):
        return pa.chunked_array([pa.repeat(scalar_of(value, kind), rows)])
    numbers = pa.repeat(scalar_of(0, kind.index_type), rows)
    names = pa.repeat(scalar_of(value, kind.value_type), 1)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(numbers, names)])


def as_type(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column of another writer with the type that it has in a capture; timestamps in milliseconds since 1970."""
    if column.type == wanted:
        return column
    column = column.cast(value_type(column.type))
    if pa.types.is_timestamp(column.type):
        # Spark stores microseconds; Kafka's timestamps are milliseconds.
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    if column.type != value_type(wanted):
        column = column.cast(value_type(wanted))
    return column.dictionary_encode() if pa.types.is_dictionary(wanted) else column


def scalar_of(value: str | int, kind: pa.DataType) -> pa.Scalar:
    """The value as Arrow's scalar. Arrow's own ``pa.scalar`` would import pandas, a third of a second."""
    if isinstance(value, int):
        buffers = [None, pa.py_buffer(np.array([value]))]
        return pa.Array.from_buffers(pa.int64(), 1, buffers)[0].cast(kind)
    data = value.encode()
    buffers = [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), 1, buffers)[0].cast(kind)


def is_one_of(column: pa.ChunkedArray, values: Collection[str] | Collection[int]) -> pa.ChunkedArray:
    """Whether each value is one of these; not ``pc.is_in``, for whose array Arrow would import pandas, too."""
    return pa.chunked_array([_is_one_of(chunk, values) for chunk in column.chunks], pa.bool_())


def _is_one_of(column: pa.Array, values: Collection[str] | Collection[int]) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return _is_one_of(column.dictionary, values).take(column.indices)
    wanted = (scalar_of(value, column.type) for value in values)
    return reduce(pc.or_, (pc.equal(column, value) for value in wanted))


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column, which may be stored as a dictionary of them."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _column_of(schema: pa.Schema, name: str) -> str | None:
    if name in schema.names:
        return name
    alike = [one for one in schema.names if one.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _need_type(found: pa.Field, wanted: pa.Field, path: Path) -> None:
    if not _fits(value_type(found.type), wanted.type):
        fix = f"it must be {wanted.type}"
        if pa.types.is_binary(wanted.type):
            fix = "it must be binary, as Kafka stores it; write it without a conversion to text"
        raise unfit(f"the column {found.name} has the type {found.type}", path, fix)


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_int64(wanted) and pa.types.is_timestamp(kind):
        return True
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(kind))
    if pa.types.is_string(wanted):
        # Writers that do not mark text as such store it as bytes.
        tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, *_BINARY)
        return any(test(kind) for test in tests)
    return any(test(kind) for test in (*_BINARY, pa.types.is_fixed_size_binary))


_BINARY: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)


def _parsed(text: str, field: pa.Field, path: Path) -> Any:
    if pa.types.is_string(field.type):
        return text
    if not text.isascii() or not text.isdigit():
        raise unfit(f"the path has no number for the column {field.name}: {text}", path, "rename the folder")
    return int(text)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


def unfit(what: str, path: Path, fix: str) -> GroupReplayError:
    """The error for a file that is no capture, or not a whole one."""
    return GroupReplayError(what, where=str(path), fix=fix, exit_code=ExitCode.DATA)
