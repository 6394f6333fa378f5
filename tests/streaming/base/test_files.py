"""A file that gets its name when it is complete.

Who else can read a file or write into a folder, and the warning about it. The cache folder: where it is, and that
files in it are whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groupreplay.streaming.base import files
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.files import (
    atomic_file,
    cache_folder,
    is_written_into,
    new_file,
    readers,
    require_new,
    warn_readable,
    write_once,
    writers,
)
from support.job.captures import invoke
from support.reachable import other_umask, reachable_folder
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
            [sys.executable, "-m", "groupreplay", *report], stdout=out, stderr=subprocess.DEVNULL, check=True
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


EVERYBODY = "every user of this machine"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can enter."""
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_warned", set())


@pytest.mark.parametrize(
    ("mode", "reads", "writes"),
    [
        (0o600, None, None),
        (0o400, None, None),
        (0o640, "every user of its group", None),
        (0o644, EVERYBODY, None),
        (0o604, EVERYBODY, None),
        (0o660, "every user of its group", "every user of its group"),
        (0o622, None, EVERYBODY),
        (0o666, EVERYBODY, EVERYBODY),
    ],
)
def test_modes(reachable: Path, mode: int, reads: str | None, writes: str | None) -> None:
    """Of our own file, wherever the name leads."""
    file, link = reachable / "file", reachable / "link"
    file.write_text("secret")
    file.chmod(mode)
    link.symlink_to(file)
    assert {(readers(path), writers(path)) for path in (file, link)} == {(reads, writes)}
    folder = reachable / "folder"
    folder.mkdir()
    folder.chmod(mode | 0o100)
    assert writers(folder) == writes


def test_a_folder_above_that_keeps_others_out(reachable: Path) -> None:
    """Nobody reads a file that he cannot reach, whatever its mode is."""
    closed = reachable / "closed"
    closed.mkdir(0o700)
    file = closed / "file"
    file.write_text("secret")
    file.chmod(0o666)
    assert (readers(file), writers(file)) == (None, None)
    closed.chmod(0o750)
    assert (readers(file), writers(file)) == ("every user of its group", "every user of its group")
    closed.chmod(0o711)
    assert (readers(file), writers(file)) == (EVERYBODY, EVERYBODY)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_the_file_of_another_user(reachable: Path) -> None:
    """What root has written for the service's group is meant for it; what every user can read is not."""
    file = reachable / "file"
    file.write_text("secret")
    os.chown(file, 12_345, 12_345)
    file.chmod(0o640)
    assert readers(file) is None
    file.chmod(0o644)
    assert readers(file) == EVERYBODY


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Who reads it says so; there is nothing to warn of."""
    assert (readers(tmp_path / "none"), writers(tmp_path / "none")) == (None, None)


def test_the_warning(reachable: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It has the mode and the remedy, and comes once."""
    file = reachable / "token"
    file.write_text("secret")
    file.chmod(0o644)
    for _ in range(3):
        warn_readable(file, "token")
    assert caplog.messages == [
        f"every user of this machine can read the token in {file} (mode 0644): chmod 600 {file}"
    ]
    assert "secret" not in caplog.text


def test_what_kubernetes_mounts(reachable: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A Secret has the mode 0644 behind two links, and only the container can read it: no warning, nor for Docker's."""
    data = reachable / "..2026_11_24"
    data.mkdir()
    (data / "token").write_text("secret")
    (data / "token").chmod(0o644)
    (reachable / "..data").symlink_to("..2026_11_24")
    (reachable / "token").symlink_to("..data/token")
    warn_readable(reachable / "token", "token")
    assert caplog.messages == []
    other = reachable / "other"
    other.symlink_to("..2026_11_24/token")
    warn_readable(other, "token")
    assert len(caplog.messages) == 1


def test_own_variable_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GROUPREPLAY_CACHE names the folder itself, whatever XDG says; it is made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GROUPREPLAY_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    assert (tmp_path / "own").is_dir()


def test_folder_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our variable the folder follows XDG, then the home folder."""
    monkeypatch.delenv("GROUPREPLAY_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "groupreplay"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "home" / ".cache" / "groupreplay"


def test_write_once_heals_and_leaves_nothing_beside(tmp_path: Path) -> None:
    """A file with other content is replaced, one with the same is left alone, and no temporary file stays."""
    path = tmp_path / "a" / "file"
    write_once(path, b"half")
    assert write_once(path, b"whole", mode=0o755) == path
    before = path.stat()
    assert write_once(path, b"whole").read_bytes() == b"whole"
    assert (path.stat().st_ino, path.stat().st_mode & 0o777) == (before.st_ino, 0o755)
    assert os.listdir(path.parent) == ["file"]


def test_nobody_else_writes_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs in it are run: not even a group may write there, where the umask would let it."""
    monkeypatch.setenv("GROUPREPLAY_CACHE", str(tmp_path / "cache"))
    with other_umask(0o002):
        program = write_once(cache_folder() / "java" / "bin" / "java", b"#!", mode=0o755)
    modes = {path: path.stat().st_mode & 0o777 for path in (program, program.parent, tmp_path / "cache")}
    assert set(modes.values()) == {0o755}


def test_the_command_of_a_warning_ends_it(
    reachable: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands there, also for a name with spaces and quotes."""
    secret = reachable / "the 'token' file"
    secret.write_text("secret")
    secret.chmod(0o644)
    warn_readable(secret, "token")
    (record,) = caplog.records
    subprocess.run(record.getMessage().partition("): ")[2], shell=True, check=True, timeout=60)
    caplog.clear()
    monkeypatch.setattr(files, "_warned", set())
    warn_readable(secret, "token")
    assert (caplog.records, files.mode_of(secret)) == ([], "0600")
