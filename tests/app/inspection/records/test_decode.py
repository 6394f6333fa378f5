"""Records as Kafka's formatters print them, and an account of those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.app.inspection.records.decode import (
    DecodeCounts,
    RecordChoice,
    bytes_of_hex,
    decode_record,
    decode_rows,
)
from groupreplay.codecs import Malformed
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.sources.capture import read_captures
from support.histories.raw_records import Raw, commit, commit_key, generation
from support.job.captures import write_capture

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
