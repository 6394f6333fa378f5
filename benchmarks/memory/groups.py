"""Memory for each group: of the exporter, of the job's state, and of ``replay``; and what a scrape costs.

    python benchmarks/memory/groups.py [--groups 1000000] [--max-groups 5000] [exporter|state]
    small: --groups 500 --max-groups 50

The groups are those of a hostile client: each has one offset and an id of 36 characters. For the exporter every group
also has the rebalances of two generations since midnight, which no client without members can cause.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import msgspec
from prometheus_client import generate_latest
from prometheus_client.core import Metric

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits
from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.state import Context
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.streaming.sources.source import Rows

_NOW_MS = 1_767_225_600_000
_CONTEXT = Context(cluster_id="benchmark", era="e", retention_ms=7 * 24 * 3_600_000)
_BATCH = 50_000


def resident_bytes() -> int:
    """The memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def group_id(number: int) -> str:
    """An id as tools invent them."""
    return str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))


def report(what: str, groups: int, make: Callable[[], object]) -> object:
    """Prints the memory and the time that something takes; returns it."""
    before, begin = resident_bytes(), time.perf_counter()
    made = make()
    seconds = time.perf_counter() - begin
    taken = resident_bytes() - before
    print(f"{what}: {taken / 2**20:.0f} MiB, {taken / groups:.0f} bytes a group, {seconds:.1f} s", flush=True)
    return made


def document_of_one() -> dict[str, object]:
    """The document of a group as the engine makes it."""
    rows = list(Replay(_CONTEXT).feed(Rows("c", "e", iter([batch(0, 1)]))))
    (value,) = [row.value for row in rows if row.output.value == "states"]
    document: dict[str, object] = msgspec.json.decode(value or b"")
    return document


def batch(first: int, count: int) -> object:
    """One commit of each of these groups, as the topic has it."""
    import pyarrow as pa

    value = encode_value(
        OffsetCommitValue(version=3, offset=5, leader_epoch=-1, metadata="", commit_timestamp_ms=_NOW_MS)
    )
    keys = [
        encode_key(OffsetCommitKey(group=group_id(number), topic="orders", partition=0))
        for number in range(first, first + count)
    ]
    columns = {
        "topic": ["__consumer_offsets"] * count,
        "partition": [0] * count,
        "offset": list(range(first, first + count)),
        "timestamp": [_NOW_MS] * count,
        "timestampType": [0] * count,
        "key": keys,
        "value": [value] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=ROW_SCHEMA)


def measure_exporter(groups: int, max_groups: int) -> None:
    """The snapshot of the topics, first the documents, then an event of each group; and a scrape."""
    document, snapshot = document_of_one(), TopicsSnapshot()
    encoder = msgspec.json.Encoder()

    def documents() -> None:
        for number in range(groups):
            name = group_id(number)
            snapshot.take_state(name.encode(), encoder.encode({**document, "group_id": name}))

    def events() -> None:
        for number in range(groups):
            event = {
                "id": f"e{number}",
                "type": "groupreplay.rebalance.completed.v1",
                "time": "2026-01-01T00:00:00.000Z",
                "severitynumber": 9,
                "severitytext": "INFO",
                "data": {"group_id": group_id(number)},
            }
            snapshot.take_event(encoder.encode(event), _NOW_MS)

    report("exporter, documents", groups, documents)
    report("exporter, events of today", groups, events)

    class Scrape:
        def collect(self) -> Iterable[Metric]:
            return measure(snapshot, _NOW_MS, Limits(max_groups=max_groups))

    begin = time.perf_counter()
    found = measure(snapshot, _NOW_MS, Limits(max_groups=max_groups))
    locked = time.perf_counter() - begin
    series = sum(len(one.samples) for one in found)
    text = generate_latest(Scrape())
    print(f"scrape: {series} series, {len(text) / 1e6:.1f} MB, {locked:.2f} s with the snapshot locked")
    assert snapshot.unreadable == 0
    assert len(snapshot.groups) == groups


def measure_state(groups: int) -> None:
    """The states in ``replay``, which holds them in memory, and the size of a row."""
    driver = Replay(replace(_CONTEXT, emit_since_ms=_NOW_MS + 1))

    def states() -> None:
        batches = (batch(first, min(_BATCH, groups - first)) for first in range(0, groups, _BATCH))
        rows = Rows("c", "e", batches)
        for _ in driver.feed(rows):
            pass

    report("replay, states", groups, states)
    blobs = driver._blobs
    key, blob = next(iter(blobs.items()))
    print(f"row of the state: key {len(key)} bytes, value {len(blob)} bytes, {len(blobs)} groups")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=("exporter", "state", "both"), default="both")
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--max-groups", type=int, default=5_000)
    asked = parser.parse_args()
    if asked.part in ("exporter", "both"):
        measure_exporter(asked.groups, asked.max_groups)
    if asked.part in ("state", "both"):
        measure_state(asked.groups)


if __name__ == "__main__":
    main()
