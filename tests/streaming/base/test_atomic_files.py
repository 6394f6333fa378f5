"""A file that gets its name when it is complete."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groupreplay.streaming.base.atomic_files import atomic_file, is_written_into, new_file, require_new
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.job.captures import invoke
from support.tools.small_disks import filled, small_disk


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
        "check that the folder exists and is writable"
    )


@pytest.fixture
def fifo(tmp_path: Path) -> Callable[[], bytes]:
    """What was written to the FIFO ``fifo`` in the folder of the test; a thread reads it."""
    path, found = tmp_path / "fifo", list[bytes]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()

    def read() -> bytes:
        reader.join(60)
        assert path.is_fifo()
        return found[0]

    return read


def test_a_fifo(fifo: Callable[[], bytes], tmp_path: Path) -> None:
    """It is written into, without --force, and stays one."""
    with atomic_file(tmp_path / "fifo") as file:
        file.write("text")
    assert (fifo(), [one.name for one in tmp_path.iterdir()]) == (b"text", ["fifo"])


def test_a_device(tmp_path: Path) -> None:
    """One that is full is an error, and no file takes its place, also with --force; a link to one is the same."""
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    before = os.stat("/dev/full")
    for path in (Path("/dev/full"), link):
        with pytest.raises(GroupReplayError) as refused, atomic_file(path, force=True) as file:
            file.write("text")
        assert str(refused.value) == (
            f"cannot write the file, No space left on device ({path}): "
            "free some space, or write to another place; it holds only a part"
        )
    assert (os.stat("/dev/full").st_ino, link.is_symlink()) == (before.st_ino, True)


def test_a_full_disk(tmp_path: Path) -> None:
    """A capture that does not fit: the disk is named as full, and nothing of the file is left."""
    with small_disk(tmp_path / "disk", 1) as disk:
        path = disk / "a.parquet"
        with filled(disk):
            done = invoke("simulate", "--groups", 20, "--seconds", 600, "-o", path)
            assert [one.name for one in disk.iterdir()] == ["filler"]
    assert done.exit_code == ExitCode.USAGE
    assert f"No space left on device ({path})" in done.stderr
    assert "free some space, or write to another place; nothing of it was kept" in done.stderr


def test_what_is_written_into(tmp_path: Path) -> None:
    """An open file of a process, also one on a disk; no folder, no file and no link to one, no name that is free."""
    file, link, lost = (tmp_path / name for name in ("file", "link", "lost"))
    link.symlink_to(file)
    lost.symlink_to(tmp_path / "nowhere")
    with file.open("w") as opened:
        assert is_written_into(Path(f"/dev/fd/{opened.fileno()}"))
    assert [one for one in (file, link, lost, tmp_path, tmp_path / "free") if is_written_into(one)] == []


def test_captures_and_reports_through_a_pipe(fifo: Callable[[], bytes], tmp_path: Path) -> None:
    """Simulate writes a capture into a FIFO, report a page to its stdout, as to a shell's ``>(gzip)``."""
    words = ["simulate", "--groups", "1", "--seconds", "9", "-o"]
    for path in (tmp_path / "fifo", Path("/dev/full")):
        refused = invoke(*words, path)
        assert (refused.exit_code, "--truth-file" in refused.stderr) == (ExitCode.USAGE, True)
    full = invoke(*words, "/dev/full", "--truth-file", tmp_path / "no.jsonl")
    assert (full.exit_code, "No space left on device" in full.stderr) == (ExitCode.USAGE, True)
    assert invoke(*words, tmp_path / "fifo", "--truth-file", tmp_path / "t.jsonl").exit_code == ExitCode.OK
    (tmp_path / "read.parquet").write_bytes(fifo())
    assert invoke(*words, tmp_path / "file.parquet").exit_code == ExitCode.OK
    assert pq.read_table(tmp_path / "read.parquet") == pq.read_table(tmp_path / "file.parquet")
    report = ["report", "--from-file", str(tmp_path / "file.parquet"), "--all-groups", "-o", "/dev/stdout"]
    with (tmp_path / "out.html").open("wb") as out:
        subprocess.run(
            [sys.executable, "-m", "groupreplay", *report],
            stdout=out,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    assert Path("/dev/stdout").is_symlink()


def test_a_private_file(tmp_path: Path) -> None:
    """Nobody else can read it, also while it is written, whatever the umask is and whatever it replaces."""
    path = tmp_path / "capture.parquet"
    path.touch(0o644)
    before = os.umask(0)
    try:
        with new_file(path, force=True, private=True) as part:
            part.write_bytes(b"x")
            assert part.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"x", 0o600)
