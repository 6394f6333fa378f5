"""The messages of the job, as JSON."""

from __future__ import annotations

import hashlib
import json

from groupreplay.state import DELETED, Context
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.json_messages import dead_letter_row, event_row, state_row
from groupreplay.streaming.engine.wire import BadRecordBytes, unpack_bad_records
from support.histories.raw_records import commit, log
from support.job.packed import packed_by_key
from support.job.sink_messages import expired, stuck

CONTEXT = Context(cluster_id="c", era="e")


def bad(key: bytes, value: bytes | None) -> BadRecordBytes:
    """The one bad record that ``pack`` makes of these bytes."""
    (one,) = unpack_bad_records(packed_by_key(log([(key, value)], partition=4, first_offset=7))[b"x:4"])
    return one


def test_a_dead_letter_has_place_reason_and_bytes() -> None:
    """Everything that is needed to inspect the record later, or to decode it with another release."""
    key, value = commit("g")
    letter = bad(key, value[:5])
    row = dead_letter_row(letter, CONTEXT)
    assert (row.output, row.key) == (Output.DEAD_LETTERS, b"__consumer_offsets-4-7")
    assert json.loads(row.value or b"") == {
        "cluster_id": "c",
        "topic": "__consumer_offsets",
        "era": "e",
        "partition": 4,
        "offset": 7,
        "timestamp_ms": 7_000,
        "group_id": "g",
        "kind": "malformed",
        "key_type": 1,
        "version": 4,
        "field": "offset",
        "byte_position": 2,
        "reason": letter.record.reason,
        "key_length": 12,
        "key_sha256": hashlib.sha256(key).hexdigest(),
        "key_base64": "AAEAAWcAAXQAAAAA",
        "value_length": 5,
        "value_sha256": hashlib.sha256(value[:5]).hexdigest(),
        "value_base64": "AAQAAAA=",
    }


def test_a_tombstone_has_no_value() -> None:
    """Null is not the same as empty."""
    letter = json.loads(dead_letter_row(bad(b"\xff", None), CONTEXT).value or b"")
    assert [letter[name] for name in ("value_length", "value_sha256", "value_base64")] == [None, None, None]


def test_a_dead_letter_is_never_large() -> None:
    """Key and value of a megabyte each leave a message that any topic takes."""
    row = dead_letter_row(bad(b"\0\1" + b"\xff" * (1 << 20), bytes(1 << 20)), CONTEXT)
    assert 0 < len(row.value or b"") < 180_000


def test_an_event_row_repeats_type_and_severity() -> None:
    """The query counts by these two columns and never parses a value."""
    rows = [event_row(event, CONTEXT, 5) for event in (*stuck()[1], expired(2), expired(2, matters=False))]
    values = [json.loads(row.value or b"") for row in rows]
    assert [(row.event_type, row.severity) for row in rows] == [
        (value["type"], value["severitynumber"]) for value in values
    ]
    assert {row.severity for row in rows} == {9, 13, 17}
    assert state_row("g", DELETED, CONTEXT) == OutputRow(Output.STATES, b"g", None)
