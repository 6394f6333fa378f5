"""Builds the sdist and the wheel of a commit so that two builds of it are equal, byte for byte.

Only files that git has are built. Times are that of the commit (SOURCE_DATE_EPOCH), modes and owners are fixed. The
wheel is built from the sdist. What still decides about the bytes is the release of setuptools, whose number stands in
the wheel, and that of zlib.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

CHECKSUMS: Final = "SHA256SUMS"
CHART: Final = "deploy/helm/groupreplay"


def commit_time(project: Path, commit: str = "HEAD") -> int:
    """When the commit was made, in seconds since 1970."""
    return int(_git(project, "log", "-1", "--format=%ct", commit))


def build(project: Path, output: Path, commit: str = "HEAD") -> list[Path]:
    """Writes the sdist and the wheel of a commit into the folder, and returns both."""
    seconds = commit_time(project, commit)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="groupreplay-release-") as scratch:
        sources = Path(scratch, "sources")
        _unpack(_git(project, "archive", "--format=tar", commit), sources)
        (built,) = _run_build("--sdist", sources, Path(scratch, "sdist"), seconds)
        sdist = output / built.name
        sdist.write_bytes(reproducible(built.read_bytes(), seconds))
        _unpack(gzip.decompress(sdist.read_bytes()), Path(scratch, "again"))
        (unpacked,) = Path(scratch, "again").iterdir()
        (wheel,) = _run_build("--wheel", unpacked, Path(scratch, "wheel"), seconds)
        return [sdist, wheel.rename(output / wheel.name)]


def pack_chart(project: Path, output: Path, version: str, commit: str = "HEAD") -> Path:
    """Writes the Helm chart of a commit as ``helm package`` lays it out, and returns the archive."""
    tree = f"{commit}:{CHART}"
    packed = _git(project, "archive", "--format=tar.gz", "--prefix=groupreplay/", tree)
    chart = output / f"groupreplay-{version}.tgz"
    chart.write_bytes(reproducible(packed, commit_time(project, commit)))
    return chart


def reproducible(archive: bytes, seconds: int) -> bytes:
    """The same files as a .tar.gz whose bytes depend on nothing else: sorted, without owners, times or local modes."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as before,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    # The time in the header of gzip is zero, and there is no name of a file in it.
    return gzip.compress(plain.getvalue(), mtime=0)


def write_checksums(folder: Path, files: Iterable[Path]) -> Path:
    """Writes SHA256SUMS, in the form that ``sha256sum --check`` reads."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files)]
    path = folder / CHECKSUMS
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _run_build(kind: str, sources: Path, output: Path, seconds: int) -> list[Path]:
    # Files that setuptools makes get the mode that the umask leaves.
    before = os.umask(0o022)
    try:
        subprocess.run(
            [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(output), str(sources)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            check=True,
            capture_output=True,
        )
    finally:
        os.umask(before)
    return list(output.iterdir())


def _unpack(archive: bytes, folder: Path) -> None:
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        for member in found.getmembers():
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            # The links at the top lead into src/groupreplay.
            found.extract(member, folder)


def _git(project: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=project, check=True, capture_output=True).stdout
