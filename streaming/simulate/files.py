"""A simulation as files: a capture of groups that never were, and beside it what really happened to them.

Knows files; must not know what stands in a row (`simulation_rows`) nor what a group does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

import pyarrow as pa

from groupreplay.state.simulation.simulation import Plan
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.inspection.capture_file import CaptureWriter
from groupreplay.streaming.kafka.topic_reader import ROW_SCHEMA, ProgressCallback, no_progress
from groupreplay.streaming.simulate.rows import Place, Row, simulated_rows

CLUSTER_ID: Final = "simulated"
ERA: Final = "simulated"
_BATCH_ROWS: Final = 5_000


def truth_path(path: Path) -> Path:
    """Where the truth about a capture stands: ``night.parquet`` has ``night.truth.jsonl``."""
    return path.with_suffix(".truth.jsonl")


def write_simulation(
    plan: Plan, path: Path, progress: ProgressCallback = no_progress, *, truth: Path | None = None
) -> int:
    """Write the capture and the truth; the same plan gives the same bytes. Returns the number of records.

    Both files appear when they are whole, the capture first.

    Raises:
        GroupReplayError: a file cannot be written.
    """
    with (
        appearing(truth or truth_path(path)) as told,
        CaptureWriter(path, cluster_id=CLUSTER_ID, era=ERA) as capture,
    ):
        capture.topic_names.update(plan.topic_names())
        rows = _Rows(capture)
        for row in simulated_rows(plan, Place(cluster_id=CLUSTER_ID), told, progress):
            rows.add(row)
        rows.flush()
    return capture.rows


class _Rows:
    """Rows of the capture, handed over in batches of one partition each."""

    def __init__(self, capture: CaptureWriter) -> None:
        self._capture = capture
        self._pending: list[Row] = []

    def add(self, row: Row) -> None:
        """One more row, behind those of its partition."""
        if self._pending and (self._pending[-1][:2] != row[:2] or len(self._pending) == _BATCH_ROWS):
            self.flush()
        self._pending.append(row)

    def flush(self) -> None:
        """Hand over what is left."""
        if self._pending:
            columns = zip(*self._pending, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, ROW_SCHEMA, strict=True)]
            self._capture.write(pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA))
            self._pending = []


@contextmanager
def appearing(path: Path) -> Iterator[TextIO]:
    """A text file that has its name only when it is whole.

    Raises:
        GroupReplayError: it cannot be written.
    """
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
