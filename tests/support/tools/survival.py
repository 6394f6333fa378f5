"""Runs hostile histories through ``pack`` and ``advance`` as the job does, and measures the calls."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Final

import jsonschema
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits
from groupreplay.app.text.event_text import line_of
from groupreplay.state import Context, Group
from groupreplay.state.output.envelope import json_schemas
from groupreplay.streaming.contract.messages import JOB_KEY, Output, OutputRow
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.packing.record_times import Horizons
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from groupreplay.streaming.engine.replay import Filter, events_in_order
from groupreplay.streaming.engine.wire import GROUP_TAG
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.histories.raw_records import batches
from support.job.probes import probes_batch
from support.job.sink_messages import job_document
from support.tools.hostile import CLUSTER_ID, START_MS, Batch

CONTEXT = Context(cluster_id=CLUSTER_ID, era="e", complete_since_ms=1, member_events=True, probing=True)
#: Far above what a call needs, and far below what a record costs that makes time run.
MOST_CALL_SECONDS: Final = 1.0
MOST_STATE_BYTES: Final = 1 << 20
MOST_ROWS_A_CALL: Final = 5_000
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
                *pack_probes([probes_batch(batch.probes, first_offset=probe_offset)], PROBES),
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


def events(rows: Sequence[OutputRow]) -> list[bytes]:
    """The events among the rows."""
    return [row.value for row in rows if row.output is Output.EVENTS and row.value is not None]


def harm(survivor: Survivor) -> list[str]:
    """What a history has done that none may do, by its cost and its size."""
    found = [f"quarantined: {one!r}" for one in events(survivor.rows) if b"group.quarantined" in one]
    if survivor.dearest_seconds >= MOST_CALL_SECONDS:
        found.append(f"a call took {survivor.dearest_seconds:.2f} s of CPU")
    largest = max(map(len, survivor.blobs.values()), default=0)
    if largest >= MOST_STATE_BYTES:
        found.append(f"a state has {largest} bytes")
    if len(survivor.rows) > MOST_ROWS_A_CALL * survivor.calls:
        found.append(f"{len(survivor.rows)} messages of {survivor.calls} calls")
    return found


class Readers:
    """What reads the messages of the job: schemas, the terminal, ``describe``, ``events`` and the exporter."""

    def __init__(self) -> None:
        self._validators = {
            name: jsonschema.Draft202012Validator(schema) for name, schema in json_schemas().items()
        }

    def read(self, survivor: Survivor) -> None:
        """Raises what the first of them raises; AssertionError when one could not use a message."""
        self._read_events(survivor.rows)
        for key, blob in survivor.blobs.items():
            if key.startswith(GROUP_TAG):
                Group.from_snapshot(key[len(GROUP_TAG) :].decode(), CONTEXT, blob).describe()
        _export(survivor.rows)

    def _read_events(self, rows: Sequence[OutputRow]) -> None:
        in_order = list(events_in_order(rows, Filter()))
        assert len(in_order) == len(events(rows)), "an event was lost on its way to the terminal"
        written = [json.loads(one) for one in in_order]
        of_each_type = {one["type"]: one for one in written}
        for name, one in of_each_type.items():
            self._validators[name.removeprefix("groupreplay.").removesuffix(".v1")].validate(one)
        for one in written:
            assert line_of(one).plain().isprintable()


def _export(rows: Sequence[OutputRow]) -> None:
    """One pass of the exporter over all topics."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(START_MS))
    for row in rows:
        if row.output is Output.STATES:
            seen.take_state(row.key, row.value)
        elif row.output is Output.JOB:
            seen.take_job(row.key, row.value)
        elif row.output is Output.EVENTS:
            seen.take_event(row.value, START_MS)
    assert not seen.unreadable, f"the exporter could not read {seen.unreadable} messages"
    metrics = {metric.name: metric for metric in measure(seen, START_MS, Limits())}
    page = generate_latest(SimpleNamespace(collect=metrics.values))
    assert list(text_string_to_metric_families(page.decode()))
