"""A file that gets its name when it is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.atomic_files import atomic_file
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


def test_a_complete_file(tmp_path: Path) -> None:
    """It has its text, without another form of line ends, and its name only at the end."""
    path = tmp_path / "a.txt"
    with atomic_file(path) as file:
        file.write("one\n")
        assert not path.exists()
    assert path.read_bytes() == b"one\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails(tmp_path: Path) -> None:
    """The file of before stays, and nothing else is left."""
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError), atomic_file(path) as file:
        file.write("half\ud800")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    """What, where, and what to do."""
    path = tmp_path / "none" / "a.txt"
    with pytest.raises(GroupReplayError) as refused, atomic_file(path, "report"):
        pass
    assert refused.value.exit_code is ExitCode.USAGE
    assert str(refused.value) == (
        f"cannot write the report, No such file or directory ({path}): "
        "check that the folder exists, is writable and has free space"
    )
