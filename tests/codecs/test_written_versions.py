"""The versions that coordinators write, beside the bounds of Kafka 3.9's own code, and what each version has."""

from __future__ import annotations

import pytest

from groupreplay.codecs import (
    PROTOCOL_VERSIONS,
    WRITTEN_SINCE,
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    Value,
    as_written,
    decode_value,
    encode_value,
    written_version,
)

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
