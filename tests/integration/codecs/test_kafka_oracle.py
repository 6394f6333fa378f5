"""Our codecs against the classes that brokers of 4.3.1 and 4.4.0 themselves read and write with."""

from __future__ import annotations

from random import Random

import pytest

from groupreplay.codecs import (
    REGISTRY,
    Key,
    Malformed,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from groupreplay.codecs.consumer import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicIdPartitions,
)
from groupreplay.codecs.kafka_json import to_json
from support.histories.record_samples import random_record, with_unknown_tags
from support.kafka.kafka_classes import KafkaClasses
from support.tools.fuzz_target import NULL_LENGTHS, write_nulls_with

pytestmark = pytest.mark.broker

#: Written by the previews 3.9 and 4.0 only; an unknown type to every later broker.
UNKNOWN_TO_KAFKA = {9}
#: Tagged fields that a later release added: bytes that this one keeps, but does not print.
NEWER = {
    "4.3.1": {
        "storedDescriptionTopologyEpoch": "stored_description_topology_epoch",
        "failedDescriptionTopologyEpoch": "failed_description_topology_epoch",
    },
    "4.4.0": {},
}

#: No broker writes these varints, and nobody else writes varints: ours refuse them, Kafka reads null.
REFUSED = ("is a varint of more than 31 bits", "is a varint padded with zeros")

_BATCH = 2_000


def compare(kafka: KafkaClasses, records: list[tuple[Key, Value | None]], random: Random) -> None:
    """Both directions of each record, and the same once more with tags of a later release."""
    ours = [(encode_key(key), None if value is None else encode_value(value)) for key, value in records]
    printed, newer = [to_json(key, value) for key, value in records], NEWER[kafka.release]
    # Our bytes -> their value, and that value's bytes.
    for reading, bytes_, expected in zip(kafka.read(ours), ours, printed, strict=True):
        for name in newer:
            if expected["value"] is not None:
                expected["value"]["data"].pop(name, None)
        assert reading.json == expected
        assert (reading.key, reading.value) == bytes_
    # Their bytes for the same content -> our value.
    for (key, value), theirs, expected in zip(records, kafka.write(printed), printed, strict=True):
        read = decode_key(theirs[0])
        assert read == key
        if theirs[1] is not None and not any(getattr(value, name, -1) != -1 for name in newer.values()):
            assert decode_value(key, theirs[1]) == value
        assert to_json(key, decode_value(key, theirs[1])) == expected  # type: ignore[arg-type]
    tagged = [
        (key, with_unknown_tags(random, value))
        for key, value in records[:: max(1, len(records) // 200)]
        if value is not None and value.FLEXIBLE_SINCE is not None and value.version >= value.FLEXIBLE_SINCE
    ]
    ours = [(encode_key(key), encode_value(value)) for key, value in tagged]
    assert [(reading.key, reading.value) for reading in kafka.read(ours)] == ours
    assert [decode_value(key, bytes_[1]) for (key, _), bytes_ in zip(tagged, ours, strict=True)] == [
        value for _, value in tagged
    ]


def generated(random: Random, many: int) -> list[tuple[Key, Value | None]]:
    """Equally many records of every type that both releases know."""
    types = sorted(set(REGISTRY) - UNKNOWN_TO_KAFKA)
    return [random_record(random, types[index % len(types)]) for index in range(many)]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kafka", NEWER, indirect=True)
@pytest.mark.parametrize(
    "seed", [431, *(pytest.param(f"long {number}", marks=pytest.mark.long) for number in range(10))]
)
def test_6000_generated_records_agree_with_kafka(kafka: KafkaClasses, seed: int | str) -> None:
    """All types, versions, nulls, tags and lengths: the same values and bytes in both directions."""
    random = Random(seed)
    for _ in range(3):
        compare(kafka, generated(random, _BATCH), random)


@pytest.mark.parametrize("length", NULL_LENGTHS)
def test_lengths_of_null(kafka: KafkaClasses, length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2000 records of every type and version, with nulls: both read null, or both refuse the record."""
    write_nulls_with(length, monkeypatch)
    random, types = Random(7), sorted(set(REGISTRY) - UNKNOWN_TO_KAFKA)
    records = [random_record(random, types[number % len(types)]) for number in range(2_000)]
    given = [(key, encode_value(value)) for key, value in records if value is not None]
    read = refused = 0
    for (key, raw), theirs in zip(given, kafka.read([(encode_key(k), raw) for k, raw in given]), strict=True):
        ours = decode_value(key, raw)
        if isinstance(ours, Malformed):
            refused += 1
            assert "error" in theirs.json or ours.reason in REFUSED, (raw, ours, theirs)
            continue
        read += 1
        expected = to_json(key, ours)  # type: ignore[arg-type]
        for name in NEWER[kafka.release]:
            expected["value"]["data"].pop(name, None)
        assert theirs.json == expected, raw
    assert min(read, refused) > 100, length


def test_the_comparison_can_fail(kafka: KafkaClasses) -> None:
    """A wrong byte is noticed: Kafka reads another offset, or refuses the value."""
    key = bytes.fromhex("000100016700017400000007")
    good = bytes.fromhex("0004000000000000000500000009026d000000000000000100")
    wrong = good[:9] + b"\x06" + good[10:]
    right, other, cut = kafka.read([(key, good), (key, wrong), (key, good[:-1])])
    assert right.json["value"]["data"]["offset"] == 5
    assert other.json["value"]["data"]["offset"] == 6
    assert "error" in cut.json


@pytest.mark.parametrize("kafka", NEWER, indirect=True)
def test_more_than_kafka_4_4_reads(kafka: KafkaClasses) -> None:
    """More than a million elements or 10,000 tagged fields: 4.4 refuses both, ours for their memory; 4.3 reads them."""
    key = ConsumerGroupTargetAssignmentMemberKey(group="g", member_id="m")
    topic = TopicIdPartitions(topic_id=bytes(16), partitions=tuple(range(1_000_001)))
    tags = tuple((tag, b"") for tag in range(10_001))
    for topics, unknown, words in (
        ((topic,), (), "a collection of size 1000001, which exceeds"),
        ((), tags, "10001 tagged fields, which exceeds"),
    ):
        value = ConsumerGroupTargetAssignmentMemberValue(
            version=0, topic_partitions=topics, unknown_tags=unknown
        )
        raw = encode_value(value)
        (reading,) = kafka.read([(encode_key(key), raw)])
        ours = decode_value(key, raw)
        assert isinstance(ours, Malformed)
        assert "would take more memory" in ours.reason
        if kafka.release == "4.3.1":
            assert reading.value == raw
        else:
            assert words in reading.json["error"]
