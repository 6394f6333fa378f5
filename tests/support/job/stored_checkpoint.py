"""A checkpoint that an earlier commit has made (golden/stored_checkpoint.tar.xz), with the log that it read.

The archive holds the folder ``checkpoint`` and ``log.json``: the commit, the number of partitions, when the job was
started for the first time, and records ``before`` and ``after`` the moment at which it was stopped.
"""

from __future__ import annotations

import json
import tarfile
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.paths import ROOT

FILE = ROOT / "tests" / "golden" / "stored_checkpoint.tar.xz"

#: (partition, key, value, timestamp in milliseconds), as ``jobs.write_log`` takes them.
Written = tuple[int, bytes, bytes | None, int]


@dataclass(frozen=True)
class StoredLog:
    """What stands in ``log.json``."""

    commit: str
    partitions: int
    first_start_ms: int
    before: list[Written]
    after: list[Written]

    def to_json(self) -> str:
        """The file."""
        halves = {"before": list(map(_plain, self.before)), "after": list(map(_plain, self.after))}
        told = {
            "commit": self.commit,
            "partitions": self.partitions,
            "first_start_ms": self.first_start_ms,
        }
        return json.dumps({**told, **halves})


def unpack(folder: Path) -> StoredLog:
    """Puts the checkpoint into ``folder / "checkpoint"``."""
    with tarfile.open(FILE) as archive:
        # ``extractall`` knows the filter since 3.11.4; Debian 12 has 3.11.2.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    told = json.loads((folder / "log.json").read_text())
    halves = {name: [_record(*one) for one in told.pop(name)] for name in ("before", "after")}
    return StoredLog(**told, **halves)


def store(log: StoredLog, folder: Path) -> None:
    """Writes the archive; the lock and Hadoop's checksums are left out."""
    (folder / "log.json").write_text(log.to_json())
    with tarfile.open(FILE, "w:xz", preset=9) as archive:
        archive.add(folder / "log.json", "log.json", filter=_anonymous)
        archive.add(folder / "checkpoint", "checkpoint", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith((".crc", ".lock")):
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _plain(record: Written) -> list[Any]:
    partition, key, value, at_ms = record
    return [partition, b64encode(key).decode(), None if value is None else b64encode(value).decode(), at_ms]


def _record(partition: int, key: str, value: str | None, at_ms: int) -> Written:
    return partition, b64decode(key), None if value is None else b64decode(value), at_ms


def offsets_of(records: Iterable[Written]) -> dict[int, int]:
    """How many records there are in each partition."""
    counts: dict[int, int] = {}
    for partition, *_ in records:
        counts[partition] = counts.get(partition, 0) + 1
    return counts
