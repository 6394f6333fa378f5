"""A file that gets its name when it is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.atomic_files import atomic_file, require_new
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
    with pytest.raises(UnicodeEncodeError), atomic_file(path, force=True) as file:
        file.write("half\ud800")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_exists(tmp_path: Path, link: bool) -> None:
    """It is replaced with ``force`` only, and so is a link that leads nowhere; another path does not matter."""
    path = tmp_path / "a.txt"
    if link:
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.write_text("before")
    with pytest.raises(GroupReplayError) as refused, atomic_file(path):
        pass
    assert (str(refused.value), refused.value.exit_code) == (
        f"the file exists ({path}): choose another name or folder, or replace it with --force",
        ExitCode.USAGE,
    )
    assert path.is_symlink() == link
    require_new([None, tmp_path / "b.txt"], force=False)
    with atomic_file(path, force=True) as file:
        file.write("after")
    assert path.read_text() == "after"


def test_a_file_that_comes_while_another_is_written(tmp_path: Path) -> None:
    """Two commands that were given one name: the second to end keeps the file of the first."""
    path = tmp_path / "a.txt"

    def write() -> None:
        with atomic_file(path) as file:
            file.write("second")
            path.write_text("first")

    with pytest.raises(GroupReplayError, match="the file exists"):
        write()
    assert path.read_text() == "first"
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
