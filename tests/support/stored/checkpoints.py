"""Checkpoints that each line of Spark has made, with the log that was read: golden/stored_checkpoint_*.tar.xz.

An archive holds the folder ``checkpoint`` and ``log.json``: the version of groupreplay, the number of partitions, when
the job was started for the first time, and records ``before`` and ``after`` the moment at which it was stopped.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden"

#: (partition, key, value, timestamp in milliseconds), as ``jobs.write_log`` takes them.
Written = tuple[int, bytes, bytes | None, int]


class StoredLog(msgspec.Struct, frozen=True):
    """What stands in ``log.json``; bytes are written in base64."""

    version: str
    partitions: int
    first_start_ms: int
    before: list[Written]
    after: list[Written]


def of_line(name: str) -> Path:
    """The archive of a line of Spark, such as 4.1."""
    return GOLDEN / f"stored_checkpoint_{name}.tar.xz"


def unpack(file: Path, folder: Path) -> StoredLog:
    """Puts the checkpoint of an archive into ``folder / "checkpoint"``."""
    with tarfile.open(file) as archive:
        # ``extractall`` knows the filter since 3.11.4; Debian 12 has 3.11.2.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    return msgspec.json.decode((folder / "log.json").read_bytes(), type=StoredLog)


def store(log: StoredLog, folder: Path, file: Path) -> None:
    """Writes an archive; the lock and Hadoop's checksums are left out."""
    (folder / "log.json").write_bytes(msgspec.json.encode(log))
    with tarfile.open(file, "w:xz", preset=9) as archive:
        archive.add(folder / "log.json", "log.json", filter=_anonymous)
        archive.add(folder / "checkpoint", "checkpoint", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith((".crc", ".lock")):
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def offsets_of(records: Iterable[Written]) -> Counter[int]:
    """How many records there are in each partition."""
    return Counter(partition for partition, *_ in records)
