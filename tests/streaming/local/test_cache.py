"""The cache folder: where it is, and that files in it are whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groupreplay.streaming.local.cache import cache_folder, write_once
from support.reachable import other_umask


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
