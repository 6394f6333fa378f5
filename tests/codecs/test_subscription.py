"""The consumer protocol's blobs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from groupreplay.codecs import (
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    Malformed,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_blob,
    decode_subscription,
    encode_blob,
    subscribed_topics,
)
from groupreplay.codecs.subscription import NO_ASSIGNMENT
from support.paths import ROOT

GOLDEN = {
    row["blob"]: bytes.fromhex(row["bytes"])
    for row in json.loads((ROOT / "tests" / "golden" / "consumer_protocol.json").read_text(encoding="utf-8"))[
        "rows"
    ]
}
OWNED = (TopicPartitions(topic="t", partitions=(2,)),)
SUBSCRIPTIONS = {
    "subscription v0": Subscription(version=0, topics=("t",), user_data=b"\x07"),
    "subscription v1": Subscription(version=1, topics=("t",), user_data=b"\x07", owned_partitions=OWNED),
    "subscription v2": Subscription(
        version=2, topics=("t",), user_data=b"\x07", owned_partitions=OWNED, generation_id=4
    ),
    "subscription v3": Subscription(
        version=3, topics=("t",), user_data=b"\x07", owned_partitions=OWNED, generation_id=4, rack_id="r"
    ),
    "subscription v1, null userData, nothing owned": Subscription(version=1, topics=("t",), user_data=None),
}
ASSIGNMENTS = {
    "assignment v0": Assignment(version=0, assigned_partitions=OWNED, user_data=None),
    "assignment v3": Assignment(version=3, assigned_partitions=OWNED, user_data=None),
}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_golden_subscriptions(name: str) -> None:
    """Kafka's bytes of every version, both ways."""
    assert decode_subscription(GOLDEN[name]) == SUBSCRIPTIONS[name]
    assert encode_blob(SUBSCRIPTIONS[name]) == GOLDEN[name]
    assert subscribed_topics(GOLDEN[name]) == ("t",)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_golden_assignments(name: str) -> None:
    """The same body in every version."""
    assert decode_assignment(GOLDEN[name]) == ASSIGNMENTS[name]
    assert encode_blob(ASSIGNMENTS[name]) == GOLDEN[name]


def test_every_golden_blob_is_used() -> None:
    """No row of the file is left out."""
    assert set(GOLDEN) == {*SUBSCRIPTIONS, *ASSIGNMENTS}


def test_zero_bytes_are_no_assignment() -> None:
    """Brokers store nothing for a member that the leader left out; a subscription is never empty."""
    assert decode_assignment(b"") == NO_ASSIGNMENT
    assert NO_ASSIGNMENT.assigned_partitions == ()
    assert decode_subscription(b"") == Malformed(None, None, "version", 0, "needs 2 bytes, 0 are left")


def test_a_later_version_is_read_as_our_newest() -> None:
    """Version 9 is read as 3: what it added is left over, and comes back with the version it had."""
    later = b"\x00\x09" + GOLDEN["subscription v3"][2:] + b"new"
    blob = decode_subscription(later)
    assert blob == replace(SUBSCRIPTIONS["subscription v3"], version=9, leftover=b"new")
    assert encode_blob(blob) == later  # type: ignore[arg-type]


def test_a_negative_version_is_malformed() -> None:
    """As for Kafka's own clients."""
    data = b"\xff\xff" + GOLDEN["subscription v0"][2:]
    assert decode_subscription(data) == Malformed(None, -1, "version", 0, "is the negative version -1")


def test_topics_are_read_as_version_0() -> None:
    """The coordinator reads no more than the names: broken later fields do not matter to it, nor here."""
    broken = GOLDEN["subscription v3"][:-6]
    assert isinstance(decode_subscription(broken), Malformed)
    assert subscribed_topics(broken) == ("t",)
    assert subscribed_topics(b"\x00\x03\x00\x00") == Malformed(
        None, 3, "topics", 2, "needs 4 bytes, 2 are left"
    )


def test_bytes_of_another_protocol() -> None:
    """The JSON of a schema registry is malformed, with a reason, and raises nothing."""
    refused = decode_subscription(b'{"host":"h","port":8081}')
    assert isinstance(refused, Malformed)
    assert refused.field == "topics"


URL = "0009" + b"http://h/".hex()
TASKS = "00000001" + "000163" + "00000002" + "ffffffff" + "00000000"
ALLOCATION = "0001" + "0000" + "00016c" + URL + "0000000000000005" + TASKS + "ffffffff" + "00000000"


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        (ConnectMetadata(version=0, url="http://h/", config_offset=5), "0000" + URL + "0000000000000005"),
        (
            ConnectMetadata(version=1, url="http://h/", config_offset=5),
            "0001" + URL + "0000000000000005" + "ffffffff",
        ),
        (
            ConnectMetadata(
                version=2, url="http://h/", config_offset=5, allocation=bytes.fromhex(ALLOCATION)
            ),
            "0002" + URL + "0000000000000005" + f"{len(ALLOCATION) // 2:08x}" + ALLOCATION,
        ),
    ],
)
def test_metadata(metadata: ConnectMetadata, data: str) -> None:
    """`default` has url and config offset; `compatible` and `sessioned` append the running tasks or null."""
    assert decode_blob(ConnectMetadata, bytes.fromhex(data)) == metadata
    assert encode_blob(metadata).hex() == data


def assignment(version: int, **more: object) -> ConnectAssignment:
    """An assignment of connector c and its task 0."""
    return ConnectAssignment(
        version=version,
        error=0,
        leader="l",
        leader_url="http://h/",
        config_offset=5,
        assigned=(ConnectorTasks(connector="c", tasks=(-1, 0)),),
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("expected", "data"),
    [
        (assignment(0), "0000" + "0000" + "00016c" + URL + "0000000000000005" + TASKS),
        (assignment(1), ALLOCATION),
        (assignment(2, revoked=(), delay_ms=300_000), "0002" + ALLOCATION[4:-16] + "00000000" + "000493e0"),
    ],
)
def test_assignment(expected: ConnectAssignment, data: str) -> None:
    """The later protocols append revoked tasks and a delay; version 2 is the same as version 1."""
    assert decode_blob(ConnectAssignment, bytes.fromhex(data)) == expected
    assert encode_blob(expected).hex() == data


def test_assigned_may_be_null_in_version_0() -> None:
    """Kafka lets the list be null since version 1; reading it in version 0, too, does no harm."""
    data = bytes.fromhex("0000" + "0000" + "00016c" + URL + "0000000000000005" + "ffffffff")
    value = decode_blob(ConnectAssignment, data)
    assert isinstance(value, ConnectAssignment)
    assert value.assigned is None


def test_an_assignment_is_never_empty() -> None:
    """Zero bytes are not an assignment of Connect."""
    assert decode_blob(ConnectAssignment, b"") == Malformed(
        None, None, "version", 0, "needs 2 bytes, 0 are left"
    )
