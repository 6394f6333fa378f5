"""Copies the offsets topic and the probes topic of a live cluster into a capture file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.signals import stop_requests
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.inspection.capture_file import CaptureWriter
from groupreplay.streaming.kafka.topic_reader import ProgressCallback, follow_topic, no_progress, read_topic
from groupreplay.streaming.prober.probes_topic import ProbesPlace, open_probes

#: How long the last answers and the end of the file may take after a signal: what was copied cannot be copied again.
_FILE_SECONDS: Final = 30.0


def capture(
    cluster: Cluster,
    path: Path,
    *,
    probes: ProbesPlace | None = None,
    follow_seconds: float = 0,
    progress: ProgressCallback = no_progress,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Copy the topic up to its current end, then new records for ``follow_seconds``; returns the number of records.

    Also copies the probes topic, if there is one. A signal while following ends the copy early and keeps the records;
    before that it leaves no file.

    Raises:
        GroupReplayError: the cluster cannot be read or the file cannot be written.
    """
    rows = read_topic(cluster, progress=progress)
    connection = rows.connection
    assert connection is not None
    observed = None if probes is None else open_probes(probes)
    with CaptureWriter(path, cluster_id=rows.cluster_id, era=rows.era) as writer:
        writer.topic_names.update(connection.topic_names())
        for batch in rows.batches:
            writer.write(batch)
        for batch in observed.batches if observed else ():
            writer.write(batch)
        if follow_seconds:
            deadline = clock() + follow_seconds
            with stop_requests(_FILE_SECONDS) as stop:
                for batch in follow_topic(
                    connection, OFFSETS_TOPIC, rows.ends, lambda: stop.made or clock() >= deadline
                ):
                    writer.write(batch)
                    progress(writer.rows, None)
                for batch in observed.since() if observed else ():
                    writer.write(batch)
                writer.topic_names.update(connection.topic_names())
    return writer.rows
