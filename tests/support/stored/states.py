"""States that releases stored of a few groups (golden/stored_states.json), and how to continue from them.

A history is the records and probes of one key in two parts, as bytes; a stored state is the state that a release had
after the first part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import convert, to_builtins

from groupreplay.state import Context
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from groupreplay.streaming.engine.wire import DOCUMENT_WANTED, PackedDocumentRequest, to_wire
from support.histories.raw_records import Raw, batches
from support.job.captures import rows_batch
from support.job.probes import PROBES
from support.paths import ROOT

FILE = ROOT / "tests" / "golden" / "stored_states.json"
CONTEXT = Context(cluster_id="c", era="e", complete_since_ms=1, member_events=True, probing=True)

#: Fields that states of some earlier release cannot have the value of.
_LATER: frozenset[str] = frozenset()

Json = dict[str, Any]


def load() -> Json:
    """``histories`` by name, and ``states``: by version, by history."""
    loaded: Json = json.loads(FILE.read_text()) if FILE.exists() else {"histories": {}, "states": {}}
    return loaded


def part(log: Iterable[Raw], probes: Iterable[Raw], until_ms: int) -> Json:
    """One half of a history in JSON; after it the log is known up to ``until_ms``."""
    return {"log": to_builtins(list(log)), "probes": to_builtins(list(probes)), "until_ms": until_ms}


def replay_half(key: str, blob: bytes | None, half: Json) -> tuple[bytes | None, list[OutputRow]]:
    """The state and output after one half: all records in one call, then the work that is due by the end."""
    packed = [
        blob
        for row in _packed(half)
        for name, blob in zip(row["key"].to_pylist(), row["packed"].to_pylist(), strict=True)
        if name == key.encode() and blob is not None
    ]
    rows: list[OutputRow] = []
    for now_ms in (0, half["until_ms"]):
        result = advance(key.encode(), blob, packed, now_ms=now_ms, recorded_ms=now_ms, context=CONTEXT)
        blob, packed, rows = result.blob, [], rows + result.rows
    return blob, rows


def bodies_of(rows: Sequence[OutputRow]) -> list[Json | None]:
    """Events and documents without their time of emission."""
    bodies = (None if row.value is None else json.loads(row.value) for row in rows)
    return [body and {name: body[name] for name in body if name != "recordedtime"} for body in bodies]


def known_to_all(key: str, blob: bytes | None, half: Json) -> tuple[list[Json], list[Json]]:
    """The events and the present document after a half, without what some earlier release has not stored.

    The document is asked for: one with a field that an earlier release did not know is written again.
    """
    blob, rows = replay_half(key, blob, half)
    request = to_wire(PackedDocumentRequest(True)) if key.startswith("g:") else DOCUMENT_WANTED
    at_ms = half["until_ms"]
    asked = advance(key.encode(), blob, [request], now_ms=at_ms, recorded_ms=at_ms, context=CONTEXT).rows
    documents = [
        body for body in bodies_of([row for row in asked if row.output is not Output.EVENTS]) if body
    ]
    return [_without_later(event) for event in events(rows)], [
        _without_later(document) for document in documents
    ]


def _without_later(value: Any) -> Any:
    if isinstance(value, dict):
        if "job_id" in value:
            # The document of the job has the state itself, as bytes.
            value = {**value, "state": None}
        return {name: _without_later(one) for name, one in value.items() if name not in _LATER}
    return [_without_later(one) for one in value] if isinstance(value, list) else value


def events(rows: Sequence[OutputRow]) -> list[Json]:
    """The events alone."""
    return [body for body in bodies_of([row for row in rows if row.output is Output.EVENTS]) if body]


def _packed(half: Json) -> Iterator[pa.RecordBatch]:
    log, probes = (convert(half[name], list[Raw]) for name in ("log", "probes"))
    yield from pack_probes(
        [rows_batch(probes, PROBES)], ProbeFilter(topic=PROBES, cluster_id=CONTEXT.cluster_id)
    )
    yield from pack(batches(log))
