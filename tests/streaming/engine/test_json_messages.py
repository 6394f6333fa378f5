"""The messages of the job, as JSON: none is larger than its topic allows, and none disappears without a trace."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import DELETED, Context
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.json_messages import (
    dead_letter_row,
    event_row,
    fit_rows,
    message_bytes,
    state_row,
)
from groupreplay.streaming.engine.wire import BadRecordBytes, unpack_bad_records
from support.histories.raw_records import commit, log
from support.job.packed import packed_by_key
from support.job.sink_messages import expired, stuck


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


CONTEXT = Context(cluster_id="c", era="e")
LIMIT = 2_000


def an_event(group_id: str = "g") -> OutputRow:
    """An event whose group has a long list of labels."""
    context = replace(CONTEXT, labels={f"label-{number}": "x" * 100 for number in range(100)})
    return event_row(replace(expired(3), group_id=group_id), context, 5)


def a_document(group_id: str = "g") -> OutputRow:
    """A document with many members."""
    members = [{"member_id": f"{number:060}", "client_host": "/127.0.0.1"} for number in range(200)]
    return state_row(group_id, {"cluster_id": "c", "group_id": group_id, "members": members}, CONTEXT)


def a_letter() -> OutputRow:
    """A dead letter with 20 000 bytes of a record."""
    key, value = commit("g")
    (bad,) = unpack_bad_records(packed_by_key(log([(key, value[:5])], partition=4, first_offset=7))[b"x:4"])
    return dead_letter_row(BadRecordBytes.of(bad.record, key, b"v" * 20_000, 64 * 1024), CONTEXT)


def body(row: OutputRow) -> dict[str, Any]:
    """Its JSON."""
    return dict(json.loads(row.value or b""))


@pytest.mark.parametrize("row", [an_event(), a_document(), a_letter()], ids=["event", "document", "letter"])
def test_a_message_that_is_too_large_is_shortened(row: OutputRow) -> None:
    """It fits, says so, has the same key and the same id, and is about the same thing."""
    assert message_bytes(row) > LIMIT
    ((small,), unwritten) = fit_rows([row], {row.output.value: LIMIT}, CONTEXT)
    assert (message_bytes(small) <= LIMIT, unwritten, small.output, small.key) == (
        True,
        0,
        row.output,
        row.key,
    )
    document, before = body(small), body(row)
    assert document.get("truncated") or document["data"]["truncated"]
    assert document.keys() - {"truncated"} == before.keys()
    same = ("id", "type", "source", "time", "group_id", "key_sha256", "value_sha256", "value_length")
    assert [document.get(name) for name in same] == [before.get(name) for name in same]


def test_a_shortened_letter_has_the_first_bytes() -> None:
    """Base64 that is cut in the middle of a group of four could not be decoded."""
    ((small,), _) = fit_rows([a_letter()], {"dead_letters": LIMIT}, CONTEXT)
    assert b64decode(body(small)["value_base64"], validate=True) == b"v" * 384


def test_messages_that_fit_stay_as_they_are() -> None:
    """Also beside others that do not, and in topics without a known limit."""
    rows = [an_event(), state_row("h", {"group_id": "h"}, CONTEXT), a_document()]
    assert fit_rows(rows, {}, CONTEXT) == (rows, 0)
    fitting, unwritten = fit_rows(rows, {"states": LIMIT}, CONTEXT)
    assert (list(fitting[:2]), len(fitting), unwritten) == (rows[:2], 3, 0)


@pytest.mark.parametrize(
    "row",
    [an_event("g" * 5_000), a_document("g" * 5_000), state_row("g" * 5_000, DELETED, CONTEXT)],
    ids=["event", "document", "tombstone"],
)
def test_what_cannot_be_shortened_becomes_a_dead_letter(row: OutputRow) -> None:
    """Its key alone is too large: the letter names the topic and the group, and a repeat has the same key."""
    limits = {"events": LIMIT, "states": LIMIT, "dead_letters": 4_000}
    ((letter,), unwritten) = fit_rows([row], limits, CONTEXT)
    assert (letter.output, unwritten, message_bytes(letter) <= 4_000) == (Output.DEAD_LETTERS, 0, True)
    found = body(letter)
    assert (found["kind"], found["output"], found["group_id"], found["key_sha256"]) == (
        "too_large",
        row.output.value,
        "g" * 256,
        hashlib.sha256(row.key).hexdigest(),
    )
    assert fit_rows([row], limits, CONTEXT)[0] == [letter]


def test_a_redaction_hides_the_bytes_of_such_a_letter() -> None:
    """As it does for all dead letters."""
    context = replace(CONTEXT, redaction=Redaction(frozenset({"hosts"}), b"k" * 16))
    ((letter,), _) = fit_rows([an_event("g" * 5_000)], {"events": LIMIT}, context)
    found = body(letter)
    assert [found[name] for name in ("key_base64", "value_base64", "key_sha256", "value_sha256")] == [
        None
    ] * 4


def test_what_nothing_can_be_written_of_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """An operator who allows 300 bytes gets a line and a counter, and a job that goes on."""
    rows = [an_event(), state_row("h", {"group_id": "h"}, CONTEXT)]
    fitting, unwritten = fit_rows(rows, {"events": 300, "states": 300, "dead_letters": 300}, CONTEXT)
    assert (fitting, unwritten) == (rows[1:], 1)
    assert "for events is not written: 300 are allowed" in caplog.text
