"""The versions that coordinators write, beside the bounds of Kafka 3.9's own code, and what each version has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupreplay.codecs import (
    PROTOCOL_VERSIONS,
    REGISTRY,
    WRITTEN_SINCE,
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    LegacyOffsetCommitKey,
    Malformed,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    Skipped,
    Value,
    as_written,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    written_version,
)
from groupreplay.codecs.errors import EncodeError
from groupreplay.codecs.kafka_json import to_json
from support.paths import ROOT

MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=2,
    session_timeout_ms=1,
    subscription=b"s",
    assignment=b"a",
)
GROUP = GroupMetadataValue(
    version=3,
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="m",
    current_state_timestamp_ms=5,
    members=(MEMBER,),
)
OFFSET = OffsetCommitValue(
    version=4,
    offset=7,
    leader_epoch=3,
    metadata="x",
    commit_timestamp_ms=1,
    expire_timestamp_ms=9,
    topic_id=bytes(15) + b"t",
)

KEYS: dict[type[Value], Key] = {
    GroupMetadataValue: GroupMetadataKey(group="g"),
    OffsetCommitValue: OffsetCommitKey(group="g", topic="t", partition=0),
}


@pytest.mark.parametrize(
    ("release", "group", "offset"),
    [
        ("0.9.0", 0, 1),
        ("0.10.0", 0, 1),
        ("0.10.1", 1, 1),
        ("2.0", 1, 1),
        ("2.1-IV0", 2, 2),
        ("2.1-IV1", 2, 3),
        ("2.1", 2, 3),
        ("2.2", 2, 3),
        ("2.3", 3, 3),
        ("3.9", 3, 3),
        ("4.0", 3, 3),
        ("4.1", 3, 4),
    ],
)
def test_thresholds(release: str, group: int, offset: int) -> None:
    """On both sides of each."""
    assert [written_version(kind, release) for kind in (GroupMetadataValue, OffsetCommitValue)] == [
        group,
        offset,
    ]


def test_versions_never_decrease() -> None:
    """A later release writes the same version or a higher one; a release that nobody knows has none."""
    for kind in WRITTEN_SINCE:
        versions = [written_version(kind, release) for release in PROTOCOL_VERSIONS]
        assert versions == sorted(versions)
        with pytest.raises(KeyError):
            written_version(kind, "5.0")


@pytest.mark.parametrize("value", [GROUP, OFFSET], ids=["group", "offset"])
@pytest.mark.parametrize("version", range(5))
def test_a_value_as_written_is_what_its_bytes_have(value: Value, version: int) -> None:
    """No field is kept that the version does not have."""
    written = as_written(value, version)
    assert written.version == version
    assert decode_value(KEYS[type(value)], encode_value(written)) == written


GOLDEN: list[dict[str, Any]] = json.loads(
    (ROOT / "tests" / "golden" / "records.json").read_text(encoding="utf-8")
)["rows"]

COMMIT = OffsetCommitKey(group="g", topic="t", partition=7)
GROUP_KEY = GroupMetadataKey(group="g")


def as_bytes(text: str | None) -> bytes | None:
    """Hex or null."""
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("row", GOLDEN, ids=[row["record"] for row in GOLDEN])
def test_golden_rows(row: dict[str, Any]) -> None:
    """Kafka's bytes give the value that Kafka prints, and the value gives Kafka's bytes."""
    key = decode_key(as_bytes(row["key"]))
    assert isinstance(key, Key)
    value = decode_value(key, as_bytes(row["value"]))
    assert value is None or isinstance(value, Value)
    assert to_json(key, value) == row["json"]
    assert encode_key(key).hex() == row["key"]
    assert (None if value is None else encode_value(value).hex()) == row["value"]


def test_every_type_has_a_golden_row() -> None:
    """The rows cover every type but the dropped preview 9 and those that are twins of a covered one."""
    covered = {row["json"]["key"]["type"] for row in GOLDEN}
    twins = {12: 6, 13: 7, 14: 8, 20: 6}
    assert set(REGISTRY) - covered == {9, *twins}
    assert set(twins.values()) <= covered


def test_the_types_of_kafka_4_4() -> None:
    """0 to 8, 10 to 17 and 19 to 23, and 9 of the previews."""
    assert sorted(REGISTRY) == [*range(18), *range(19, 24)]


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (None, Malformed(None, None, "type", 0, "needs 2 bytes, 0 are left")),
        (b"", Malformed(None, None, "type", 0, "needs 2 bytes, 0 are left")),
        (b"\x00", Malformed(None, None, "type", 0, "needs 2 bytes, 1 are left")),
        (b"\x00\xff", Skipped(255, None, "record type 255 is not known")),
        (b"\xff\xff", Skipped(-1, None, "record type -1 is not known")),
        (b"\x00\x12\x00\x01g", Skipped(18, None, "record type 18 is not known")),
        (b"\x00\x02", Malformed(2, None, "group", 2, "needs 2 bytes, 0 are left")),
        (b"\x00\x02\xff\xff", Malformed(2, None, "group", 2, "is null, which this field may not be")),
        (b"\x00\x01\x00\x01g\x00\x01t", Malformed(1, None, "partition", 8, "needs 4 bytes, 0 are left")),
    ],
)
def test_keys_that_give_no_record(data: bytes | None, outcome: Skipped | Malformed) -> None:
    """No key at all and short ones are malformed with the place, unknown types are skipped."""
    assert decode_key(data) == outcome


@pytest.mark.parametrize(
    ("key", "data", "outcome"),
    [
        (GROUP_KEY, None, None),
        (GROUP_KEY, b"", Malformed(2, None, "version", 0, "needs 2 bytes, 0 are left")),
        (GROUP_KEY, b"\x00\x05", Skipped(2, 5, "version 5 of GroupMetadataValue is not known")),
        (GROUP_KEY, b"\xff\xff", Skipped(2, -1, "version -1 of GroupMetadataValue is not known")),
        (COMMIT, b"\x00\x03" + bytes(8), Malformed(1, 3, "leader_epoch", 10, "needs 4 bytes, 0 are left")),
    ],
)
def test_values_that_give_no_record(
    key: Key, data: bytes | None, outcome: Skipped | Malformed | None
) -> None:
    """None is a tombstone, empty bytes are not; unknown versions are skipped, never read as another."""
    assert decode_value(key, data) == outcome


def test_the_broken_member_is_named() -> None:
    """The path of a malformed field leads through the members."""
    row = next(row for row in GOLDEN if row["record"].startswith("2 group, v3: consumer"))
    assert decode_value(GROUP_KEY, bytes.fromhex(row["value"])[:-1]) == Malformed(
        2, 3, "members[0].assignment", 69, "needs 1 bytes, 0 are left"
    )


def test_leftover_bytes_are_kept() -> None:
    """Kafka ignores bytes behind a record; they come back. Under a key they make no other key."""
    data = bytes.fromhex("0000000000000000000500016d0000000000000001") + b"junk"
    value = decode_value(COMMIT, data)
    assert value == OffsetCommitValue(
        version=0, offset=5, metadata="m", commit_timestamp_ms=1, leftover=b"junk"
    )
    assert encode_value(value) == data  # type: ignore[arg-type]
    key = decode_key(encode_key(GROUP_KEY) + b"junk")
    assert key == GROUP_KEY
    assert encode_key(key) == encode_key(GROUP_KEY) + b"junk"  # type: ignore[arg-type]


def test_any_version_is_read_under_the_legacy_key() -> None:
    """Kafka 4.1 and later refuse versions above 0 under type 0; brokers up to 4.0 read them, and so do we."""
    legacy = LegacyOffsetCommitKey(group="g", topic="t", partition=7)
    data = bytes.fromhex("000300000000000000050000000900016d0000000000000001")
    assert decode_value(legacy, data) == OffsetCommitValue(
        version=3, offset=5, leader_epoch=9, metadata="m", commit_timestamp_ms=1
    )


def test_versions_that_cannot_be_written() -> None:
    """Only declared versions are written."""
    value = OffsetCommitValue(version=5, offset=5, metadata="", commit_timestamp_ms=1)
    with pytest.raises(EncodeError, match="OffsetCommitValue has no version 5"):
        encode_value(value)


def test_a_value_needs_its_fields() -> None:
    """Fields without a default must be given, by name."""
    with pytest.raises(TypeError, match="members"):
        GroupMetadataValue(version=3, protocol_type="", generation=0, protocol=None, leader=None)  # type: ignore[call-arg]


#: Bodies of previews, by the schemas inside the jars of 3.7.2, 3.9.1 and 4.0.0: (type, bytes, content).
EARLY = [
    (4, "0000" + "00000007" + "02" + "00" * 16 + "0274" + "00000003" + "01" + "00" + "00", {"epoch": 7}),
    (5, "0000" + "00" + "00" + "0263" + "0268" + "01" + "00" + "0000001e" + "00" + "01" + "00", {}),
    (
        7,
        "0000" + "00" + "02" + "01" * 16 + "02" + "00000000" + "00" + "0001" + "02ff" + "00",
        {"metadataVersion": 1},
    ),
    (
        8,
        "0000" + "00000005" + "00000004" + "00000006" + "01" * 3 + "00" + "0000" + "01" + "00",
        {"targetMemberEpoch": 6},
    ),
    (9, "0000" + "01" + "02" + "01" * 16 + "0274" + "00" + "00", {"initializedTopics": []}),
    (11, "0000" + "00000005" + "00", {"epoch": 5}),
    (15, "0000" + "01" + "01" + "00", {"initializedTopics": [], "deletingTopics": []}),
]


@pytest.mark.parametrize(("key_type", "data", "content"), EARLY, ids=[str(row[0]) for row in EARLY])
def test_bodies_of_previews(key_type: int, data: str, content: dict[str, Any]) -> None:
    """Bytes that only the preview's body accounts for are read as that body and written back."""
    fields = {"group": "g"} | ({"member_id": "m"} if key_type in {5, 7, 8} else {})
    key = REGISTRY[key_type][0](**fields)
    value = decode_value(key, bytes.fromhex(data))
    assert isinstance(value, Value)
    assert value.early
    assert encode_value(value).hex() == data
    printed = to_json(key, value)["value"]["data"]
    assert {name: printed[name] for name in content} == content


def test_a_preview_has_no_classic_part() -> None:
    """A 3.7 member has no classic part: None, not the empty one that a missing tag stands for today."""
    key = REGISTRY[5][0](group="g", member_id="m")  # type: ignore[call-arg]
    value = decode_value(key, bytes.fromhex(EARLY[1][1]))
    assert getattr(value, "classic_member_metadata", "missing") is None


@pytest.mark.parametrize(
    ("key_type", "data", "doubt"),
    [
        # Today: no topics, one tag of a later release. Early: error 1, no topics, a version, two bytes.
        (7, "0000" + "01" + "01" + "0a04" + "037878" + "00", "two bodies fit the bytes"),
        (
            8,
            "0000" + "00000005" + "00000004" + "00" + "01" + "01" + "00" + "ff",
            "no body accounts for all bytes",
        ),
    ],
)
def test_doubtful_bytes_are_skipped(key_type: int, data: str, doubt: str) -> None:
    """Never a wrong value: bytes that both bodies account for, or that none does, are skipped."""
    key = REGISTRY[key_type][0](group="g", member_id="m")  # type: ignore[call-arg]
    assert decode_value(key, bytes.fromhex(data)) == Skipped(
        key_type, 0, f"{doubt}: today's or that of Kafka 3.7"
    )


def test_previews_wrote_no_tags() -> None:
    """A hash that looks like a tag behind a preview's epoch leaves no doubt: previews had no tags."""
    key = REGISTRY[11][0](group="g")
    value = decode_value(key, bytes.fromhex("0000" + "00000005" + "0105060000000000" + "00"))
    assert isinstance(value, Value)
    assert not value.early
