"""The file of events: each event once, whenever the writer was killed, and whatever the disk does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.delivery.event_file import KEPT_FILES, EventFile
from support.remedies import read_remedy


def lines(path: Path) -> list[bytes]:
    """The lines of a file, without their ends."""
    return path.read_bytes().split(b"\n")[:-1]


def test_a_kill_at_every_byte(tmp_path: Path) -> None:
    """A writer that is killed after any byte of its second poll: the next one completes it, each event once."""
    first, second = {1: b'{"id":"a"}'}, {2: b'{"id":"b"}', 3: b'{"id":"c"}'}
    whole = b"".join(event + b"\n" for event in [*first.values(), *second.values()])
    for size in range(len(b'{"id":"a"}\n'), len(whole) + 1):
        path = tmp_path / f"{size}.jsonl"
        path.write_bytes(whole[:size])
        file = EventFile(path)
        # What was not acknowledged is in the state file, and given again.
        file.send(second)
        assert list(file.arrived()) == [2, 3]
        assert path.read_bytes() == whole
        # An event that comes later is not taken for one of before.
        file.send({4: b'{"id":"a"}'})
        file.arrived()
        assert lines(path)[3:] == [b'{"id":"a"}']


def test_full_files_are_replaced(tmp_path: Path) -> None:
    """A number of older files is kept, with each event in one of them, and a kill between them repeats nothing."""
    path = tmp_path / "events.jsonl"
    file = EventFile(path, most_bytes=20)
    for number in range(20):
        file.send({number: b'{"id":"%06d"}' % number})
        assert list(file.arrived()) == [number]
    names = [f"events.jsonl.{number}" for number in range(KEPT_FILES, 0, -1)] + ["events.jsonl"]
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    kept = [line for name in names for line in lines(tmp_path / name)]
    assert kept == [b'{"id":"%06d"}' % number for number in range(20 - len(kept), 20)]
    again = EventFile(path, most_bytes=20)
    again.send({18: b'{"id":"000018"}', 19: b'{"id":"000019"}', 20: b'{"id":"000020"}'})
    again.arrived()
    assert sum(line == b'{"id":"000018"}' for name in names for line in lines(tmp_path / name)) == 1
    assert lines(path)[-1] == b'{"id":"000020"}'


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was not written waits, and half a line is removed; it is said once, and again when it is written."""
    path = tmp_path / "events.jsonl"
    file = EventFile(path)
    file.send({1: b"{}"})
    file.arrived()

    class Full:
        """The file, on a disk that takes three bytes more."""

        def __init__(self) -> None:
            self.real, self.left = file._file, 3

        def write(self, text: memoryview) -> int:
            if not self.left:
                raise OSError(28, "No space left on device")
            size, self.left = self.left, 0
            return self.real.write(text[:size])

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    full = Full()
    file._file = full  # type: ignore[assignment]
    for number in (2, 3):
        full.left = 3
        file.send({number: b'{"id":"b"}'})
        assert list(file.arrived()) == []
        assert lines(path) == [b"{}"]
    read_remedy("streaming.delivery.event_file: they are kept", caplog.records[0].message)
    file._file = full.real
    assert list(file.arrived()) == [2, 3]
    assert lines(path) == [b"{}", b'{"id":"b"}', b'{"id":"b"}']
    assert [("cannot" in record.message, "again" in record.message) for record in caplog.records] == [
        (True, False),
        (False, True),
    ]


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    """Refused at the start."""
    with pytest.raises(GroupReplayError) as refused:
        EventFile(tmp_path / "missing" / "events.jsonl")
    read_remedy("streaming.delivery.event_file: give --jsonl a", str(refused.value))
