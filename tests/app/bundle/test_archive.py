"""``app/bundle/archive.py``."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pytest

import groupreplay
from groupreplay.app.bundle.archive import (
    ArchiveFile,
    package_files,
    text_file,
    wheel_files,
    write_archive,
)
from groupreplay.app.bundle.wheels import Wheel
from support.tools.small_wheels import small_wheel


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """Order, names, owners and times of this machine are not in the archive."""
    digests = set()
    for number in range(2):
        files = {
            "b/x.py": text_file("b = 1\n"),
            "a.py": text_file("a = 1\n"),
            "c.so": ArchiveFile(bytes, True),
        }
        path = tmp_path / f"{number}.tar.gz"
        write_archive(path, dict(sorted(files.items(), reverse=bool(number))))
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
        with tarfile.open(path) as archive:
            entries = [
                (one.name, one.mode, one.uid, one.gid, one.uname, one.mtime) for one in archive.getmembers()
            ]
        assert entries == [
            ("a.py", 0o644, 0, 0, "", 315_532_800),
            ("b/x.py", 0o644, 0, 0, "", 315_532_800),
            ("c.so", 0o755, 0, 0, "", 315_532_800),
        ]
    assert len(digests) == 1
    assert sorted(os.listdir(tmp_path)) == ["0.tar.gz", "1.tar.gz"]


def test_tar_unpacks_it(tmp_path: Path) -> None:
    """The machine's tar, which Spark calls, restores long names and contents without a warning."""
    deep = "/".join(["d" * 60] * 4) + "/module.py"
    write_archive(tmp_path / "a.tar.gz", {deep: text_file("text\n"), "top.py": text_file("")})
    done = subprocess.run(
        ["tar", "-xzf", "a.tar.gz"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stderr, (tmp_path / deep).read_text(), (tmp_path / "top.py").read_text()) == (
        "",
        "text\n",
        "",
    )


def test_an_archive_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Half an archive never has the archive's name, and the half is removed; an older one stays."""
    (tmp_path / "a.tar.gz").write_bytes(b"older")

    def fails() -> bytes:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_archive(tmp_path / "a.tar.gz", {"a": text_file("a"), "b": ArchiveFile(fails)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.tar.gz": b"older"}


def test_a_wheel_is_unpacked_as_pip_does(tmp_path: Path) -> None:
    """Libraries beside the package (purelib, platlib) come to the top; scripts and headers are left out."""
    files = {
        "part/__init__.py": "",
        "part-1.0.data/purelib/pure.py": "pure",
        "part-1.0.data/platlib/part/native.so": "native",
        "part-1.0.data/scripts/part": "#!python",
        "part-1.0.data/headers/part.h": "",
    }
    path = small_wheel(tmp_path, "part", files=files)
    with zipfile.ZipFile(path, "a") as archive:
        program = zipfile.ZipInfo("part/tool")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "#!/bin/sh\n")
        archive.mkdir("part/empty") if hasattr(archive, "mkdir") else None
    with ExitStack() as opened:
        found = dict(wheel_files(Wheel(path, "part", "1.0", ()), opened))
        contents = {
            place: (file.read(), file.executable) for place, file in found.items() if "info" not in place
        }
    assert contents == {
        "part/__init__.py": (b"", False),
        "pure.py": (b"pure", False),
        "part/native.so": (b"native", False),
        "part/tool": (b"#!/bin/sh\n", True),
    }
    assert [place for place in found if "info" in place] == [
        f"part-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")
    ]


def test_the_package_is_the_one_that_runs() -> None:
    """All files of groupreplay, through the links of a checkout, without compiled ones."""
    found = {place: file.read() for place, file in package_files()}
    (root,) = groupreplay.__path__
    for place in (
        "__init__.py",
        "py.typed",
        "codecs/registry.py",
        "state/group.py",
        "streaming/local/jars.json",
        "streaming/spark/log4j2.xml",
    ):
        assert found[f"groupreplay/{place}"] == Path(root, place).read_bytes()
    assert [place for place in found if "__pycache__" in place or place.endswith(".pyc")] == []
