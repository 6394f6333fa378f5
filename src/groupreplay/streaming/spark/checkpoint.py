"""The checkpoint folder: which topic it belongs to, how far that was read, and a lock against a second job.

The folder may be on any file system of Hadoop. Two files of this project stand beside Spark's own. When a part of
the log is lost, the state is built anew in a folder inside.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from groupreplay.state.events.event import JobGap
from groupreplay.streaming.base.errors import GroupReplayError, UnwritableError, unusable
from groupreplay.streaming.base.files import mode_of, writers
from groupreplay.streaming.contract.log import IncidentState, LogMarks
from groupreplay.streaming.run.document_sync import SyncRecord
from groupreplay.streaming.run.identity import (
    IDENTITY_FILE,
    Identity,
    check_identity,
    decode_identity,
    next_event_era,
    unreadable_identity,
)
from groupreplay.streaming.spark.checkpoint_files import (
    Lock,
    OpenLock,
    SparkFiles,
    has_run,
    in_use,
    opened_lock,
    opening,
    reading,
    refuse_damage,
    writing,
)
from groupreplay.streaming.spark.internals.jvm import hadoop_configuration, jvm_of
from groupreplay.streaming.spark.query import are_ahead, offsets_in, state_partitions_in
from groupreplay.streaming.spark.session import PLAIN_FILES, jvm_runs_already

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_Record = TypeVar("_Record")

#: Not part of the identity, because it changes.
SYNC_FILE: Final = "groupreplay-topics.json"
INCIDENTS_FILE: Final = "groupreplay-incidents.json"
#: What was seen of the log; changes with each batch.
MARKS_FILE: Final = "groupreplay-log.json"
LOCK_SECONDS: Final = 10.0
#: About what one small batch writes: on a disk with less space the next one would fail, too.
_TRIED_BYTES: Final = 64 * 1024
#: Folders inside in which the state was built anew, numbered from 1.
ANEW: Final = "anew"


def local_folder(location: str, spark_conf: Mapping[str, str]) -> Path | None:
    """The folder of a checkpoint on this machine; None if only Spark knows its file system."""
    scheme, _, path = location.rpartition(":")
    if scheme == "file":
        return Path("/" + path.lstrip("/"))
    is_local = not scheme and "spark.hadoop.fs.defaultFS" not in spark_conf and not jvm_runs_already()
    return Path(location) if is_local else None


def make_private(folder: Path) -> None:
    """Makes a folder of this machine, for its owner alone; warns of one that exists and that others can write into."""
    # Hadoop, which is asked next, names whatever keeps it from being made.
    with contextlib.suppress(OSError):
        folder.mkdir(0o700, parents=True, exist_ok=True)
    if warning := writable_by_others(folder):
        log.warning("%s: %s", *warning)


def writable_by_others(folder: Path) -> tuple[str, str] | None:
    """(what is wrong, what to do) with a checkpoint into which others can write; None if nobody can."""
    who = writers(folder)
    if who is None:
        return None
    what = f"{who} can write into the checkpoint {folder} (mode {mode_of(folder)}) and so decide what the job does"
    return what, f"chmod -R go-rwx {folder}"


class Checkpoint:
    """A folder in which Spark keeps the progress and the state of one query."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm = jvm_of(spark)
        self._spark = spark
        with opening(location):
            self._path = self._jvm.org.apache.hadoop.fs.Path(location)
            self._files = self._path.getFileSystem(hadoop_configuration(spark))
        self.location = str(self._files.makeQualified(self._path).toString())

    @property
    def is_plain(self) -> bool:
        """Whether it is a local folder that Hadoop's own file system serves."""
        return bool(self._files.getClass().getName() == PLAIN_FILES)

    @property
    def is_lockable(self) -> bool:
        """Whether a second job on this checkpoint can be kept out."""
        return bool(self._files.getUri().getScheme() == "file")

    def unwritable(self) -> str | None:
        """Why no file can be written and flushed in the folder now; None: one can."""
        beside = f".groupreplay-{uuid.uuid4()}"
        try:
            with writing(self.location):
                self._write_text(beside, bytes(_TRIED_BYTES), flush=True)
        except UnwritableError as error:
            return error.what
        finally:
            with contextlib.suppress(UnwritableError), writing(self.location):
                self._files.delete(self._child(beside), False)
        return None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the checkpoint for this driver and its JVM.

        Raises:
            GroupReplayError: another job holds it, or the folder cannot be written.
        """
        with self.lock() as lock:
            deadline = time.monotonic() + LOCK_SECONDS
            while not lock.take():
                if time.monotonic() > deadline:
                    raise in_use(self.location, lock.owner())
                time.sleep(0.2)
            yield

    @contextlib.contextmanager
    def lock(self) -> Iterator[Lock]:
        """The lock, which is not taken yet; gives it back in the end. A file system without locks is always free."""
        if self.is_lockable:
            make_private(Path(self._path.toUri().getPath()))
        with writing(self.location):
            self._files.mkdirs(self._path)
        if not self.is_lockable:
            log.warning(
                "%s is not a local folder and cannot be locked: only the claim of the topics keeps a second job out",
                self.location,
            )
            yield OpenLock()
            return
        with opened_lock(self._jvm, Path(self._path.toUri().getPath()), self.location) as lock:
            yield lock

    def claim(self, identity: Identity) -> Identity:
        """The identity that was written at the first start; writes it when there is none.

        Raises:
            GroupReplayError: the checkpoint belongs to another job, or is damaged.
        """
        known = self.known()
        refuse_damage(known, self.location, self._spark_files())
        if known is None:
            known = msgspec.structs.replace(
                identity,
                job_id=identity.job_id or str(uuid.uuid4()),
                event_era=identity.event_era or identity.era,
            )
            if self._write(known):
                return known
            # Another process has begun it at the same moment; its claim of the topics decides which of both goes on.
            known = self.known()
            if known is None:
                raise _not_renamed(self.location)
        check_identity(known, identity, self.location)
        return known if known.event_era else msgspec.structs.replace(known, event_era=known.era)

    def known(self) -> Identity | None:
        """The identity that was written at the first start; None before it.

        Raises:
            GroupReplayError: it cannot be read.
        """
        if not self._exists(IDENTITY_FILE):
            return None
        where = f"{self.location}/{IDENTITY_FILE}"
        try:
            text = self._readable(IDENTITY_FILE)
        except ValueError as error:
            raise unreadable_identity(where, error) from None
        return decode_identity(text, where)

    def synced(self) -> SyncRecord | None:
        """What is known about the topics of documents; None if nothing is, or the file cannot be read."""
        return self._record(SYNC_FILE, SyncRecord)

    def note_synced(self, record: SyncRecord) -> None:
        """Writes what is known about the topics of documents. A torn file is as good as none."""
        self._write_text(SYNC_FILE, msgspec.json.encode(record))

    def incidents(self) -> IncidentState | None:
        """The finder of incidents as it was stored; None if none was, or the file cannot be read."""
        return self._record(INCIDENTS_FILE, IncidentState)

    def note_incidents(self, state: IncidentState) -> None:
        """Writes the finder of incidents. A torn file is as good as none."""
        self._write_text(INCIDENTS_FILE, msgspec.json.encode(state))

    def log_marks(self) -> LogMarks | None:
        """What was seen of the log; None if nothing was, or the file cannot be read."""
        return self._record(MARKS_FILE, LogMarks)

    def note_log_marks(self, marks: LogMarks) -> None:
        """Writes what was seen of the log. A torn file is as good as none.

        Raises:
            OSError: the disk is full or cannot be written.
        """
        from py4j.protocol import Py4JJavaError

        try:
            self._write_text(MARKS_FILE, msgspec.json.encode(marks))
        except Py4JJavaError as error:
            raise OSError(f"{self.location}/{MARKS_FILE}: {error.java_exception.toString()}") from None

    def started(self) -> bool:
        """Whether a query has run on it."""
        return has_run(self._spark_files())

    def latest(self) -> Checkpoint:
        """The checkpoint in use: this one, or the last one inside in which the state was built anew."""
        number = self._anew()
        return self._at(number) if number else self

    def begin_anew(self, former: Identity, gap: JobGap, now: Identity) -> Checkpoint:
        """A new checkpoint inside, with what was lost in its identity; the former one is not changed."""
        # Not the number of this folder alone: a job with another checkpoint may have given that to its events.
        era = next_event_era(former.era, former.event_era, now.era, least=1 + self._anew())
        return self._begin(msgspec.structs.replace(now, job_id=former.job_id, gap=gap, event_era=era))

    def begin_after_other(self, former: Identity, now: Identity) -> Checkpoint:
        """The same after a job with another checkpoint, whose events are continued as ``now`` says."""
        return self._begin(msgspec.structs.replace(now, job_id=former.job_id))

    def _begin(self, identity: Identity) -> Checkpoint:
        place = self._at(1 + self._anew())
        with writing(place.location):
            place._files.mkdirs(place._path)
        if not place._write(identity):
            raise _not_renamed(place.location)
        return place

    def last_batch(self) -> int:
        """The number of the last finished batch; -1 before the first."""
        return max(self._numbers("commits"), default=-1)

    def read_to(self) -> dict[int, int]:
        """The next offset of each partition of the log after the last finished batch; nothing before the first."""
        return self._offsets_of(self._numbers("commits"))

    def planned_to(self) -> dict[int, int]:
        """The same after the last batch that was begun: Spark reads exactly that part of the log again."""
        return self._offsets_of(self._numbers("offsets"))

    def is_ahead(self) -> bool:
        """Whether only ``LogSource`` can go on: some groups are ahead in the last batch that was begun."""
        return are_ahead(self._last_of(self._numbers("offsets")))

    def state_partitions(self) -> int | None:
        """How many partitions the groups' state has, which the first batch decides; None before it."""
        return state_partitions_in(self._last_of(self._numbers("offsets")))

    def _offsets_of(self, batches: list[int]) -> dict[int, int]:
        return offsets_in(self._last_of(batches))

    def _last_of(self, batches: list[int]) -> list[str]:
        """The lines of the ``offsets`` file of the last of these batches."""
        if not batches or not self._exists(f"offsets/{batches[-1]}"):
            return []
        return self._text(f"offsets/{batches[-1]}").splitlines()

    def _record(self, name: str, kind: type[_Record]) -> _Record | None:
        """The content of a file that is written often and may be missing or torn."""
        if not self._exists(name):
            return None
        try:
            return msgspec.json.decode(self._readable(name), type=kind)
        except ValueError as error:
            log.warning("%s/%s cannot be read and is written again: %s", self.location, name, error)
            return None

    def _anew(self) -> int:
        number = 0
        while self._exists(f"{ANEW}-{number + 1}/{IDENTITY_FILE}"):
            number += 1
        return number

    def _at(self, number: int) -> Checkpoint:
        return Checkpoint(self._spark, f"{self._path}/{ANEW}-{number}")

    def _numbers(self, folder: str) -> list[int]:
        if not self._exists(folder):
            return []
        with reading(self.location, is_local=self.is_lockable):
            names = [status.getPath().getName() for status in self._files.listStatus(self._child(folder))]
        return sorted(int(name) for name in names if name.isdigit())

    def _spark_files(self) -> SparkFiles:
        return SparkFiles(self._exists, self._numbers, self._readable)

    def _readable(self, name: str) -> str:
        from py4j.protocol import Py4JJavaError

        try:
            with reading(self.location, is_local=self.is_lockable):
                return self._text(name)
        except Py4JJavaError as error:
            # Hadoop keeps checksums beside the files.
            raise ValueError(str(error.java_exception.getMessage())) from None

    def _exists(self, name: str) -> bool:
        with reading(self.location, is_local=self.is_lockable):
            return bool(self._files.exists(self._child(name)))

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def _text(self, name: str) -> str:
        stream = self._files.open(self._child(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write_text(self, name: str, text: bytes, *, flush: bool = False) -> None:
        with writing(self.location):
            stream = self._files.create(self._child(name), True)
            try:
                stream.write(bytearray(text))
                if flush:
                    stream.hsync()
            finally:
                stream.close()

    def _write(self, identity: Identity) -> bool:
        """Whether it was written; not if another process has written one on a file system that keeps that."""
        beside = f".{IDENTITY_FILE}.{uuid.uuid4()}"
        self._write_text(beside, msgspec.json.encode(identity))
        # Complete or not at all, also when the process is killed here.
        with writing(self.location):
            return bool(self._files.rename(self._child(beside), self._child(IDENTITY_FILE)))


def _not_renamed(location: str) -> GroupReplayError:
    return unusable("the checkpoint cannot be written", location, "check its rights and its disk")
