"""Runs hostile histories through ``pack`` and ``advance`` as the job does, and measures the calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from groupreplay.state import Context
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import ProbeMessage, encode_message
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.horizons import Horizons
from groupreplay.streaming.engine.pack import pack
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from support.histories.raw_records import batches
from support.tools.hostile import CLUSTER_ID, Batch

CONTEXT = Context(cluster_id=CLUSTER_ID, era="e", complete_since_ms=1, member_events=True, probing=True)
PROBES = ProbeFilter(topic="group-probes", cluster_id=CLUSTER_ID)


@dataclass(slots=True)
class Survivor:
    """The states after some batches, everything written, and the dearest call."""

    blobs: dict[bytes, bytes] = field(default_factory=dict)
    deadlines: dict[bytes, int] = field(default_factory=dict)
    rows: list[OutputRow] = field(default_factory=list)
    dearest_seconds: float = 0.0
    calls: int = 0

    def live(self, history: Sequence[Batch]) -> None:
        """All batches; after each the timers that are due."""
        probe_offset = 0
        for batch in history:
            packed: dict[bytes, list[bytes]] = {}
            tables = [
                *pack_probes([_probe_rows(batch.probes, probe_offset)], PROBES),
                *pack(batches(batch.log), Horizons(batch.caught_up_ms)),
            ]
            probe_offset += len(batch.probes)
            for table in tables:
                for key, blob in zip(table["key"].to_pylist(), table["packed"].to_pylist(), strict=True):
                    if blob is not None:
                        packed.setdefault(key, []).append(blob)
            for key, blobs in packed.items():
                self._call(key, blobs, batch.caught_up_ms)
            for key in list(self.blobs):
                due = self.deadlines.get(key)
                if due is not None and due <= batch.caught_up_ms:
                    self._call(key, [], batch.caught_up_ms)

    def _call(self, key: bytes, packed: list[bytes], now_ms: int) -> None:
        begun = time.process_time()
        result = advance(
            key, self.blobs.get(key), packed, now_ms=now_ms, recorded_ms=now_ms or None, context=CONTEXT
        )
        self.dearest_seconds = max(self.dearest_seconds, time.process_time() - begun)
        self.calls += 1
        self.rows += result.rows
        if result.removable or result.blob is None:
            self.blobs.pop(key, None)
        else:
            self.blobs[key] = result.blob
        if result.deadline_ms is None:
            self.deadlines.pop(key, None)
        else:
            self.deadlines[key] = result.deadline_ms


def _probe_rows(messages: Sequence[ProbeMessage], first: int) -> pa.RecordBatch:
    pairs = [encode_message(one) for one in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([0] * len(pairs), pa.int32()),
            pa.array([first + place for place in range(len(pairs))], pa.int64()),
            pa.array([key for key, _ in pairs], pa.binary()),
            pa.array([value for _, value in pairs], pa.binary()),
        ],
        names=["partition", "offset", "key", "value"],
    )


def events(rows: Sequence[OutputRow]) -> list[bytes]:
    """The events among the rows."""
    return [row.value for row in rows if row.output is Output.EVENTS and row.value is not None]
