"""``groupreplay.decode`` and ``groupreplay.decode_record``: the records of the command."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import groupreplay
from groupreplay.streaming.base.errors import GroupReplayError
from support.histories.raw_records import Raw
from support.job.captures import invoke, write_capture


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ()),
        (
            {"group": "mixed-000001", "kind": "groups", "members": True},
            ("--group", "mixed-000001", "--kind", "groups", "--members"),
        ),
        (
            {"partitions": [1, 6], "with_position": True},
            ("--partition", "1", "--partition", "6", "--with-position"),
        ),
        (
            {"since": 1_767_225_700_000, "until": 1_767_225_800_000},
            ("--since", "1767225700000", "--until", "1767225800000"),
        ),
    ],
)
def test_the_records_are_those_of_decode(
    mixed: Path, arguments: dict[str, object], words: tuple[str, ...]
) -> None:
    """All, and chosen ones."""
    done = invoke("decode", "--from-file", mixed, *words)
    found = list(groupreplay.decode(mixed, **arguments))  # type: ignore[arg-type]
    assert found == [json.loads(line) for line in done.stdout.splitlines()]
    assert found


def test_what_cannot_be_decoded_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the end, with the place of the record; alone it is an error."""
    path = write_capture(tmp_path / "bad.parquet", [Raw(3, 7, 1_000, b"\0", b"")])
    with caplog.at_level(logging.WARNING, "groupreplay"):
        assert list(groupreplay.decode(path)) == []
    assert caplog.messages[0].startswith("partition 3, offset 7: malformed")
    with pytest.raises(GroupReplayError, match="the record cannot be decoded: "):
        groupreplay.decode_record(b"\0", b"")
