"""The folders in which brokers keep their logs as a source: a copy of them is enough, no broker is needed."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tarfile
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.streaming.sources.log_replicas import (
    MergedLog,
    Transactions,
    columns_of_partition,
    transactions_of_partition,
    unheard,
)
from groupreplay.streaming.sources.log_segments import Replica, properties, unreadable
from groupreplay.streaming.sources.pending_commits import pending_commits
from groupreplay.streaming.sources.source import (
    UNKNOWN_CLUSTER,
    DataEnd,
    Rows,
    agreed,
    counted,
    end_of_records,
    feed_file,
    with_rounds,
)

log = logging.getLogger(__name__)

_FOLDER: Final = re.compile(r"(.+)-(\d+)")
#: What is unpacked of an archive beside the folders of the topics that are read.
_SMALL_FILES: Final = ("meta.properties", "partition.metadata")
_BLOCK_BYTES: Final = 1 << 20
#: Sentences about what is not read, at most.
_MOST_NOTES: Final = 20


@dataclass(frozen=True, slots=True)
class LogFolderSource:
    """Folders of ``log.dirs`` of one or several brokers, folders of single partitions, and tar archives of either.

    ``probes_topic`` is the topic of the prober's answers in them; empty: answers are not read. ``uncommitted``: what
    transactions have written is read whether they were committed or not.
    """

    paths: Sequence[Path]
    probes_topic: str = "group-probes"
    uncommitted: bool = False
    _unpacked: dict[Path, tempfile.TemporaryDirectory[str]] = field(default_factory=dict, compare=False)
    _transactions: dict[int, Transactions] = field(default_factory=dict, compare=False)

    @property
    def origin(self) -> str:
        """The names of the folders and archives, without the folders that contain them."""
        return ", ".join(path.name for path in self.paths)

    @property
    def flags(self) -> Sequence[str]:
        """See ``RecordSource``."""
        words = [word for path in self.paths for word in ("--from-log-dir", path.name)]
        return [*words, *(["--read-uncommitted"] if self.uncommitted else [])]

    def open(
        self,
        partitions: Sequence[int] = (),
        groups: Collection[str] | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Rows:
        """See ``RecordSource``. All groups: folders do not say how many partitions the topic has."""
        folders = self._partition_folders()
        replicas = self._offsets_replicas(folders, partitions)
        clusters = [(replica.folder, _cluster_id(replica.folder)) for replica in replicas]
        topic_ids = [(replica.folder, replica.topic_id()) for replica in replicas]
        rows = Rows(
            agreed(clusters, "folders", "clusters") or UNKNOWN_CLUSTER,
            agreed(topic_ids, "folders", "offsets topics (topic ids)") or "0",
            self._batches(OFFSETS_TOPIC, replicas, progress),
            probes=self._batches(self.probes_topic, _replicas(folders, self.probes_topic), no_progress),
            probes_topic=self.probes_topic,
            topic_names=_topic_names(folders),
            where=self._where(),
            kind="folder",
            pending=partial(self._pending, replicas),
        )
        return with_rounds(counted(rows)) if self.probes_topic else counted(rows)

    def end(self) -> DataEnd:
        """The last record."""
        rows = LogFolderSource(self.paths, "", self.uncommitted, self._unpacked).open()
        for _ in rows.batches:
            pass
        return end_of_records(rows.extent.last_ms, self._where(), "folder")

    def digest(self) -> str:
        """That of the segments of the offsets topic, one after the other."""
        total = hashlib.sha256()
        for replica in self._offsets_replicas(self._partition_folders(), ()):
            for path in replica.segments():
                try:
                    feed_file(total.update, path)
                except OSError as error:
                    raise unreadable(path, error) from None
        return total.hexdigest()

    def _where(self) -> str:
        return ", ".join(map(str, self.paths))

    def _partition_folders(self) -> list[Path]:
        """All folders of partitions, of any topic; archives are unpacked once, and removed with the source."""
        folders = list[Path]()
        for path in self.paths:
            if not path.exists():
                raise GroupReplayError(
                    "there is no such folder or archive",
                    where=str(path),
                    fix="give a copy of log.dirs of a broker, or a .tar or .tar.gz of it",
                    exit_code=ExitCode.DATA,
                )
            if path.is_file() and path not in self._unpacked:
                self._unpacked[path] = _unpacked(path, {OFFSETS_TOPIC, self.probes_topic})
            root = Path(self._unpacked[path].name) if path in self._unpacked else path
            inside = (folder for folder in [root, *root.rglob("*")] if folder.is_dir())
            folders += sorted(folder for folder in inside if _FOLDER.fullmatch(folder.name))
        return folders

    def _offsets_replicas(self, folders: Sequence[Path], partitions: Sequence[int]) -> list[Replica]:
        replicas = _replicas(folders, OFFSETS_TOPIC)
        missing = sorted(set(partitions) - {replica.partition for replica in replicas})
        if replicas and not missing:
            return [replica for replica in replicas if not partitions or replica.partition in partitions]
        name = f"{OFFSETS_TOPIC}-{missing[0]}" if missing else OFFSETS_TOPIC
        raise GroupReplayError(
            f"there is no folder {name} in it" if missing else f"there is no folder of {OFFSETS_TOPIC} in it",
            where=self._where(),
            fix="give log.dirs of a broker that has replicas of the topic; each broker has only some partitions",
            exit_code=ExitCode.DATA,
        )

    def _pending(self, replicas: Sequence[Replica]) -> list[PendingCommit]:
        """The pending commits; how transactions ended is kept for the read that follows."""
        pending = list[PendingCommit]()
        for partition, copies in _by_partition(replicas):
            transactions = self._transactions[partition] = transactions_of_partition(copies)
            pending += pending_commits(partition, MergedLog(copies).batches(unheard), transactions)
        return pending

    def _batches(
        self, topic: str, replicas: Sequence[Replica], progress: ProgressCallback
    ) -> Iterator[pa.RecordBatch]:
        notes, done = _Notes(), 0
        for partition, copies in _by_partition(replicas):
            known = self._transactions.get(partition) if topic == OFFSETS_TOPIC else None
            for columns in columns_of_partition(
                copies, uncommitted=self.uncommitted, note=notes.add, transactions=known
            ):
                done += len(columns.offsets)
                yield columns.rows(topic, partition)
                progress(done, None)
        notes.close()


def _by_partition(replicas: Sequence[Replica]) -> list[tuple[int, list[Replica]]]:
    copies = defaultdict[int, list[Replica]](list)
    for replica in replicas:
        copies[replica.partition].append(replica)
    return sorted(copies.items())


class _Notes:
    """Logs what is not read, and at the end how much of it was not logged."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, text: str) -> None:
        self._count += 1
        if self._count <= _MOST_NOTES:
            log.warning("%s", text)

    def close(self) -> None:
        if self._count > _MOST_NOTES:
            log.warning("%d more places are not read", self._count - _MOST_NOTES)


def _replicas(folders: Sequence[Path], topic: str) -> list[Replica]:
    matches = ((folder, _FOLDER.fullmatch(folder.name)) for folder in folders)
    return [Replica(folder, int(match[2])) for folder, match in matches if match and match[1] == topic]


def _cluster_id(partition_folder: Path) -> str | None:
    return properties(partition_folder.parent / "meta.properties").get("cluster.id")


def _topic_names(folders: Sequence[Path]) -> dict[str, str]:
    """Topic id -> name, of all topics that have a folder."""
    names = dict[str, str]()
    for folder in folders:
        match, topic_id = _FOLDER.fullmatch(folder.name), Replica(folder, 0).topic_id()
        if match and topic_id:
            names[topic_id] = match[1]
    return names


def _unpacked(archive: Path, topics: Collection[str]) -> tempfile.TemporaryDirectory[str]:
    """A new folder with what is needed of a tar archive; what is behind the end of a torn one is missing."""
    folder = tempfile.TemporaryDirectory(prefix="groupreplay-logs-")
    count = 0
    try:
        with tarfile.open(archive) as members:
            for member in members:
                path = PurePosixPath(member.name)
                topic = _FOLDER.fullmatch(path.parent.name)
                if not member.isfile() or not (path.name in _SMALL_FILES or (topic and topic[1] in topics)):
                    continue
                _copy(
                    members,
                    member,
                    Path(folder.name, *(part for part in path.parts if part not in ("/", ".."))),
                )
                count += 1
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if not count:
            reason = "it is no tar archive" if isinstance(error, tarfile.ReadError) else error
            raise GroupReplayError(
                f"the archive cannot be read: {reason}",
                where=str(archive),
                fix="give a folder, or a .tar or .tar.gz of one",
                exit_code=ExitCode.DATA,
            ) from None
        log.warning("%s ends early (%s): what is behind its last file is not read", archive, error)
    return folder


def _copy(members: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = members.extractfile(member)
    assert source is not None
    with source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK_BYTES)
