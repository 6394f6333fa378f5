"""The checkpoint as ours: which topic it belongs to, and that nobody else is using it.

Knows Hadoop's file systems (a checkpoint may be on any) and two files that stand beside Spark's own; must not
know what Spark keeps in the others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from groupreplay import __version__
from groupreplay.streaming.errors import ExitCode, GroupReplayError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

IDENTITY_FILE: Final = "groupreplay.json"
LOCK_FILE: Final = "groupreplay.lock"
_LOCK_SECONDS: Final = 10.0
_NEW_CHECKPOINT: Final = (
    "give this job a checkpoint of its own, for instance an empty folder (the state is then built anew from "
    "the log, and no event of the past is repeated)"
)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint belongs to; written at the first start and never again.

    ``era`` is the id of the offsets topic, ``probes`` the second source (cluster and topic). Times are
    milliseconds since 1970.
    """

    cluster_id: str
    era: str
    partitions: int
    probes: str
    first_start_ms: int
    job_id: str = ""
    version: str = __version__
    format: int = 1


class Checkpoint:
    """A folder in which Spark keeps the progress and the state of one query."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(location)
        self._files = self._path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self.location = str(self._files.makeQualified(self._path).toString())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the checkpoint for this JVM, which outlives a killed Python by a moment.

        Raises:
            GroupReplayError: another job holds it, or the folder cannot be written.
        """
        self._files.mkdirs(self._path)
        if self._files.getUri().getScheme() != "file":
            log.warning(
                "%s is no local folder and cannot be locked: see to it that no second job uses it",
                self.location,
            )
            yield
            return
        file = self._jvm.java.io.RandomAccessFile(self._path.toUri().getPath() + "/" + LOCK_FILE, "rw")
        try:
            if not self._wait_for_lock(file.getChannel()):
                raise GroupReplayError(
                    "another job is using this checkpoint",
                    where=self.location,
                    fix=f"stop it (its owner: {file.readLine() or 'unknown'}), or use another --checkpoint",
                    exit_code=ExitCode.USAGE,
                )
            file.setLength(0)
            file.writeBytes(f"host {socket.gethostname()}, process {os.getpid()}\n")
            yield
        finally:
            file.close()

    def claim(self, identity: Identity) -> Identity:
        """The identity that was written at the first start, which is now when there is none.

        Raises:
            GroupReplayError: the checkpoint belongs to something else, or is not whole.
        """
        known = self._read()
        refuse_damage(
            known, self.location, started=self._exists("offsets"), metadata=self._exists("metadata")
        )
        if known is None:
            known = msgspec.structs.replace(identity, job_id=str(uuid.uuid4()))
            self._write(known)
            return known
        check_identity(known, identity, self.location)
        return known

    def _wait_for_lock(self, channel: Any) -> bool:
        """Whether we got the lock; the JVM of a killed job holds it for some seconds more."""
        deadline = time.monotonic() + _LOCK_SECONDS
        while self._try_lock(channel) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def _try_lock(self, channel: Any) -> Any:
        from py4j.protocol import Py4JJavaError

        try:
            return channel.tryLock()
        except Py4JJavaError as error:
            # The same JVM holds it already: two jobs in one process.
            if "OverlappingFileLockException" in str(error.java_exception):
                return None
            raise

    def _exists(self, name: str) -> bool:
        return bool(self._files.exists(self._child(name)))

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def _read(self) -> Identity | None:
        if not self._exists(IDENTITY_FILE):
            return None
        stream = self._files.open(self._child(IDENTITY_FILE))
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return decode_identity(text, f"{self.location}/{IDENTITY_FILE}")

    def _write(self, identity: Identity) -> None:
        beside = self._child(f".{IDENTITY_FILE}.{uuid.uuid4()}")
        stream = self._files.create(beside, True)
        try:
            stream.write(bytearray(msgspec.json.encode(identity)))
        finally:
            stream.close()
        # Whole or not at all, also when we are killed here.
        if not self._files.rename(beside, self._child(IDENTITY_FILE)):
            raise _refused(self.location, "the checkpoint cannot be written", "check its rights and its disk")


def decode_identity(text: str | bytes, where: str) -> Identity:
    """The identity in the file ``where``.

    Raises:
        GroupReplayError: the file is damaged.
    """
    try:
        return msgspec.json.decode(text, type=Identity)
    except msgspec.DecodeError as error:
        raise _refused(
            where,
            f"the checkpoint's identity cannot be read: {error}",
            "restore the file from a backup, or " + _NEW_CHECKPOINT,
        ) from None


def refuse_damage(known: Identity | None, location: str, *, started: bool, metadata: bool) -> None:
    """Whether what a checkpoint holds goes together: Spark has ``started`` in it, and its ``metadata`` is there.

    Raises:
        GroupReplayError: it is not ours, or not whole.
    """
    if known is None and started:
        raise _refused(location, "the checkpoint was not made by groupreplay", _NEW_CHECKPOINT)
    # Spark would take a new query id and begin again in silence.
    if started and not metadata:
        raise _refused(
            location,
            "the checkpoint has lost its metadata file",
            "restore the whole folder from a backup, or " + _NEW_CHECKPOINT,
        )


def check_identity(known: Identity, wanted: Identity, location: str) -> None:
    """Whether a checkpoint that is there belongs to what is wanted now.

    Raises:
        GroupReplayError: it does not.
    """
    differences = (
        (known.cluster_id, wanted.cluster_id, "belongs to another cluster", _NEW_CHECKPOINT),
        (
            known.era,
            wanted.era,
            "belongs to an earlier life of the offsets topic, which was created anew since",
            _NEW_CHECKPOINT,
        ),
        (known.partitions, wanted.partitions, "was made with another number of partitions", _NEW_CHECKPOINT),
        (
            known.probes,
            wanted.probes,
            "reads its heartbeats elsewhere",
            "name the same sink and topics again",
        ),
    )
    for before, now, what, fix in differences:
        if before != now:
            raise _refused(location, f"the checkpoint {what} ({before}, not {now})", fix)


def _refused(where: str, what: str, fix: str) -> GroupReplayError:
    return GroupReplayError(what, where=where, fix=fix, exit_code=ExitCode.USAGE)
