"""The archive: files of wheels and of groupreplay in one ``.tar.gz``, whose bytes depend on nothing else."""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import groupreplay
from groupreplay.app.bundle.wheels import Wheel
from groupreplay.streaming.base.files import place_of

#: 1980-01-01, the earliest time that zip files can have, too; tar warns of the year 1970.
_TIME: Final = 315_532_800
#: Parts of a wheel that are installed beside the other files; the remaining ones (scripts, headers) are left out.
_DATA: Final = re.compile(r"[^/]+\.data/(?P<kind>[^/]+)/(?P<path>.+)")
_LIBRARY_KINDS: Final = frozenset({"purelib", "platlib"})


class ArchiveFile(NamedTuple):
    """A file of the archive: how its content is read, and whether it can be executed."""

    read: Callable[[], bytes]
    executable: bool = False


def text_file(text: str) -> ArchiveFile:
    """A file with this text."""
    return ArchiveFile(partial(str.encode, text, "utf-8"))


def wheel_files(wheel: Wheel, opened: ExitStack) -> Iterator[tuple[str, ArchiveFile]]:
    """The files that an installation of this wheel has, by path; ``opened`` keeps the wheel open."""
    archive = opened.enter_context(zipfile.ZipFile(wheel.path))
    for member in archive.infolist():
        path = member.filename
        if found := _DATA.fullmatch(path):
            if found["kind"] not in _LIBRARY_KINDS:
                continue
            path = found["path"]
        if not member.is_dir():
            yield path, ArchiveFile(partial(archive.read, member), bool(member.external_attr >> 16 & 0o111))


def package_files() -> Iterator[tuple[str, ArchiveFile]]:
    """The files of the groupreplay that runs now: of an installation, and of a checkout with its links."""
    for root in groupreplay.__path__:
        for folder, names, files in os.walk(root, followlinks=True):
            names[:] = [name for name in names if name != "__pycache__"]
            for name in files:
                path = Path(folder, name)
                if path.suffix != ".pyc":
                    place = Path("groupreplay", path.relative_to(root)).as_posix()
                    yield place, ArchiveFile(path.read_bytes)


def write_archive(path: Path, files: Mapping[str, ArchiveFile]) -> None:
    """Writes the archive beside its place, then moves it there. The same files give the same bytes."""
    with (
        place_of(path) as unfinished,
        unfinished.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        for place in sorted(files):
            content = files[place].read()
            entry = tarfile.TarInfo(place)
            entry.size, entry.mtime = len(content), _TIME
            entry.mode = 0o755 if files[place].executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
