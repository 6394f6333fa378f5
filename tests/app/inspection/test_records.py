"""``app/inspection/records.py``."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.inspection.records import (
    DecodeCounts,
    RecordChoice,
    bytes_of_hex,
    decode_record,
    decode_rows,
    rows_of_groups,
    with_members,
)
from groupreplay.codecs import (
    Assignment,
    GroupMetadataKey,
    GroupMetadataValue,
    Malformed,
    MemberMetadata,
    OffsetCommitKey,
    Subscription,
    TopicPartitions,
    encode_blob,
    encode_key,
)
from groupreplay.codecs.kafka_json import to_json
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.sources.capture import read_captures
from support.histories.connect_blobs import URL, assignment, metadata, tasks
from support.histories.raw_records import Raw, commit, commit_key, generation
from support.job.captures import rows_batch, write_capture


def test_rows_of_groups() -> None:
    """Records of all types and any name, in order; keys that cannot be read name no group."""
    keys = [
        encode_key(OffsetCommitKey(group="a", topic="t", partition=0)),
        encode_key(GroupMetadataKey(group="größe")),
        encode_key(OffsetCommitKey(group="b", topic="a", partition=0)),
        b"\0",
        b"\x03\xe8later",
        # Brokers write it when a client asks for it.
        encode_key(OffsetCommitKey(group="a", topic="t", partition=-1)),
        encode_key(GroupMetadataKey(group="a")),
    ]
    batch = rows_batch([Raw(0, number, 5, key, None) for number, key in enumerate(keys)])

    def offsets(*groups: str) -> list[int]:
        found: list[int] = rows_of_groups(batch, groups).column("offset").to_pylist()
        return found

    assert offsets("a") == [0, 5, 6]
    assert offsets("größe", "b") == [1, 2]
    assert offsets("t") == []


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


COMMIT = {
    "key": {"type": 1, "data": {"group": "g", "topic": "t", "partition": 2}},
    "value": {
        "version": 3,
        "data": {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1000},
    },
}
TOMBSTONE = {**COMMIT, "value": None}
UNKNOWN = b"\x03\xe8later"


def capture(tmp_path: Path) -> Path:
    """Two partitions with a commit, a tombstone, an unknown type and a damaged value."""
    key, value = commit("g", "t", 2, offset=7, version=3)
    damaged = commit_key("g", "t", 3), b"\0\3\0\1"
    rows = [
        Raw(1, 5, 50, key, value),
        Raw(0, 3, 30, key, None),
        Raw(0, 4, 40, UNKNOWN, value),
        Raw(1, 6, 60, *damaged),
    ]
    return write_capture(tmp_path / "a.parquet", rows)


def test_rows_in_order(tmp_path: Path) -> None:
    """Records come in partition and offset order; the position stands in front when it is asked for."""
    path = capture(tmp_path)
    assert list(decode_rows(read_captures([path]), DecodeCounts())) == [TOMBSTONE, COMMIT]
    with_position = list(decode_rows(read_captures([path]), DecodeCounts(), with_position=True))
    assert with_position == [
        {"partition": 0, "offset": 3, "timestamp": 30, **TOMBSTONE},
        {"partition": 1, "offset": 5, "timestamp": 50, **COMMIT},
    ]
    assert list(with_position[0]) == ["partition", "offset", "timestamp", "key", "value"]
    assert list(decode_rows(read_captures([path]), DecodeCounts(), choice=RecordChoice(offset=5))) == [COMMIT]


@pytest.mark.parametrize(
    ("choice", "chosen", "printed"),
    [
        (RecordChoice(), 4, 2),
        (RecordChoice(offset=5), 1, 1),
        (RecordChoice(kind="commits"), 3, 2),
        (RecordChoice(kind="groups"), 1, 0),
        (RecordChoice(groups={"g"}), 3, 2),
        (RecordChoice(groups={"h"}), 0, 0),
        (RecordChoice(since_ms=40, until_ms=60), 2, 1),
        (RecordChoice(groups={"g"}, kind="commits", since_ms=31), 2, 1),
    ],
)
def test_chosen_records(tmp_path: Path, choice: RecordChoice, chosen: int, printed: int) -> None:
    """Offset, kind, group and time, and all of them at once; what is chosen is printed or counted."""
    counts = DecodeCounts()
    found = list(decode_rows(read_captures([capture(tmp_path)]), counts, choice=choice))
    assert (counts.chosen, len(found)) == (chosen, printed)
    assert chosen - printed == counts.skipped.total() + counts.malformed.total()


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """Every record is either printed or counted by its type, with its place and the reason."""
    counts = DecodeCounts()
    list(decode_rows(read_captures([capture(tmp_path)]), counts))
    found = (dict(counts.skipped), dict(counts.malformed), counts.clean)
    assert found == ({"type 1000": 1}, {"type 1": 1}, False)
    lines = counts.lines()
    assert lines[0].startswith("partition 0, offset 4: skipped type 1000")
    assert lines[1].startswith("partition 1, offset 6: malformed type 1 v3: field offset at byte 2: ")
    assert lines[2:] == ["1 skipped (type 1000: 1)", "1 malformed (type 1: 1)"]


def test_many_bad_records_are_summed_up() -> None:
    """Examples are few however many there are; the counts are whole."""
    counts = DecodeCounts()
    for _ in range(1_000):
        counts.add(Malformed(key_type=None, version=None, field="key type", at=0, reason="null"), "there")
    assert len(counts.lines()) == 21
    assert counts.lines()[-1] == "1000 malformed (unknown type: 1000)"


def test_single_record() -> None:
    """A key and a value alone; no value is a tombstone."""
    assert decode_record(*commit("g", "t", 2, offset=7, version=3)) == COMMIT
    assert decode_record(generation()[0], None) == {"key": {"type": 2, "data": {"group": "g"}}, "value": None}


@pytest.mark.parametrize(
    ("text", "expected"), [("00 01", b"\0\1"), ("0x0aFF", b"\x0a\xff"), ("0a:ff\n", b"\x0a\xff"), ("", b"")]
)
def test_hexadecimal(text: str, expected: bytes) -> None:
    """Blanks, colons and a leading 0x are what dumps put between the digits."""
    assert bytes_of_hex(text, "--key-hex") == expected


@pytest.mark.parametrize("text", ["abc", "zz"])
def test_not_hexadecimal(text: str) -> None:
    """Anything else is a mistake of the caller, and said so."""
    with pytest.raises(GroupReplayError, match="--key-hex is not hexadecimal") as caught:
        bytes_of_hex(text, "--key-hex")
    assert caught.value.exit_code is ExitCode.USAGE
