"""Requests of the coordinator model as bytes of Kafka's protocol, sent to a broker, and the answers.

A client library decides itself when a member sends which request; these requests are sent one by one, wrong ones too.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Request,
    SyncGroup,
    TopicIdPartition,
)
from groupreplay.coordinator.trace import ERROR_CODES

#: Of an error by its number on the wire.
_ERRORS = {code: error for error, code in ERROR_CODES.items()}
_NO_TAGS = b"\x00"


def _text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value.encode())) + value.encode()


def _blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _uvarint(value: int) -> bytes:
    low = bytearray()
    while value > 0x7F:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*low, value])


def _compact(value: str | None) -> bytes:
    return b"\x00" if value is None else _uvarint(len(value.encode()) + 1) + value.encode()


def _compact_array(items: Sequence[bytes] | None) -> bytes:
    return b"\x00" if items is None else _uvarint(len(items) + 1) + b"".join(items)


class _Reader:
    """An answer, read field by field."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self._at += count
        return self._body[self._at - count : self._at]

    def number(self, form: str) -> int:
        """A number of this ``struct`` form."""
        return int(struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0])

    def error(self) -> Error:
        """An error's number."""
        return _ERRORS[self.number("h")]

    def text(self) -> str | None:
        """A text with two bytes of length."""
        length = self.number("h")
        return None if length < 0 else self.take(length).decode()

    def blob(self) -> bytes:
        """Bytes with four bytes of length."""
        return self.take(self.number("i"))

    def uvarint(self) -> int:
        """A number of as many bytes as it needs."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def compact(self) -> str | None:
        """A text of a flexible message."""
        length = self.uvarint()
        return None if length == 0 else self.take(length - 1).decode()


@dataclass(frozen=True)
class _Form:
    """How one request goes over the wire; ``flexible`` says which headers it has."""

    api: int
    version: int
    flexible: bool
    write: Callable[[str, Any], bytes]
    read: Callable[[_Reader], Answer]


def _write_join(group: str, request: JoinGroup) -> bytes:
    protocols = [_text(one.name) + _blob(one.metadata) for one in request.protocols]
    return (
        _text(group)
        + struct.pack(">ii", request.session_timeout_ms, request.rebalance_timeout_ms)
        + _text(request.member_id)
        + _text(request.instance_id)
        + _text(request.protocol_type)
        + _array(protocols)
    )


def _read_join(answer: _Reader) -> Answer:
    answer.number("i")
    error, generation = answer.error(), answer.number("i")
    protocol, leader, member_id = answer.text(), answer.text(), answer.text()
    members = tuple((answer.text() or "", answer.text(), answer.blob()) for _ in range(answer.number("i")))
    return Answer(
        error=error,
        member_id=member_id or "",
        generation=generation,
        protocol=protocol or None,
        leader=leader or "",
        members=members,
    )


def _write_sync(group: str, request: SyncGroup) -> bytes:
    shares = [_text(name) + _blob(share) for name, share in request.assignments]
    head = _text(group) + struct.pack(">i", request.generation)
    return head + _text(request.member_id) + _text(request.instance_id) + _array(shares)


def _read_sync(answer: _Reader) -> Answer:
    answer.number("i")
    return Answer(error=answer.error(), assignment=answer.blob())


def _write_heartbeat(group: str, request: ClassicHeartbeat) -> bytes:
    head = _text(group) + struct.pack(">i", request.generation)
    return head + _text(request.member_id) + _text(request.instance_id)


def _read_error(answer: _Reader) -> Answer:
    answer.number("i")
    return Answer(error=answer.error())


def _write_leave(group: str, request: LeaveGroup) -> bytes:
    return _text(group) + _array([_text(one.member_id) + _text(one.instance_id) for one in request.members])


def _read_leave(answer: _Reader) -> Answer:
    answer.number("i")
    error = answer.error()
    left = []
    for _ in range(answer.number("i")):
        answer.text()
        answer.text()
        left.append(answer.error())
    return Answer.of_leaving(left) if error is Error.NONE else Answer(error=error)


def _write_delete(group: str, _: DeleteGroup) -> bytes:
    return _array([_text(group)])


def _read_delete(answer: _Reader) -> Answer:
    answer.number("i")
    answer.number("i")
    answer.text()
    return Answer(error=answer.error())


def _write_commit(group: str, request: OffsetCommit) -> bytes:
    """One topic after the other, each with one partition."""
    topics = [
        _compact(one.topic)
        + _compact_array(
            [
                struct.pack(">iqi", one.partition, one.offset, one.leader_epoch)
                + _compact(one.metadata)
                + _NO_TAGS
            ]
        )
        + _NO_TAGS
        for one in request.commits
    ]
    head = _compact(group) + struct.pack(">i", request.generation) + _compact(request.member_id)
    return head + _compact(request.instance_id) + _compact_array(topics) + _NO_TAGS


def _read_commit(answer: _Reader) -> Answer:
    answer.number("i")
    errors = []
    for _ in range(answer.uvarint() - 1):
        answer.compact()
        for _ in range(answer.uvarint() - 1):
            answer.number("i")
            errors.append(answer.error())
            answer.uvarint()
        answer.uvarint()
    return Answer(error=max(errors, key=lambda error: error is not Error.NONE))


def _write_consumer(group: str, request: ConsumerGroupHeartbeat) -> bytes:
    names = None if request.topics is None else [_compact(name) for name in request.topics]
    owned = None if request.owned is None else _places(request.owned)
    return (
        _compact(group)
        + _compact(request.member_id)
        + struct.pack(">i", request.member_epoch)
        + _compact(request.instance_id)
        + _compact(request.rack_id)
        + struct.pack(">i", request.rebalance_timeout_ms)
        + _compact_array(names)
        + _compact(None)
        + _compact(request.assignor)
        + _compact_array(owned)
        + _NO_TAGS
    )


def _places(owned: frozenset[TopicIdPartition]) -> list[bytes]:
    topics: dict[bytes, list[int]] = {}
    for topic, number in sorted(owned):
        topics.setdefault(topic, []).append(number)
    return [
        topic + _compact_array([struct.pack(">i", number) for number in numbers]) + _NO_TAGS
        for topic, numbers in topics.items()
    ]


def _read_consumer(answer: _Reader) -> Answer:
    answer.number("i")
    error = answer.error()
    answer.compact()
    member_id, epoch = answer.compact(), answer.number("i")
    answer.number("i")
    assigned: set[TopicIdPartition] | None = None
    if answer.number("b") >= 0:
        assigned = set()
        for _ in range(answer.uvarint() - 1):
            topic = answer.take(16)
            assigned |= {(topic, answer.number("i")) for _ in range(answer.uvarint() - 1)}
            answer.uvarint()
    return Answer(
        error=error,
        member_id=member_id or "",
        generation=epoch,
        assigned=None if assigned is None else frozenset(assigned),
    )


def _write_commit_with_retention(group: str, request: OffsetCommit) -> bytes:
    """Version 2, the last one with a retention time."""
    topics = [
        _text(one.topic) + _array([struct.pack(">iq", one.partition, one.offset) + _text(one.metadata)])
        for one in request.commits
    ]
    head = _text(group) + struct.pack(">i", request.generation) + _text(request.member_id)
    return head + struct.pack(">q", request.retention_ms) + _array(topics)


def _read_commit_with_retention(answer: _Reader) -> Answer:
    errors = [Error.NONE]
    for _ in range(answer.number("i")):
        answer.text()
        for _ in range(answer.number("i")):
            answer.number("i")
            errors.append(answer.error())
    return Answer(error=max(errors, key=lambda error: error is not Error.NONE))


def _write_offset_delete(group: str, request: OffsetDelete) -> bytes:
    topics = [
        _text(topic) + _array([struct.pack(">i", number) for _, number in partitions])
        for topic, partitions in groupby(request.partitions, key=lambda one: one[0])
    ]
    return _text(group) + _array(topics)


def _read_offset_delete(answer: _Reader) -> Answer:
    error = answer.error()
    answer.number("i")
    partitions = _read_commit_with_retention(answer)
    return Answer(error=partitions.error if error is Error.NONE else error)


_COMMIT_WITH_RETENTION = _Form(8, 2, False, _write_commit_with_retention, _read_commit_with_retention)
_FORMS: dict[type, _Form] = {
    JoinGroup: _Form(11, 5, False, _write_join, _read_join),
    SyncGroup: _Form(14, 3, False, _write_sync, _read_sync),
    ClassicHeartbeat: _Form(12, 3, False, _write_heartbeat, _read_error),
    LeaveGroup: _Form(13, 3, False, _write_leave, _read_leave),
    DeleteGroup: _Form(42, 1, False, _write_delete, _read_delete),
    OffsetCommit: _Form(8, 9, True, _write_commit, _read_commit),
    OffsetDelete: _Form(47, 0, False, _write_offset_delete, _read_offset_delete),
    ConsumerGroupHeartbeat: _Form(68, 1, True, _write_consumer, _read_consumer),
}


class RawRequest:
    """A request that has been sent; a member that joins waits for its answer while others go on."""

    def __init__(self, server: str, group: str, client_id: str, request: Request) -> None:
        with_retention = isinstance(request, OffsetCommit) and request.retention_ms is not None
        self._form = _COMMIT_WITH_RETENTION if with_retention else _FORMS[type(request)]
        host, _, port = server.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=30)
        header = struct.pack(">hhi", self._form.api, self._form.version, 1) + _text(client_id)
        message = header + (_NO_TAGS if self._form.flexible else b"") + self._form.write(group, request)
        self._connection.sendall(struct.pack(">i", len(message)) + message)

    def answer(self) -> Answer:
        """The answer, when it comes; the connection ends with it."""
        with self._connection:
            length = struct.unpack(">i", self._exactly(4))[0]
            body = _Reader(self._exactly(length))
        body.take(5 if self._form.flexible else 4)
        return self._form.read(body)

    def close(self) -> None:
        """Hangs up without an answer."""
        self._connection.close()

    def _exactly(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            more = self._connection.recv(count - len(read))
            assert more, "the broker hung up"
            read += more
        return read
