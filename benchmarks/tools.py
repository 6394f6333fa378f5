"""Readers of the same topic outside Spark: ``replay``, Kafka's console consumer, and the broker itself."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from processes import Finished, run

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.local.broker import DEFAULT_VERSION, EmbeddedBroker
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import find_java
from groupreplay.streaming.sources.log_segments import batches_in

_CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FORMATTER: Final = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
#: The broker's log line for each partition that its coordinator has loaded.
_LOADED: Final = re.compile(
    rf"^(\S+) .*Finished loading of metadata from {OFFSETS_TOPIC}-\d+ .*?in (\d+)ms.*?"
    r"Loaded (\d+) records which total to (\d+) bytes",
    re.MULTILINE,
)
#: Turns these lines on: they have the level INFO.
LOG_LOADING: Final = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.common=info"


def capture(server: str, file: Path) -> Finished:
    """``groupreplay capture`` of the whole topic."""
    return _groupreplay(file, "capture", "--bootstrap-server", server, "-o", str(file))


def replay(file: Path) -> Finished:
    """``groupreplay replay`` of a capture; discards the events."""
    return _groupreplay(file, "replay", "--from-file", str(file))


def replay_folders(folder: Path, log: Path) -> Finished:
    """``groupreplay replay`` of the folders of a broker; discards the events."""
    return _groupreplay(log, "replay", "--from-log-dir", str(folder))


def first_record(file: Path) -> Path:
    """A capture of one record, to measure the start of a reader."""
    source, path = pq.ParquetFile(file), file.with_name("first.parquet")
    batch = next(source.iter_batches(batch_size=1))
    pq.write_table(pa.Table.from_batches([batch], source.schema_arrow), path)
    return path


def first_batch(folder: Path, copy: Path) -> Path:
    """A copy of one batch of the topic, to measure the start of a reader of folders."""
    segments = sorted(folder.glob(f"{OFFSETS_TOPIC}-*/*.log"))
    segment = next(path for path in segments if path.stat().st_size)
    place = copy / segment.parent.name
    place.mkdir(parents=True)
    data = segment.read_bytes()
    (place / segment.name).write_bytes(data[: len(next(batches_in(data)).block)])
    return copy


def console(server: str, records: int, log: Path) -> Finished:
    """Kafka's console consumer with its formatter, reading this many records."""
    jars = os.pathsep.join(map(str, jar_paths(f"broker-{DEFAULT_VERSION}")))
    command = [str(find_java().executable), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", jars]
    command += [_CONSOLE, "--bootstrap-server", server, "--topic", OFFSETS_TOPIC, "--from-beginning"]
    command += ["--formatter", _FORMATTER, "--max-messages", str(records)]
    # Its own commits would be read, too.
    command += ["--consumer-property", "exclude.internal.topics=false"]
    command += ["--consumer-property", "enable.auto.commit=false"]
    return run(command, log)


@dataclass(frozen=True)
class Loaded:
    """A load by the coordinators: ``seconds`` from the first start to the last end."""

    seconds: float
    sum_seconds: float
    records: int


def load(broker: EmbeddedBroker, partitions: int) -> Loaded:
    """Restarts the broker and reads from its log how long it took to load the partitions of the topic."""
    begin = broker.log_path.stat().st_size
    broker.restart()
    deadline = time.monotonic() + 60
    while True:
        with broker.log_path.open("rb") as log:
            log.seek(begin)
            found = _LOADED.findall(log.read().decode("utf-8", "replace"))
        loads = [
            (datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp(), int(ms) / 1000, int(n))
            for at, ms, n, _ in found
        ]
        if len(loads) >= partitions:
            break
        assert time.monotonic() < deadline, f"only {len(loads)} partitions were loaded:\n{broker.tail()}"
        time.sleep(0.1)
    return Loaded(
        seconds=max(end for end, _, _ in loads) - min(end - took for end, took, _ in loads),
        sum_seconds=sum(took for _, took, _ in loads),
        records=sum(records for _, _, records in loads),
    )


def _groupreplay(file: Path, *words: str) -> Finished:
    return run([sys.executable, "-m", "groupreplay", *words], file.with_suffix(".log"))
