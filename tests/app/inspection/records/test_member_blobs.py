"""Subscriptions and assignments as JSON; with Kafka's own classes in tests/integration/codecs/test_member_oracle.py."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.app.inspection.records.member_blobs import with_members
from groupreplay.codecs import (
    Assignment,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    Subscription,
    TopicPartitions,
    encode_blob,
)
from groupreplay.codecs.kafka_json import to_json
from support.histories.connect_blobs import URL, assignment, metadata, tasks

OWNED = (TopicPartitions(topic="t", partitions=(2, 0)),)
SUBSCRIPTION = Subscription(
    version=3, topics=("t",), user_data=b"\7", owned_partitions=OWNED, generation_id=4, rack_id="r"
)


def shown(subscription: bytes, assigned: bytes = b"", protocol_type: str = "consumer") -> dict[str, Any]:
    """The member of a group as it is printed."""
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=2,
        subscription=subscription,
        assignment=assigned,
    )
    value = GroupMetadataValue(
        version=3, protocol_type=protocol_type, generation=1, protocol="range", leader="m", members=(member,)
    )
    record = to_json(GroupMetadataKey(group="g"), value)
    before = repr(record)
    found = with_members(record, value)
    assert repr(record) == before
    (one,) = found["value"]["data"]["members"]
    assert one.keys() == record["value"]["data"]["members"][0].keys()
    return dict(one)


def test_a_consumer() -> None:
    """With Kafka's names; the bytes of the assignor stay base64."""
    one = shown(
        encode_blob(SUBSCRIPTION),
        encode_blob(Assignment(version=1, assigned_partitions=OWNED, user_data=None)),
    )
    owned = [{"topic": "t", "partitions": [2, 0]}]
    assert one["subscription"] == {
        "schema": "ConsumerProtocolSubscription",
        "version": 3,
        "data": {
            "topics": ["t"],
            "userData": "Bw==",
            "ownedPartitions": owned,
            "generationId": 4,
            "rackId": "r",
        },
    }
    assert one["assignment"] == {
        "schema": "ConsumerProtocolAssignment",
        "version": 1,
        "data": {"assignedPartitions": owned, "userData": None},
    }


def test_versions() -> None:
    """Fields that a version does not have are left out; a later version is read as the newest known one."""
    assert shown(
        encode_blob(replace(SUBSCRIPTION, version=0, owned_partitions=(), generation_id=-1, rack_id=None))
    )["subscription"]["data"] == {"topics": ["t"], "userData": "Bw=="}
    later = shown(b"\0\x09" + encode_blob(SUBSCRIPTION)[2:] + b"new")["subscription"]
    assert (later["version"], later["data"]["rackId"]) == (9, "r")


@pytest.mark.parametrize(
    "raw", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5abc", b'{"host":"h"}', b"\0\0\x7f\xff\xff\xff"]
)
def test_bytes_that_are_something_else(raw: bytes) -> None:
    """The reason, and the bytes as Kafka's formatters print them."""
    found = shown(raw)["subscription"]
    assert found.keys() == {"schema", "undecodable", "bytes"}
    assert found["undecodable"].startswith("field ")
    assert base64.b64decode(found["bytes"]) == raw


def test_no_assignment() -> None:
    """Brokers store no bytes for a member that the leader left out."""
    assert shown(encode_blob(SUBSCRIPTION), b"")["assignment"] is None


def test_connect_workers() -> None:
    """The worker's metadata with its present tasks, and the assignment; as Kafka's codecs of Connect have them."""
    one = shown(metadata(1, assignment(1, tasks(sink=[-1, 0]))), assignment(0, tasks(sink=[1])), "connect")
    sink = [{"connector": "sink", "tasks": [-1, 0]}]
    assert one["subscription"]["schema"] == "ConnectProtocol.WorkerState"
    assert (one["subscription"]["version"], one["subscription"]["data"]["url"]) == (1, URL)
    assert one["subscription"]["data"]["allocation"]["data"]["assigned"] == sink
    assert one["assignment"]["data"]["assigned"] == [{"connector": "sink", "tasks": [1]}]
    assert "revoked" not in one["assignment"]["data"]


def test_other_protocols() -> None:
    """The schema registry's format is its own: its name is said, the bytes stay."""
    found = shown(b'{"host":"h"}', protocol_type="sr")["subscription"]
    assert found == {
        "schema": None,
        "undecodable": "the protocol type 'sr' has a format of its own",
        "bytes": base64.b64encode(b'{"host":"h"}').decode(),
    }


def test_other_records() -> None:
    """Only records of classic groups have members; a tombstone has none."""
    for key in (OffsetCommitKey(group="g", topic="t", partition=0), GroupMetadataKey(group="g")):
        assert with_members(to_json(key, None), None) == to_json(key, None)
