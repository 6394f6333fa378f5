"""The JSON of Kafka's formatters; the golden rows of test_registry.py and the JVM compare the rest."""

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    Subscription,
)
from groupreplay.codecs.kafka_json import blob_json, to_json
from groupreplay.codecs.share import ShareGroupMetadataKey, ShareGroupMetadataValue
from groupreplay.codecs.streams import StreamsGroupMetadataKey, StreamsGroupMetadataValue

KEY = OffsetCommitKey(group="g", topic="t", partition=7)


def test_a_tombstone() -> None:
    """No value is null, and the key is whole."""
    assert to_json(KEY, None) == {
        "key": {"type": 1, "data": {"group": "g", "topic": "t", "partition": 7}},
        "value": None,
    }


def test_fields_of_the_version_only() -> None:
    """Fields that the version does not have are left out; a tagged one also when it is not in the bytes."""
    for version, names in (
        (0, ["offset", "metadata", "commitTimestamp"]),
        (1, ["offset", "metadata", "commitTimestamp", "expireTimestamp"]),
        (3, ["offset", "leaderEpoch", "metadata", "commitTimestamp"]),
        (4, ["offset", "leaderEpoch", "metadata", "commitTimestamp"]),
    ):
        value = OffsetCommitValue(version=version, offset=5, metadata="m", commit_timestamp_ms=1)
        assert list(to_json(KEY, value)["value"]["data"]) == names
    value = OffsetCommitValue(
        version=4, offset=5, metadata="m", commit_timestamp_ms=1, topic_id=bytes(range(1, 17))
    )
    assert to_json(KEY, value)["value"]["data"]["topicId"] == "AQIDBAUGBwgJCgsMDQ4PEA"


def test_bytes_are_base64() -> None:
    """Subscriptions and assignments are printed in padded base64, nested structures in full."""
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout_ms=10,
        subscription=b"\xfb\xff",
        assignment=b"",
    )
    value = GroupMetadataValue(
        version=3, protocol_type="consumer", generation=4, protocol=None, leader=None, members=(member,)
    )
    assert to_json(GroupMetadataKey(group="g"), value)["value"] == {
        "version": 3,
        "data": {
            "protocolType": "consumer",
            "generation": 4,
            "protocol": None,
            "leader": None,
            "currentStateTimestamp": -1,
            "members": [
                {
                    "memberId": "m",
                    "groupInstanceId": None,
                    "clientId": "c",
                    "clientHost": "/h",
                    "rebalanceTimeout": -1,
                    "sessionTimeout": 10,
                    "subscription": "+/8=",
                    "assignment": "",
                }
            ],
        },
    }


def test_null_is_printed_where_the_bytes_hold_it() -> None:
    """A tag that spells out null is printed as null, a missing one is not printed, nor are unknown tags."""
    key = StreamsGroupMetadataKey(group="g")
    value = StreamsGroupMetadataValue(
        version=0, epoch=5, metadata_hash=7, last_assignment_configs=None, unknown_tags=((9, b""),)
    )
    assert to_json(key, value)["value"]["data"] == {
        "epoch": 5,
        "metadataHash": 7,
        "lastAssignmentConfigs": None,
    }
    value = StreamsGroupMetadataValue(version=0, epoch=5, metadata_hash=7, last_assignment_configs=())
    assert to_json(key, value)["value"]["data"] == {"epoch": 5, "metadataHash": 7}


def test_a_preview_prints_its_own_fields() -> None:
    """The body of 4.0 had no hash; Kafka's newer formatters cannot read it at all."""
    value = ShareGroupMetadataValue(version=0, epoch=5, early=True)
    assert to_json(ShareGroupMetadataKey(group="g"), value)["value"] == {"version": 0, "data": {"epoch": 5}}


def test_the_legacy_type() -> None:
    """Type 0 is printed as such."""
    assert to_json(LegacyOffsetCommitKey(group="g", topic="t", partition=7), None)["key"]["type"] == 0


def test_a_surrogate_is_one_replacement_character() -> None:
    """As in Java, whole or cut; other wrong bytes are one each."""
    names = {b"\xed\xa5\x80x": "\N{REPLACEMENT CHARACTER}x", b"\xed\xa5": "\N{REPLACEMENT CHARACTER}"}
    names[b"\xe0\x80\x80"] = "\N{REPLACEMENT CHARACTER}" * 3
    for raw, text in names.items():
        topic = raw.decode("utf-8", "surrogateescape")
        blob = Subscription(version=0, topics=(topic,), user_data=None)
        assert blob_json(blob)["topics"] == [text]
