"""Clients of the coordinator model: short forms of requests, and the log that they lead to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groupreplay.codecs import Assignment, Subscription, TopicPartitions, encode_blob
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Commit,
    Error,
    JoinGroup,
    LeaveGroup,
    Marker,
    OffsetCommit,
    Outcome,
    Protocol,
    Request,
    Settings,
    StateChange,
    SyncGroup,
)
from support.histories.builders import GROUP, Raw

#: The default time between two requests.
STEP_MS = 10


def subscription(*topics: str) -> bytes:
    """A consumer's metadata."""
    return encode_blob(Subscription(version=1, topics=topics))


def owning(topic: str, *partitions: int) -> bytes:
    """A consumer's assignment."""
    assigned = (TopicPartitions(topic=topic, partitions=partitions),) if partitions else ()
    return encode_blob(Assignment(version=1, assigned_partitions=assigned))


def protocols(*names: str, topics: tuple[str, ...] = ("t",)) -> tuple[Protocol, ...]:
    """Protocols in a member's order, each with the same subscription."""
    return tuple(Protocol(name, subscription(*topics)) for name in names or ("range",))


def joining(name: str = "c", member_id: str = "", **fields: Any) -> JoinGroup:
    """A JoinGroup of a client."""
    fields.setdefault("protocols", protocols())
    return JoinGroup(client_id=name, client_host="/10.0.0.1", member_id=member_id, **fields)


@dataclass
class Clients:
    """All clients of one coordinator. ``log`` has the records that a reader of committed records can read.

    ``gap`` is the distance between the offsets of two operations: 1 when no other group writes between them.
    """

    settings: Settings = field(default_factory=Settings)
    now: int = 1_000
    gap: int = 2
    #: The topics of the cluster.
    topics: dict[str, Topic] = field(default_factory=dict)
    answers: list[tuple[Request, Answer]] = field(default_factory=list)
    log: list[Raw] = field(default_factory=list)
    changes: list[StateChange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    #: The request that created the group.
    maker: Request | None = None
    #: Called after each outcome with records or state changes.
    listener: Callable[[], None] = lambda: None
    _open: dict[int, list[Raw]] = field(default_factory=dict)
    _held: list[Raw] = field(default_factory=list)
    _next: int = 100

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(GROUP, self.settings, random.Random(7), self.topics)

    @property
    def in_transaction(self) -> bool:
        """Whether an open transaction holds back a reader of committed records."""
        return bool(self._open)

    def take(self, outcome: Outcome) -> None:
        """Store an outcome."""
        self.answers += [(reply.request, reply.answer) for reply in outcome.replies]
        self.changes += outcome.changes
        self.warnings += outcome.warnings
        for operation in outcome.operations:
            self._next += self.gap
            written = []
            for key, value in operation.records:
                written.append(Raw(key, value, offset=self._next, at=operation.timestamp_ms))
                self._next += 1
            self._write(written, operation.producer_id, operation.marker)
        if outcome.operations or outcome.changes:
            self.listener()

    def _write(self, written: list[Raw], producer_id: int | None, marker: Marker | None) -> None:
        if producer_id is None:
            self._held += written
        elif marker is None:
            self._open.setdefault(producer_id, []).extend(written)
        else:
            ended = self._open.pop(producer_id, [])
            self._held += ended if marker is Marker.COMMIT else []
        if not self._open:
            self.log += sorted(self._held, key=lambda raw: raw.offset)
            self._held = []

    def ask(self, request: Request, after_ms: int = STEP_MS) -> Answer | None:
        """Send a request and return its answer; None when the answer has to wait."""
        self.wait(after_ms)
        known = len(self.answers)
        self.maker = request if self.coordinator.group is None else self.maker
        self.take(self.coordinator.handle(request, self.now))
        return self.answer(request, known)

    def told(self, request: Request) -> Answer:
        """Send a request and return its answer, which must not have to wait."""
        answer = self.ask(request)
        assert answer is not None
        return answer

    def answer(self, request: Request, known: int = 0) -> Answer | None:
        """The answer to an earlier request; None when there is none yet."""
        return next((answer for asked, answer in self.answers[known:] if asked is request), None)

    def error(self, request: Request) -> str | None:
        """Send a request and return the error of its answer; None when the answer has to wait."""
        answer = self.ask(request)
        return None if answer is None else answer.error.value

    def wait(self, ms: int) -> None:
        """Time passes, and all timers that are due run."""
        until = self.now + ms
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= until:
            self.now = max(self.now, due)
            self.take(self.coordinator.advance(self.now))
        self.now = until

    def clean_up(self) -> None:
        """The broker checks for expired offsets."""
        self.take(self.coordinator.clean_up(self.now))

    # -- short forms of requests

    def join(self, name: str = "c", **fields: Any) -> tuple[JoinGroup, str]:
        """A new member joins: its last request, and its member id if it has one yet."""
        request = joining(name, **fields)
        answer = self.ask(request)
        if answer is None or answer.error is not Error.MEMBER_ID_REQUIRED:
            return request, answer.member_id if answer else ""
        again = joining(name, answer.member_id, **fields)
        self.ask(again)
        return again, answer.member_id

    def rejoin(self, member_id: str, **fields: Any) -> JoinGroup:
        """A member rejoins with its id."""
        request = joining(member_id.rpartition("-")[0], member_id, **fields)
        self.ask(request)
        return request

    def sync(self, member_id: str, **fields: Any) -> Answer | None:
        """A member syncs; the leader assigns partition 0 of topic t to the first member, 1 to the second, and so on."""
        return self.ask(self.syncing(member_id, **fields))

    def syncing(self, member_id: str, **fields: Any) -> SyncGroup:
        """A member's SyncGroup for the present generation."""
        group = self.group
        shares = tuple((name, owning("t", place)) for place, name in enumerate(group.members))
        fields.setdefault("generation", group.generation)
        fields.setdefault("assignments", shares if member_id == group.leader else ())
        return SyncGroup(member_id=member_id, **fields)

    def stable(self, *names: str, **fields: Any) -> list[str]:
        """A new group with these members, all synced: their ids."""
        for name in names or ("c",):
            self.join(name, **fields)
        while self.state != "CompletingRebalance":
            self.wait(1_000)
        ids = self.member_ids
        for member_id in sorted(ids, key=lambda one: one != self.group.leader):
            self.sync(member_id)
        return ids

    def completing(self, **fields: Any) -> list[str]:
        """A new group whose members a and b have joined and not synced: their ids, the leader's first."""
        for name in "ab":
            self.join(name, **fields)
        self.wait(6_000)
        return self.member_ids

    def heartbeat(self, member_id: str, **fields: Any) -> str | None:
        """The error of a member's heartbeat."""
        fields.setdefault("generation", self.group.generation)
        return self.error(ClassicHeartbeat(member_id=member_id, **fields))

    def leave(self, member_id: str = "", **fields: Any) -> str | None:
        """A member leaves."""
        return self.error(LeaveGroup.of(member_id=member_id, **fields))

    def commit(self, offset: int, *, topic: str = "t", partition: int = 0, **fields: Any) -> str | None:
        """Commit one offset, by default without a member."""
        commits = (Commit(topic=topic, partition=partition, offset=offset),)
        return self.error(OffsetCommit(commits=commits, **fields))

    @property
    def member_ids(self) -> list[str]:
        """The ids of the group's members, of either type; none without a group."""
        group = self.coordinator.group
        return list(group.members) if group else []

    @property
    def group(self) -> ClassicGroup:
        """The coordinator's classic group, which must exist."""
        assert isinstance(self.coordinator.group, ClassicGroup)
        return self.coordinator.group

    @property
    def state(self) -> str:
        """The group's state."""
        return str(self.coordinator.state.value)
