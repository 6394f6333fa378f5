"""Writes a simulation to files: a capture, the true states of its groups, and the trace of the coordinator."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Final

import pyarrow as pa

from groupreplay.app.simulate.rows import PROBES_TOPIC, RowTarget, simulated_rows
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.coordinator.simulation.simulation import BEGIN_MS, SimulationPlan
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.base.files import atomic_file, is_written_into, require_new
from groupreplay.streaming.contract.rows import ROW_SCHEMA, ProgressCallback, no_progress
from groupreplay.streaming.sources.capture import CaptureWriter
from groupreplay.streaming.sources.capture_context import CaptureContext
from groupreplay.version import __version__

CLUSTER_ID: Final = "simulated"
ERA: Final = "simulated"
_BATCH_ROWS: Final = 5_000


def truth_path(path: Path) -> Path:
    """The file of the true states of a capture: ``night.truth.jsonl`` for ``night.parquet``."""
    return path.with_suffix(".truth.jsonl")


def trace_path(path: Path) -> Path:
    """The file of the coordinator's steps beside a capture: ``night.trace.jsonl`` for ``night.parquet``."""
    return path.with_suffix(".trace.jsonl")


def write_simulation(
    plan: SimulationPlan,
    path: Path,
    progress: ProgressCallback = no_progress,
    *,
    truth: Path | None = None,
    trace: Path | None = None,
    force: bool = False,
) -> int:
    """Write the capture, the true states, and the ``trace`` of a traced plan; returns the number of records.

    The same plan gives the same bytes. The files appear when they are complete, the capture first; files that exist are
    replaced with ``force`` only.

    Raises:
        GroupReplayError: a file cannot be written.
    """
    if is_written_into(path) and (truth is None or (trace and trace == trace_path(path))):
        raise unusable(
            f"the true states {'and the trace ' if trace else ''}have no place beside what is no file",
            path,
            "give a file, or --truth-file and no --trace",
        )
    truth = truth or truth_path(path)
    require_new([path, truth, trace], force=force)
    with (
        nullcontext() if trace is None else atomic_file(trace, force=force) as trace_file,
        atomic_file(truth, force=force) as truth_file,
        CaptureWriter(path, cluster_id=CLUSTER_ID, era=ERA, context=_context(plan), force=force) as capture,
    ):
        capture.topic_names.update(plan.topic_names())
        rows = simulated_rows(plan, RowTarget(cluster_id=CLUSTER_ID), truth_file, progress, trace=trace_file)
        for _, of_partition in groupby(rows, key=itemgetter(0, 1)):
            while chunk := list(islice(of_partition, _BATCH_ROWS)):
                columns = list(zip(*chunk, strict=True))
                capture.write(pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA))
    return capture.rows


def _context(plan: SimulationPlan) -> CaptureContext:
    """What a capture of these brokers says about them; its time is the simulated one."""
    return CaptureContext(
        tool=f"groupreplay {__version__}",
        command="simulate",
        begun_ms=BEGIN_MS,
        complete_ms=plan.end_ms,
        brokers="simulated Kafka 3.9 (Scala coordinator)" if plan.settings.scala else "simulated Kafka 4.3",
        retention_ms=plan.settings.retention_ms,
        check_interval_ms=plan.check_interval_ms,
        sessions={
            GroupType.CONSUMER.value: (
                plan.settings.consumer_session_timeout_ms,
                plan.settings.consumer_session_timeout_ms,
                plan.settings.consumer_heartbeat_interval_ms,
            )
        },
        partitions=plan.partitions,
        probes=None if plan.probe_interval_ms is None else PROBES_TOPIC,
    )
