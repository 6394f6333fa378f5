"""Clients of a real coordinator at full speed: commits of simple groups, and rebalances.

The requests are those of Kafka's own clients, written out here because a client library needs a thread and a
connection for each group. A connection gets its answers in the order of its requests, so many may be in flight; many
connections keep the coordinator's writes full.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic
from shapes import Shape

TOPIC = "orders"
_CONNECTIONS = 16
_ON_THE_WAY = 8
_OFFSET_COMMIT, _JOIN_GROUP, _HEARTBEAT, _SYNC_GROUP = 8, 11, 12, 14
_REBALANCE_IN_PROGRESS = 27
_COMMITTED = np.dtype([("partition", ">i4"), ("offset", ">i8"), ("leader_epoch", ">i4"), ("metadata", ">i2")])
_ANSWERED = np.dtype([("partition", ">i4"), ("error", ">i2")])
_MEMBERS = 2


def group_name(number: int) -> str:
    """The name of a group, by its number."""
    return f"group-{number:06}"


def write(server: str, shape: Shape, *, first_commit: int = 0) -> float:
    """Sends the traffic of a shape; returns the seconds when everything was acknowledged."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, shape.partitions, 1)])[TOPIC].result(60)
        _until_led(admin, shape.partitions)
    begin = time.perf_counter()
    work = (
        partial(_rebalance, server, shape)
        if shape.generations
        else partial(_commit, server, shape, first_commit)
    )
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        # list() raises the errors of the workers.
        list(pool.map(work, [range(first, shape.groups, _CONNECTIONS) for first in range(_CONNECTIONS)]))
    return time.perf_counter() - begin


def _until_led(admin: AdminClient, partitions: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        known = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        if len(known) == partitions and all(one.leader >= 0 for one in known.values()):
            return
        assert time.monotonic() < deadline, f"{TOPIC} has no leaders"
        time.sleep(0.1)


def _commit(server: str, shape: Shape, first_commit: int, groups: range) -> None:
    """Commits of all groups, round after round, so that every key repeats."""
    rows = np.zeros(shape.partitions, _COMMITTED)
    rows["partition"] = np.arange(shape.partitions)
    on_the_way: deque[int] = deque()
    with closing(_Connection(server)) as connection:
        for number in range(first_commit, first_commit + shape.commits):
            rows["offset"] = 1_000 * number + rows["partition"]
            offsets = rows.tobytes()
            for group in groups:
                connection.send(_OFFSET_COMMIT, 7, _commit_request(group_name(group), len(rows), offsets))
                on_the_way.append(len(rows))
                if len(on_the_way) >= _ON_THE_WAY:
                    _need_committed(connection.answer(), on_the_way.popleft())
        while on_the_way:
            _need_committed(connection.answer(), on_the_way.popleft())


def _commit_request(group: str, partitions: int, rows: bytes) -> bytes:
    """OffsetCommit of version 7 without a member: generation -1."""
    who = _text(group) + struct.pack(">i", -1) + _text("") + struct.pack(">h", -1)
    return who + struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">i", partitions) + rows


def _need_committed(answer: bytes, partitions: int) -> None:
    errors = np.frombuffer(answer, _ANSWERED, offset=len(answer) - partitions * _ANSWERED.itemsize)["error"]
    assert not errors.any(), f"a commit was refused: error {errors[errors != 0][0]}"


def _rebalance(server: str, shape: Shape, groups: Sequence[int]) -> None:
    """Generation after generation of groups with two members that stay to the end."""
    parts = [_assignment(range(first, shape.partitions, _MEMBERS)) for first in range(_MEMBERS)]
    members: dict[int, list[_Joined]] = {}
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(_Connection(server))) for _ in range(_MEMBERS)]
        for number, group in product(range(shape.generations // shape.groups), groups):
            name = group_name(group)
            if number == 0:
                joined = _founded(connections, name)
            else:
                for connection, member in zip(connections, members[group], strict=True):
                    _ask_to_join(connection, name, member.member_id, number)
                joined = [_join_answer(connection) for connection in connections]
            _sync(connections, name, joined, parts)
            members[group] = joined


def _founded(connections: Sequence[_Connection], group: str) -> list[_Joined]:
    """A generation with one member, then one with both: the first rejoins when a heartbeat response tells it to."""
    one, other = connections
    _ask_to_join(one, group, "", 0)
    alone = _join_answer(one)
    _sync([one], group, [alone], [_assignment(range(0))])
    _ask_to_join(other, group, "", 0)
    error = 0
    while error != _REBALANCE_IN_PROGRESS:
        one.send(_HEARTBEAT, 0, _text(group) + struct.pack(">i", alone.generation) + _text(alone.member_id))
        error = struct.unpack(">h", one.answer())[0]
    _ask_to_join(one, group, alone.member_id, 0)
    return [_join_answer(connection) for connection in connections]


def _sync(
    connections: Sequence[_Connection], group: str, joined: Sequence[_Joined], parts: Sequence[bytes]
) -> None:
    """The leader sends the assignments, the others wait for theirs."""
    handed_out = [_text(one.member_id) + _bytes(part) for one, part in zip(joined, parts, strict=True)]
    for connection, one in zip(connections, joined, strict=True):
        who = _text(group) + struct.pack(">i", one.generation) + _text(one.member_id)
        by_leader = handed_out if one.member_id == one.leader else []
        connection.send(_SYNC_GROUP, 2, who + struct.pack(">i", len(by_leader)) + b"".join(by_leader))
    for connection in connections:
        error = struct.unpack_from(">h", connection.answer(), 4)[0]
        assert error == 0, f"SyncGroup of {group}: error {error}"


@dataclass(frozen=True)
class _Joined:
    generation: int
    leader: str
    member_id: str


def _ask_to_join(connection: _Connection, group: str, member_id: str, number: int) -> None:
    # A member that rejoins with the same metadata gets the old answer; other user data start a rebalance.
    subscription = struct.pack(">hi", 0, 1) + _text(TOPIC) + _bytes(str(number).encode())
    protocols = _text("consumer") + struct.pack(">i", 1) + _text("range") + _bytes(subscription)
    # No member sends heartbeats while the group is stable: the session must outlast the traffic.
    who = _text(group) + struct.pack(">ii", 1_800_000, 60_000) + _text(member_id)
    connection.send(_JOIN_GROUP, 3, who + protocols)


def _join_answer(connection: _Connection) -> _Joined:
    answer = connection.answer()
    error, generation = struct.unpack_from(">hi", answer, 4)
    assert error == 0, f"JoinGroup: error {error}"
    at, names = 10, []
    for _ in range(3):  # protocol, leader, member
        length = struct.unpack_from(">h", answer, at)[0]
        names.append(answer[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return _Joined(generation, names[1], names[2])


def _assignment(partitions: range) -> bytes:
    held = struct.pack(">i", len(partitions)) + np.array(partitions, ">i4").tobytes()
    return struct.pack(">hi", 0, 1) + _text(TOPIC) + held + struct.pack(">i", -1)


class _Connection:
    """One connection; answers come in the order of the requests."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def send(self, api: int, version: int, body: bytes) -> None:
        """Sends a request without waiting."""
        request = struct.pack(">hhi", api, version, 1) + _text("benchmark") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)

    def answer(self) -> bytes:
        """The next answer, without its correlation id."""
        length = struct.unpack(">i", self._answers.read(4))[0]
        return self._answers.read(length)[4:]

    def close(self) -> None:
        """Closes the connection."""
        self._answers.close()
        self._socket.close()


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value
