"""One replica's folder of a broker, such as ``__consumer_offsets-12``: its segments, and the batches in them.

Which files count is what Kafka decides when it loads a log (``LogLoader``): ``.deleted`` and ``.cleaned`` do not, and a
``.swap`` stands for the segments that it was made of. Records are taken apart by aiokafka, whose reader is the one of
its consumer: of record batches since Kafka 0.11, of message sets before, and of every compression.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

#: Base offset, length of what follows, leader epoch, magic. Message sets have their checksum in place of the epoch, and
#: the offset of the last message.
_FRAME: Final = struct.Struct(">qiib")
_MESSAGE_HEAD: Final = struct.Struct(">qiI")
#: The same of a record batch, then its checksum, attributes, last offset delta, producer id and producer epoch.
_HEAD: Final = struct.Struct(">qiibIhi16xqh")
#: Attributes: what the records are compressed with, a transaction, and its marker.
_COMPRESSION: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_BATCH_BYTES: Final = 61
_MESSAGE_BYTES: Final = 26
_MAGIC_OFFSET: Final = 16
#: Where the bytes of a record batch begin that its checksum is of.
_CHECKED_OFFSET: Final = 21
_LENGTH_END: Final = 12
#: Offsets of a segment, which its index has as 32 bits.
_MOST_OFFSETS: Final = 1 << 31
_TORN: Final = "the file ends inside a batch"
_CONTROL_KEY: Final = struct.Struct(">hh")
_SEGMENT: Final = re.compile(r"(\d{20})\.log(\.swap|\.cleaned)?")
NO_EPOCH: Final = -1


class Batch(NamedTuple):
    """A batch whose checksum is right. ``last_offset`` is that of the batch before compaction.

    ``producer_id`` of a transaction, whose marker is a batch with ``is_control``; else None. ``leader_epoch`` is -1 in
    message sets, which have none. ``is_plain``: it is a record batch that is not compressed.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int | None
    producer_epoch: int
    is_control: bool
    checksum: int
    is_plain: bool
    block: bytes


class Damage(NamedTuple):
    """Bytes of a segment that are not read: from ``position`` on, ``length`` of them."""

    path: Path
    position: int
    length: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.path.parent.name}/{self.path.name} at byte {self.position}"
        return f"{place}: {self.length} bytes are not read: {self.reason}"


NotRead = Callable[[Damage], None]


@dataclass(frozen=True, slots=True)
class Replica:
    """One folder of one partition."""

    folder: Path
    partition: int

    def batches(self, not_read: NotRead) -> Iterator[Batch]:
        """All whole batches in order of offset.

        Raises:
            GroupReplayError: a segment cannot be opened.
        """
        next_offset, paths = 0, self.segments()
        ends = [_base(path) for path in paths[1:]] + [_base(paths[-1]) + _MOST_OFFSETS] if paths else []
        for path, end in zip(paths, ends, strict=True):
            begin = _base(path)
            for position, batch in _batches_of(path, not_read):
                # The checksum does not cover the offset.
                if next_offset <= batch.base_offset < end and batch.base_offset >= begin:
                    next_offset = batch.last_offset + 1
                    yield batch
                else:
                    reason = f"offset {batch.base_offset} is not one of its segment, or not behind {next_offset - 1}"
                    not_read(Damage(path, position, len(batch.block), reason))

    def may_have_transactions(self) -> bool:
        """Whether a batch may belong to one, by the heads of the batches alone: this is far quicker than to read them.

        Raises:
            GroupReplayError: a segment cannot be opened.
        """
        for path in self.segments():
            with _mapped(path) as data:
                if not _is_without_transactions(data):
                    return True
        return False

    def segments(self) -> list[Path]:
        """The segments in order of offset, as Kafka would load them."""
        logs, swaps, cleaned = dict[int, Path](), dict[int, Path](), list[int]()
        for path in self.folder.iterdir():
            if (match := _SEGMENT.fullmatch(path.name)) is not None:
                base, kind = int(match[1]), match[2]
                if kind == ".cleaned":
                    cleaned.append(base)
                else:
                    (swaps if kind else logs)[base] = path
        # A cleaning that had not ended: its files, and those that it was about to put in, are given up.
        for base, path in sorted(swaps.items()):
            if base < min(cleaned, default=base + 1):
                end = max((batch.last_offset for _, batch in _batches_of(path, unreported)), default=base) + 1
                logs = {offset: log for offset, log in logs.items() if not base <= offset < end} | {
                    base: path
                }
        return [path for _, path in sorted(logs.items())]

    def epochs(self) -> Sequence[tuple[int, int]]:
        """Leader epoch and its first offset, ascending, by ``leader-epoch-checkpoint``; none without the file."""
        lines = _lines(self.folder / "leader-epoch-checkpoint")[2:]
        pairs = [tuple(map(int, line.split())) for line in lines if re.fullmatch(r"\d+ \d+", line)]
        return sorted((epoch, start) for epoch, start in pairs)

    def topic_id(self) -> str | None:
        """The id of the topic, by ``partition.metadata``; None without the file (before Kafka 2.8)."""
        return properties(self.folder / "partition.metadata", ":").get("topic_id")


def _base(segment: Path) -> int:
    return int(segment.name.partition(".")[0])


def properties(path: Path, separator: str = "=") -> dict[str, str]:
    """The lines ``name SEPARATOR value`` of a small file of a broker; none if there is no such file."""
    pairs = (line.partition(separator) for line in _lines(path) if not line.startswith("#"))
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def unreported(_: Damage) -> None:
    """For a pass before the one that reports."""


def _batches_of(path: Path, not_read: NotRead) -> Iterator[tuple[int, Batch]]:
    """The whole batches of a segment, each with its position."""
    with _mapped(path) as data:
        position, size = 0, len(data)
        while position < size:
            batch = _batch_at(data, position, size)
            if isinstance(batch, str):
                end = _next_whole(data, position + 1, size)
                not_read(Damage(path, position, end - position, batch))
                position = end
                continue
            yield position, batch
            position += len(batch.block)


def _is_without_transactions(data: mmap.mmap | bytes) -> bool:
    """Whether these are batches from end to end, none of them transactional; damage leaves it open."""
    position, last = 0, len(data) - _BATCH_BYTES
    while position <= last:
        _, length, _, magic, _, attributes, *_ = _HEAD.unpack_from(data, position)
        if magic != 2 or attributes & _TRANSACTIONAL or length < _BATCH_BYTES - _LENGTH_END:
            return False
        position += _LENGTH_END + length
    return position == len(data)


def batches_in(data: bytes) -> Iterator[Batch]:
    """The whole batches of a fetched part of a log."""
    position = 0
    while isinstance(batch := _batch_at(data, position, len(data)), Batch):
        yield batch
        position += len(batch.block)


def unreadable(path: Path, error: OSError) -> GroupReplayError:
    """A segment that cannot be opened or read."""
    return GroupReplayError(
        f"the segment cannot be read: {error.strerror or error}",
        where=str(path),
        fix="check the rights of the copy, and that it is complete",
        exit_code=ExitCode.DATA,
    )


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file; an empty file cannot be mapped."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise unreadable(path, error) from None
        if isinstance(data, mmap.mmap):
            stack.enter_context(data)
        yield data


def _batch_at(data: mmap.mmap | bytes, position: int, size: int) -> Batch | str:
    """The batch there, or why there is none."""
    if size - position < _FRAME.size:
        return _TORN
    base_offset, length, _, magic = _FRAME.unpack_from(data, position)
    least = _BATCH_BYTES if magic == 2 else _MESSAGE_BYTES
    if not 0 <= magic <= 2 or base_offset < 0 or _LENGTH_END + length < least:
        is_zero = not any(data[position : position + _BATCH_BYTES])
        return "they are zero, reserved and never written" if is_zero else "they are not a record batch"
    if size - position < _LENGTH_END + length:
        return _TORN
    block = data[position : position + _LENGTH_END + length]
    batch = _record_batch(block) if magic == 2 else _message_set(block, magic)
    return "the checksum is wrong" if batch is None else batch


def _record_batch(block: bytes) -> Batch | None:
    """None: the checksum is wrong."""
    base, _, epoch, _, checksum, attributes, delta, producer_id, producer_epoch = _HEAD.unpack_from(block)
    # aiokafka's own checksum takes five times as long, and half of all that is done with a batch here.
    if google_crc32c.value(block[_CHECKED_OFFSET:]) != checksum:
        return None
    return Batch(
        base,
        max(base, base + delta),
        epoch,
        producer_id if attributes & _TRANSACTIONAL else None,
        producer_epoch,
        bool(attributes & _CONTROL),
        checksum,
        not attributes & _COMPRESSION,
        block,
    )


def _message_set(block: bytes, magic: int) -> Batch | None:
    """A message before Kafka 0.11, or several in one that is compressed; None: the checksum is wrong."""
    # The reader takes a message apart before it compares the checksum, and does not expect what is none.
    offset, _, checksum = _MESSAGE_HEAD.unpack_from(block)
    if zlib.crc32(block[_MAGIC_OFFSET:]) != checksum:
        return None
    try:
        LegacyRecordBatch(block, magic)
    except (CorruptRecordException, SystemError):
        return None
    return Batch(offset, offset, NO_EPOCH, None, NO_EPOCH, False, checksum, False, block)


def _next_whole(data: mmap.mmap | bytes, position: int, size: int) -> int:
    """Where the next whole record batch begins; the end of the file if there is none."""
    while (magic := data.find(b"\x02", position + _MAGIC_OFFSET)) >= 0:
        position = magic - _MAGIC_OFFSET
        if isinstance(_batch_at(data, position, size), Batch):
            return position
        position += 1
    return size


def records_of(batch: Batch) -> list[Any] | str:
    """The records of a batch as aiokafka's (``DefaultRecordProtocol``), or why they cannot be read."""
    magic = batch.block[_MAGIC_OFFSET]
    try:
        return list(DefaultRecordBatch(batch.block) if magic == 2 else LegacyRecordBatch(batch.block, magic))
    # Each codec raises exceptions of its own, behind a checksum that was right.
    except Exception as error:
        return f"its records cannot be read: {error or type(error).__name__}"


def is_abort(control: Batch) -> bool | None:
    """Whether the marker aborts (``ControlRecordType``); None: it ends no transaction."""
    records = records_of(control)
    if isinstance(records, str) or not records or len(records[0].key or b"") < _CONTROL_KEY.size:
        return None
    kind = _CONTROL_KEY.unpack_from(records[0].key or b"")[1]
    return {0: True, 1: False}.get(kind)
