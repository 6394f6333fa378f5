"""``decode --members`` against Kafka's own ConsumerProtocol: the same JSON, and the same bytes refused."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from groupreplay.app.inspection.records import with_members
from groupreplay.codecs import (
    Assignment,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    Subscription,
    encode_blob,
)
from groupreplay.codecs.kafka_json import to_json
from support.histories.record_samples import random_blob
from support.kafka.kafka_classes import KafkaClasses
from support.tools.fuzz_target import NULL_LENGTHS, write_nulls_with

pytestmark = pytest.mark.broker

KINDS = {"subscription": Subscription, "assignment": Assignment}


def printed(name: str, raw: bytes) -> Any:
    """What is printed of these bytes in a member."""
    blobs = {"subscription": b"", "assignment": b"", name: raw}
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", rebalance_timeout_ms=1, session_timeout_ms=2, **blobs
    )
    value = GroupMetadataValue(
        version=3, protocol_type="consumer", generation=1, protocol="range", leader="m", members=(member,)
    )
    return with_members(to_json(GroupMetadataKey(group="g"), value), value)["value"]["data"]["members"][0][
        name
    ]


def damaged(random: Random, raw: bytes) -> bytes:
    """The bytes cut, with other bytes in them, with bytes behind them, or of another version."""
    at = random.randrange(len(raw))
    kind = random.randrange(5)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + random.randbytes(random.randrange(1, 4)) + raw[at + 1 :]
    if kind == 2:
        return raw + random.randbytes(3)
    if kind == 3:
        return random.choice([b"\0\1", b"\0\4", b"\x7f\xff", b"\xff\xff"]) + raw[2:]
    return random.randbytes(at)


@pytest.mark.parametrize("seed", [25, *(pytest.param(n, marks=pytest.mark.long) for n in range(5))])
def test_any_bytes(kafka: KafkaClasses, seed: int) -> None:
    """2000 whole and 4000 damaged blobs: where Kafka reads, the same values are printed; else the bytes."""
    random = Random(seed)
    given = list[tuple[str, bytes]]()
    for number in range(2_000):
        name = ("subscription", "assignment")[number % 2]
        raw = encode_blob(random_blob(random, KINDS[name]))
        given += [(name, raw), (name, damaged(random, raw)), (name, damaged(random, raw))]
    given = [(name, raw) for name, raw in given if raw]
    refused = 0
    for (name, raw), theirs in zip(given, kafka.blobs(given), strict=True):
        ours = printed(name, raw)
        if "error" in theirs:
            refused += 1
            assert ours.keys() == {"schema", "undecodable", "bytes"}, (raw, theirs)
        else:
            assert (ours.get("version"), ours.get("data")) == (theirs["version"], theirs["data"]), raw
    assert 500 < refused < len(given) - 2_000


@pytest.mark.parametrize("length", NULL_LENGTHS)
def test_lengths_of_null(kafka: KafkaClasses, length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1000 subscriptions and assignments of members, whose bytes a client wrote: the same values, or refused."""
    write_nulls_with(length, monkeypatch)
    random = Random(8)
    given = [
        (name, encode_blob(random_blob(random, kind))) for _ in range(500) for name, kind in KINDS.items()
    ]
    nulls = 0
    for (name, raw), theirs in zip(given, kafka.blobs(given), strict=True):
        ours = printed(name, raw)
        assert ("error" in theirs) == ("undecodable" in ours), (raw, ours, theirs)
        assert (ours.get("version"), ours.get("data")) == (theirs.get("version"), theirs.get("data")), raw
        nulls += theirs.get("data", {"userData": None})["userData"] is None
    assert nulls > 100, length


def test_texts_that_are_not_utf8(kafka: KafkaClasses) -> None:
    """Wrong bytes in a name: up to four of those that may begin, continue or end a character, in any order."""
    parts = [
        b"\x80",
        b"\x9f",
        b"\xa0",
        b"\xbf",
        b"\xc0",
        b"\xc3",
        b"\xe0",
        b"\xe6",
        b"\xed",
        b"\xf0",
        b"\xf4",
        b"\xf5",
        b"a",
    ]
    names = [b"".join(some) for count in (1, 2, 3, 4) for some in product(parts, repeat=count)]
    given = [
        ("subscription", b"\0\0\0\0\0\1\0" + bytes([len(name)]) + name + b"\xff\xff\xff\xff")
        for name in names
    ]
    differ = [
        name
        for name, (kind, raw), theirs in zip(names, given, kafka.blobs(given), strict=True)
        if printed(kind, raw)["data"] != theirs["data"]
    ]
    assert differ == []


def test_the_comparison_can_fail(kafka: KafkaClasses) -> None:
    """Other topics are other JSON, and cut bytes are an error."""
    raw = encode_blob(Subscription(version=1, topics=("t",)))
    right, other, cut = kafka.blobs(
        [("subscription", raw), ("subscription", raw.replace(b"t", b"u")), ("subscription", raw[:-1])]
    )
    assert (right["data"]["topics"], other["data"]["topics"], "error" in cut) == (["t"], ["u"], True)
