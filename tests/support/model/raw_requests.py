"""Requests of Kafka's protocol that no client at hand sends any more, or yet, written out byte by byte."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence

_OFFSET_COMMIT, _OFFSET_DELETE = 8, 47


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _answer(server: str, api: int, version: int, body: bytes) -> bytes:
    host, _, port = server.rpartition(":")
    request = struct.pack(">hhi", api, version, 1) + _text("raw") + body
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        length = struct.unpack(">i", _exactly(connection, 4))[0]
        return _exactly(connection, length)[4:]


def _exactly(connection: socket.socket, count: int) -> bytes:
    read = b""
    while len(read) < count:
        more = connection.recv(count - len(read))
        assert more, "the broker hung up"
        read += more
    return read


def commit_with_retention(server: str, group: str, topic: str, offsets: Mapping[int, int], ms: int) -> None:
    """OffsetCommit of version 2: the offsets expire after so many milliseconds, whatever the broker's setting."""
    partitions = [struct.pack(">iq", number, offset) + _text("") for number, offset in offsets.items()]
    body = _text(group) + struct.pack(">i", -1) + _text("") + struct.pack(">q", ms)
    answer = _answer(server, _OFFSET_COMMIT, 2, body + _array([_text(topic) + _array(partitions)]))
    assert answer.endswith(struct.pack(">h", 0)), answer


def delete_offsets(server: str, group: str, topic: str, partitions: Sequence[int]) -> None:
    """OffsetDelete, as ``kafka-consumer-groups.sh --delete-offsets`` sends it."""
    numbers = _array([struct.pack(">i", number) for number in partitions])
    answer = _answer(server, _OFFSET_DELETE, 0, _text(group) + _array([_text(topic) + numbers]))
    assert answer.startswith(struct.pack(">h", 0)), answer
    assert answer.endswith(struct.pack(">h", 0)), answer
