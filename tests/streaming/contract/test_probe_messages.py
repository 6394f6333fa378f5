"""What stands in the topic of probes, both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import pytest

from groupreplay.state.job.observations import ObservationPlace, OpenTransaction
from groupreplay.state.snapshot.observations import OwnSettingsAnswer, PendingTransaction, PendingTransactions
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    DocumentRequest,
    GroupAnswer,
    GroupSettingsAnswer,
    GroupTransactionsAnswer,
    HeartbeatMessage,
    JobDocumentsRequest,
    MemberAnswer,
    ProbeMessage,
    RoundSummary,
    decode_message,
    encode_message,
)

ANSWER = GroupAnswer(
    cluster_id="c",
    group_id="größe",
    taken_ms=5,
    state="PreparingRebalance",
    broker=3,
    protocol_type="consumer",
    protocol="",
    members=(MemberAnswer(member_id="m", instance_id=None, client_id="a", client_host="/h"),),
)
ROUND = RoundSummary(
    cluster_id="c",
    taken_ms=6,
    brokers={1: None, 2: "timed out"},
    rights="ok",
    partitions={0: (9, 7)},
    partition_count=50,
    groups=1,
    leaders={0: 2},
    transactions=(OpenTransaction(0, 9, 1, 7, ("g",)),),
)
BEAT = HeartbeatMessage(
    cluster_id="c",
    era="e",
    job_id="j",
    run_id="r",
    at_ms=8,
    caught_up_ms=None,
    offsets={4: 1},
    high_watermarks={4: 3},
    clock_off_ms=-7,
    unanswered=(4,),
    query_stopped_ms=2,
    query_error="x",
    told_to=5,
)
CLOCK = ClockReading(cluster_id="c", at_ms=9)
REQUEST = DocumentRequest(cluster_id="c", run_id="r", group_id="größe", in_topic=True)


@pytest.mark.parametrize(
    ("message", "key", "document"),
    [
        (
            ANSWER,
            "größe".encode(),
            {
                "kind": "group",
                "cluster_id": "c",
                "group_id": "größe",
                "taken_ms": 5,
                "state": "PreparingRebalance",
                "broker": 3,
                "protocol_type": "consumer",
                "protocol": "",
                "members": [{"member_id": "m", "instance_id": None, "client_id": "a", "client_host": "/h"}],
                "truncated": False,
                "interval_ms": 10_000,
                "unseen_ms": None,
                "answered_ms": None,
                "ahead_ms": None,
                "kept": False,
            },
        ),
        (
            ROUND,
            b"\0",
            {
                "kind": "round",
                "cluster_id": "c",
                "taken_ms": 6,
                "brokers": {"1": None, "2": "timed out"},
                "rights": "ok",
                "partitions": {"0": [9, 7]},
                "partition_count": 50,
                "groups": 1,
                "job_id": None,
                "leaders": {"0": 2},
                "transactions": [[0, 9, 1, 7, ["g"]]],
            },
        ),
        (
            BEAT,
            b"\0",
            {
                "kind": "heartbeat",
                "cluster_id": "c",
                "era": "e",
                "job_id": "j",
                "run_id": "r",
                "at_ms": 8,
                "caught_up_ms": None,
                "offsets": {"4": 1},
                "unmissed_expired": 0,
                "dead_letters": 0,
                "quarantined": 0,
                "release": "",
                "retries": False,
                "high_watermarks": {"4": 3},
                "clock_off_ms": -7,
                "unanswered": [4],
                "query_stopped_ms": 2,
                "query_error": "x",
                "told_to": 5,
            },
        ),
        (
            GroupSettingsAnswer(
                cluster_id="c", group_id="größe", taken_ms=5, settings={"share.session.timeout.ms": 7}
            ),
            "größe".encode(),
            {
                "kind": "settings",
                "cluster_id": "c",
                "group_id": "größe",
                "taken_ms": 5,
                "settings": {"share.session.timeout.ms": 7},
                "interval_ms": 10_000,
            },
        ),
        (
            GroupTransactionsAnswer(
                cluster_id="c",
                group_id="größe",
                taken_ms=5,
                transactions=(PendingTransaction(7, 5, 4, 9, 1, 3, (("t", "0-1"),), 2),),
            ),
            "größe".encode(),
            {
                "kind": "transactions",
                "cluster_id": "c",
                "group_id": "größe",
                "taken_ms": 5,
                "transactions": [[7, 5, 4, 9, 1, 3, [["t", "0-1"]], 2]],
                "interval_ms": 10_000,
            },
        ),
        (CLOCK, b"\0", {"kind": "clock", "cluster_id": "c", "at_ms": 9}),
        (
            REQUEST,
            "größe".encode(),
            {"kind": "document", "cluster_id": "c", "run_id": "r", "group_id": "größe", "in_topic": True},
        ),
        (
            JobDocumentsRequest(cluster_id="c", run_id="r", partitions=50),
            b"\0",
            {"kind": "job_documents", "cluster_id": "c", "run_id": "r", "partitions": 50},
        ),
    ],
    ids=["group", "round", "heartbeat", "settings", "transactions", "clock", "document", "job_documents"],
)
def test_the_wire_format(message: ProbeMessage, key: bytes, document: dict[str, object]) -> None:
    """Others read this topic, too: keys and fields are part of the contract."""
    encoded = encode_message(message)
    assert (encoded[0], json.loads(encoded[1])) == (key, document)
    assert decode_message(*encoded) == message


def test_a_group_with_very_many_members_fits() -> None:
    """As many members as fit into 64 KiB are kept, the first ones, and ``truncated`` is set."""
    many = tuple(
        MemberAnswer(member_id=f"member-{number}", instance_id=None, client_id="a" * 200, client_host="/h")
        for number in range(1_000)
    )
    key, value = encode_message(msgspec.structs.replace(ANSWER, members=many))
    decoded = decode_message(key, value)
    assert isinstance(decoded, GroupAnswer)
    assert len(value) <= 64 * 1024
    assert decoded.truncated
    assert decoded.members == many[: len(decoded.members)]
    assert len(decoded.members) > 100


def test_a_topic_may_demand_less() -> None:
    """An answer keeps fewer members, a heartbeat has no high watermarks; what it says about the job stays."""
    members = tuple(
        MemberAnswer(member_id=f"m{number}", instance_id=None, client_id="c" * 50, client_host="h")
        for number in range(100)
    )
    answer = GroupAnswer(
        cluster_id="c",
        group_id="g",
        taken_ms=1,
        state="Stable",
        broker=1,
        protocol_type="consumer",
        protocol="range",
        members=members,
    )
    key, value = encode_message(answer, 2_000)
    assert (len(value) <= 2_000, decode_message(key, value)) == (
        True,
        msgspec.structs.replace(answer, members=members[:12], truncated=True),
    )
    beat = HeartbeatMessage(
        cluster_id="c",
        era="e",
        job_id="j",
        run_id="r",
        at_ms=1,
        caught_up_ms=1,
        offsets={0: 5},
        high_watermarks=dict.fromkeys(range(1000), 10**12),
    )
    assert decode_message(*encode_message(beat)) == beat
    assert decode_message(*encode_message(beat, 2_000)) == msgspec.structs.replace(beat, high_watermarks={})


def numbers(value: object) -> Iterator[bytes]:
    """A document once for each number and each numeric key in it, with a number there that is far too large."""
    text = json.dumps(value)
    for found in re.finditer(r'(?<=[ \["])-?\d+(?=[,"\]}])', text):
        yield (text[: found.start()] + "9" * 30 + text[found.end() :]).encode()


@pytest.mark.parametrize(
    "message", [ANSWER, ROUND, BEAT, CLOCK], ids=["group", "round", "heartbeat", "clock"]
)
def test_no_number_is_too_large_for_what_follows(message: ProbeMessage) -> None:
    """A row that cannot be packed would end the batch, and each batch after it."""
    key, value = encode_message(message)
    documents = list(numbers(msgspec.to_builtins(json.loads(value))))
    assert len(documents) >= len(re.findall(rb":-?\d", value)) > 0
    assert [decode_message(key, document) for document in documents] == [None] * len(documents)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ()),
        (
            {"consumer.session.timeout.ms": 8_000, "consumer.heartbeat.interval.ms": 2_000},
            (("consumer.heartbeat.interval.ms", 2_000), ("consumer.session.timeout.ms", 8_000)),
        ),
        # Of a later release, or of another program.
        ({"consumer.session.timeout.ms": -1, "streams.num.standby.replicas": 1}, ()),
    ],
)
def test_the_settings_of_a_group(settings: dict[str, int], expected: tuple[tuple[str, int], ...]) -> None:
    """Those that something rests on, in order; a number that is no time is none."""
    message = GroupSettingsAnswer(cluster_id="c", group_id="größe", taken_ms=5, settings=settings)
    assert decode_message(*encode_message(message)) == message
    assert message.observation(ObservationPlace("p", 1, 2), 7) == OwnSettingsAnswer(
        taken_ms=5, topic="p", partition=1, offset=2, written_ms=7, settings=expected
    )


VALUE = encode_message(ANSWER)[1]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        (b"another", VALUE),
        ("größe".encode(), None),
        ("größe".encode(), b"\xff\xfe not json"),
        ("größe".encode(), b"[" * 100_000),
        ("größe".encode(), b"{}"),
        ("größe".encode(), VALUE.replace(b'"group"', b'"surprise"')),
        ("größe".encode(), VALUE.replace(b":5,", b":-5,")),
        ("größe".encode(), VALUE.replace(b":5,", b":9223372036854775807,")),
        ("größe".encode(), VALUE.replace(b":5,", b':"soon",')),
        (b"\xed\xa0\x80", VALUE.replace("größe".encode(), b"\\ud800")),
        (b"key", encode_message(ROUND)[1]),
        (b"\0", encode_message(ROUND)[1].replace(b"[9,7]", b"[9]")),
        (b"\0", VALUE),
        (b"\0", encode_message(REQUEST)[1]),
        (b"\0", b'{"kind":"job_documents","cluster_id":"c","run_id":"r","partitions":1000000000}'),
    ],
)
def test_what_is_none_of_ours(key: bytes | None, value: bytes | None) -> None:
    """Anybody may write there: another key, no JSON, other fields, impossible times; never an exception."""
    assert decode_message(key, value) is None


def test_transactions_as_their_group_applies_them() -> None:
    """They were open when the round was taken, and are known once the answer is in the topic."""
    transactions = (PendingTransaction(7, 5, 4, 9, 1, 3, (("t", "0-1"),), 2),)
    answer = GroupTransactionsAnswer(cluster_id="c", group_id="g", taken_ms=5, transactions=transactions)
    seen = answer.observation(ObservationPlace("p", 1, 2), 8)
    assert seen == PendingTransactions(
        taken_ms=5,
        topic="p",
        partition=1,
        offset=2,
        written_ms=8,
        transactions=transactions,
    )
    assert seen.heard_ms == 8
