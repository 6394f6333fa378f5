"""Offset commits."""

from groupreplay.codecs import (
    REGISTRY,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_value,
    encode_value,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=7)


def test_a_commit_from_a_real_log() -> None:
    """The v4 commit that broke other tools: no metadata, no leader epoch, no topic id."""
    data = bytes.fromhex("0004000000000021d4a8ffffffff010000019964f2d83600")
    value = OffsetCommitValue(version=4, offset=2_217_128, metadata="", commit_timestamp_ms=1_758_335_260_726)
    assert decode_value(KEY, data) == value
    assert encode_value(value) == data


def test_defaults_say_nothing() -> None:
    """What a version does not carry is -1 or the zero id, as in Kafka."""
    value = OffsetCommitValue(version=0, offset=5, metadata="m", commit_timestamp_ms=1)
    assert (value.leader_epoch, value.expire_timestamp_ms, value.topic_id) == (-1, -1, bytes(16))


def test_two_keys_one_value() -> None:
    """Both key types stand for the same kind of value; the keys stay different."""
    assert REGISTRY[0][1] is REGISTRY[1][1] is OffsetCommitValue
    assert LegacyOffsetCommitKey(group="g", topic="t", partition=7) != KEY
    assert {KEY: 1}[OffsetCommitKey(group="g", topic="t", partition=7)] == 1
