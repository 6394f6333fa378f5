"""What is written about a record that could not be used."""

from __future__ import annotations

import hashlib
import json

from groupreplay.state import Context
from groupreplay.streaming.engine.dead_letters import dead_letter, dead_letter_key
from groupreplay.streaming.engine.pack import pack
from groupreplay.streaming.engine.wire import BadRecordBytes, unpack_bad_records
from support.histories.raw_records import batches, commit, log

CONTEXT = Context(cluster_id="c", era="e")


def bad(key: bytes, value: bytes | None) -> BadRecordBytes:
    """The one bad record that ``pack`` makes of these bytes."""
    (batch,) = pack(batches(log([(key, value)], partition=4, first_offset=7)))
    (one,) = unpack_bad_records(batch["packed"].to_pylist())
    return one


def test_a_dead_letter_has_place_reason_and_bytes() -> None:
    """Everything that is needed to look at the record later, or to decode it with another release."""
    key, value = commit("g")
    letter = bad(key, value[:5])
    assert dead_letter_key(letter) == b"__consumer_offsets-4-7"
    assert json.loads(dead_letter(letter, CONTEXT)) == {
        "cluster_id": "c",
        "topic": "__consumer_offsets",
        "era": "e",
        "partition": 4,
        "offset": 7,
        "timestamp_ms": 7_000,
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
    letter = json.loads(dead_letter(bad(b"\xff", None), CONTEXT))
    assert [letter[name] for name in ("value_length", "value_sha256", "value_base64")] == [None, None, None]


def test_a_dead_letter_is_never_large() -> None:
    """Key and value of a megabyte each leave a message that any topic takes."""
    assert len(dead_letter(bad(b"\0\1" + b"\xff" * (1 << 20), bytes(1 << 20)), CONTEXT)) < 180_000
