"""Who else can read a file or write into a folder, and the warning about it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupreplay.streaming.base import file_modes
from groupreplay.streaming.base.file_modes import readers, warn_readable, writers
from support.reachable import reachable_folder

EVERYBODY = "every user of this machine"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can enter."""
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_modes, "_warned", set())


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
    monkeypatch.setattr(file_modes, "_warned", set())
    warn_readable(secret, "token")
    assert (caplog.records, file_modes.mode_of(secret)) == ([], "0600")
