"""States that earlier commits stored of a few groups (golden/stored_states.json), and how to continue from them.

A history is the records and probes of one key in two parts, as bytes; a stored state is the state that a commit had
after the first part.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from groupreplay.state import Context
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.pack import pack
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from support.histories.raw_records import Raw, batches
from support.paths import ROOT

FILE = ROOT / "tests" / "golden" / "stored_states.json"
PROBES_TOPIC = "group-probes"
CONTEXT = Context(
    cluster_id="c",
    era="e",
    complete_since_ms=1,
    member_events=True,
    probing=True,
)

Json = dict[str, Any]


def load() -> Json:
    """``histories`` by name, and ``states``: by commit, by history."""
    loaded: Json = json.loads(FILE.read_text()) if FILE.exists() else {"histories": {}, "states": {}}
    return loaded


def part(log: Iterable[Raw], probes: Iterable[Raw], until_ms: int) -> Json:
    """One half of a history in JSON; after it the log is known up to ``until_ms``."""
    return {"log": list(map(_to_json, log)), "probes": list(map(_to_json, probes)), "until_ms": until_ms}


def replay_half(key: str, blob: bytes | None, half: Json) -> tuple[bytes | None, list[OutputRow]]:
    """The state and output after one half: all records in one call, then the work that is due by the end."""
    packed = [
        blob
        for row in _packed(half)
        for name, blob in _pairs(row)
        if name == key.encode() and blob is not None
    ]
    rows: list[OutputRow] = []
    for now_ms in (0, half["until_ms"]):
        result = advance(key.encode(), blob, packed, now_ms=now_ms, recorded_ms=now_ms, context=CONTEXT)
        blob, packed, rows = result.blob, [], rows + result.rows
    return blob, rows


def bodies_of(rows: Sequence[OutputRow]) -> list[Json | None]:
    """Events and documents without their time of emission."""
    bodies = [None if row.value is None else json.loads(row.value) for row in rows]
    for body in bodies:
        if body is not None:
            body.pop("recordedtime", None)
    return bodies


def events(rows: Sequence[OutputRow]) -> list[Json]:
    """The events alone."""
    return [
        body for body in bodies_of([row for row in rows if row.output is Output.EVENTS]) if body is not None
    ]


def _packed(half: Json) -> Iterator[pa.RecordBatch]:
    probes = list(map(_from_json, half["probes"]))
    yield from pack_probes(batches(probes), ProbeFilter(topic=PROBES_TOPIC, cluster_id=CONTEXT.cluster_id))
    yield from pack(batches(list(map(_from_json, half["log"]))))


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[bytes, bytes | None]]:
    return zip(batch["key"].to_pylist(), batch["packed"].to_pylist(), strict=True)


def _to_json(record: Raw) -> list[Any]:
    return [
        *record[:3],
        *(None if one is None else b64encode(one).decode() for one in (record.key, record.value)),
    ]


def _from_json(record: list[Any]) -> Raw:
    return Raw(*record[:3], *(None if one is None else b64decode(one) for one in record[3:]))
