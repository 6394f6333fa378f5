"""Messages that anybody may have written: their decoder, the values in ``group-job``, the fields that readers need."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.streaming.contract.messages import (
    CONDITIONS_KEY,
    JOB_KEY,
    OBJECTS,
    OWNER_KEY,
    STATE_KEY,
    BadRecordCounts,
    ConditionForm,
    EventHead,
    GroupHead,
    Integer,
    JobConditions,
    JobDocument,
    JobStateMessage,
    KindCount,
    LastBatch,
    LastProbe,
    MessageDecoder,
    OffsetSums,
    OwnerClaim,
    bad_records_key,
    decode_run_message,
    decode_state_message,
)
from support.job.sink_messages import document, events, stuck
from support.tools.hostile_json import BYTES


class Number(msgspec.Struct):
    """A message with one number."""

    number: Integer


def test_a_message_or_none() -> None:
    """A message of the kind is decoded; a tombstone, another kind and a number that does not fit are None."""
    decoder = MessageDecoder[Number](Number)
    values = (b'{"number":5,"more":[]}', None, b'{"number":"5"}', b'{"number":1' + b"0" * 400 + b"}")
    assert [decoder.decode(value) for value in values] == [Number(5), None, None, None]


def test_no_bytes_raise() -> None:
    """Whatever the bytes are: those of the corpus are None or an object, and no exception leaves the decoder."""
    decoders = [OBJECTS, MessageDecoder(Number), MessageDecoder(dict[str, list[int]]), MessageDecoder(str)]
    found = [decoder.decode(value) for decoder in decoders for value in BYTES]
    assert {type(one) for one in found} == {type(None), dict, str}


def test_objects_are_checked_as_a_whole() -> None:
    """Invalid UTF-8 is found in every text, also where a struct would skip the field."""
    hidden = b'{"number":5,"more":"\xff"}'
    assert OBJECTS.decode(hidden) is None
    assert MessageDecoder[Number](Number).decode(hidden) == Number(5)


def test_the_order_of_the_fields() -> None:
    """The JSON has every field, in the order that the documentation shows."""
    document = JobDocument(
        heartbeat_ms=5,
        trigger_seconds=10,
        batch=LastBatch(id=1, seconds=0.5, rows=2),
        prober=LastProbe(round_ms=3, rights="ok", brokers={"1": None}, groups=4),
    )
    assert msgspec.json.encode(document).decode() == (
        '{"cluster_id":"","topic":"","era":"","job_id":"","run_id":"","version":"","first_start_ms":0,'
        '"started_ms":0,"heartbeat_ms":5,"phase":"","caught_up_ms":null,"trigger_seconds":10,'
        '"lag":{"offsets":0,"partitions":{}},"batch":{"id":1,"seconds":0.5,"rows":2,"phases":{},"state":null},"state_rows":0,'
        '"counters":{},"record_types":{},"restarts":0,"last_error":null,"rules":{"changes":0,"error":null},'
        '"prober_restarts":0,"prober":{"round_ms":3,"rights":"ok","brokers":{"1":null},"groups":4},'
        '"clock_off_ms":null,"host":"","checkpoint":"",'
        '"query":{"running":true,"since_ms":null,"error":null},"once":false,"settled":true,"hides_names":null}'
    )


@pytest.mark.parametrize(
    "value",
    [
        JobDocument(heartbeat_ms=5, trigger_seconds=1.5, caught_up_ms=4),
        JobConditions("c", [{"condition": "job.blind"}]),
        BadRecordCounts("c", 3, [KindCount(kind="malformed", key_type=None, records=2)]),
        OwnerClaim(run_id="r", host="h"),
        JobStateMessage(cluster_id="c", job_id="j", state=b"\x03\x01\xff"),
    ],
)
def test_what_is_written_is_read(value: msgspec.Struct) -> None:
    """Decoding is the inverse of encoding."""
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


def test_a_document_of_another_release() -> None:
    """Missing fields have their defaults, unknown ones are ignored; without a heartbeat it is no document."""
    text = b'{"heartbeat_ms": 5, "trigger_seconds": 10, "later": [1]}'
    assert msgspec.json.decode(text, type=JobDocument) == JobDocument(heartbeat_ms=5, trigger_seconds=10)
    with pytest.raises(msgspec.ValidationError, match="heartbeat_ms"):
        msgspec.json.decode(b'{"trigger_seconds": 10}', type=JobDocument)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (OWNER_KEY, b'{"run_id":"r"}', OwnerClaim(run_id="r")),
        (
            JOB_KEY,
            b'{"heartbeat_ms":5,"trigger_seconds":1}',
            JobDocument(heartbeat_ms=5, trigger_seconds=1),
        ),
        (CONDITIONS_KEY, b'{"run_id":"r"}', None),
        (OWNER_KEY, b"{}", None),
        (OWNER_KEY, None, None),
        (None, b'{"run_id":"r"}', None),
        (JOB_KEY, b"\xff{", None),
        (JOB_KEY, b"[" * 100_000, None),
    ],
)
def test_what_runs_write(key: bytes | None, value: bytes | None, expected: msgspec.Struct | None) -> None:
    """Documents and claims are found by their keys; whatever else is in the topic is none of them."""
    assert decode_run_message(key, value) == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (STATE_KEY, b'{"job_id":"j","state":"AwE="}', JobStateMessage(job_id="j", state=b"\x03\x01")),
        (STATE_KEY, b'{"job_id":"j","state":"no base64!"}', None),
        (STATE_KEY, b'{"job_id":"j"}', None),
        (STATE_KEY, None, None),
        (JOB_KEY, b'{"job_id":"j","state":"AwE="}', None),
    ],
)
def test_the_state_of_the_conditions(
    key: bytes | None, value: bytes | None, expected: JobStateMessage | None
) -> None:
    """It has a key of its own; whatever somebody else writes there is no state, and no run reads it as its own."""
    assert decode_state_message(key, value) == expected
    assert decode_run_message(STATE_KEY, value) is None


def test_the_key_of_counts() -> None:
    """One key for each partition; no group id begins so."""
    assert bad_records_key("__consumer_offsets", 3) == b"\0__consumer_offsets-3"


GROUP, EMITTED = stuck()
DOCUMENT = msgspec.json.decode(document(GROUP))


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (EventHead, msgspec.json.decode(events(EMITTED)[0])),
        (GroupHead, DOCUMENT),
        (OffsetSums, DOCUMENT["offsets"]),
        (ConditionForm, DOCUMENT["conditions"][0]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_is_written(form: type[msgspec.Struct], written: dict[str, object]) -> None:
    """Under the same name and with a value of its type: a default would hide that it is missing."""
    assert {*form.__struct_fields__} - written.keys() == set()
    decoded = msgspec.to_builtins(msgspec.convert(written, form))
    nested = {"offsets"}
    assert {name: value for name, value in decoded.items() if name not in nested} == {
        name: written[name] for name in form.__struct_fields__ if name not in nested
    }
