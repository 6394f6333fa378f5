"""Scripts of requests that run on the coordinator model and on a real broker, to compare answers and records.

A script is a function of a ``ScriptWorld``. The comparison replaces ids by names and leaves out times.
"""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from groupreplay.codecs import Key
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Commit,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Request,
    SyncGroup,
    TopicIdPartition,
)
from support.kafka.waiting import wait_until
from support.model.classic_clients import owning, protocols

HOST = "/127.0.0.1"
#: Fields of records that are times.
_TIMES = ("timestamp_ms", "commit_timestamp_ms", "current_state_timestamp_ms", "assignment_timestamp_ms")


@dataclass(frozen=True)
class ScriptRecord:
    """A record of the broker or the model; records of one operation have the same ``operation`` number."""

    operation: int
    key: Key
    value: Any


@dataclass
class ScriptMember:
    """A member of the script, with the content of its last answer."""

    name: str
    member_id: str = ""
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    instance_id: str | None = None
    session_ms: int = 30_000
    rebalance_ms: int = 30_000


class Waiting(Protocol):
    """A request without an answer yet."""

    def answer(self) -> Answer:
        """Wait for the answer."""


@dataclass
class ScriptWorld(ABC):
    """One group id; ``topics`` are those of the cluster."""

    group: str
    topics: dict[str, Topic]
    ids: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[str, Any]] = field(default_factory=list)

    @abstractmethod
    def send(self, client_id: str, request: Request) -> Waiting:
        """Send a request without waiting for the answer."""

    @abstractmethod
    def written(self) -> list[ScriptRecord]:
        """The records so far."""

    @abstractmethod
    def pause(self) -> None:
        """Wait a moment."""

    @abstractmethod
    def grow(self, topic: str, partitions: int) -> None:
        """A topic gets more partitions."""

    # -- the same in both worlds

    def ask(self, member: ScriptMember, request: Request) -> Answer:
        """Send a request and wait for its answer."""
        return self.note(member, self.send(member.name, request).answer())

    def note(self, member: ScriptMember, answer: Answer) -> Answer:
        """Keep an answer for the comparison."""
        if answer.member_id and answer.member_id not in self.ids:
            number = sum(known.startswith(f"{member.name}#") for known in self.ids.values())
            self.ids[answer.member_id] = f"{member.name}#{number}"
        self.answers.append((member.name, self.told(answer)))
        return answer

    def told(self, answer: Answer) -> dict[str, Any]:
        """The compared part of an answer."""
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        assigned = (
            None if answer.assigned is None else sorted((names[one], two) for one, two in answer.assigned)
        )
        return {
            "error": answer.error.value,
            "member": self.ids.get(answer.member_id),
            "generation": answer.generation if answer.error is Error.NONE else None,
            "leader": self.ids.get(answer.leader),
            "members": sorted(self.ids.get(one[0], "") for one in answer.members),
            "assignment": answer.assignment,
            "assigned": assigned,
            "left": [one.value for one in answer.left],
        }

    def until_written(self, count: int) -> None:
        """Wait for this number of further records."""
        known = len(self.written())
        self.until(lambda: len(self.written()) >= known + count)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        wait_until(condition)

    def until_told(self, member: ScriptMember, request: Request, error: Error) -> None:
        """Repeat a request until its answer has this error; the answers are not compared."""

        def is_answered() -> bool:
            self.pause()
            return self.send(member.name, request).answer().error is error

        wait_until(is_answered, pause=0)

    def until_epoch(self, member: ScriptMember, epoch: int) -> None:
        """Repeat a member's heartbeat until it has this epoch; only the last answer is compared."""
        deadline = time.monotonic() + 120
        while (answer := self.send(member.name, self.living(member)).answer()).generation < epoch:
            assert answer.error is Error.NONE
            assert time.monotonic() < deadline, f"{member.name} does not get the epoch {epoch}"
            self.pause()
        self.note(member, answer)
        member.epoch, member.owned = answer.generation, answer.assigned or member.owned

    def log(self) -> list[tuple[str, Any, Any]]:
        """The compared part of the log; records of an operation with no fixed order are sorted."""
        hashes: dict[int, str] = {0: "none"}
        plain = [
            (one.operation, self._plain(one.key, hashes), self._plain(one.value, hashes), one.key)
            for one in self.written()
        ]
        runs = itertools.groupby(plain, key=lambda one: (one[0], one[3].KEY_TYPE, one[2] is None))
        ordered = [one for _, run in runs for one in sorted(run, key=lambda one: repr(one[1]))]
        return [(key["type"], key, value) for _, key, value, _ in ordered]

    def operations(self) -> list[int]:
        """The number of records of each operation."""
        return [len(list(run)) for _, run in itertools.groupby(one.operation for one in self.written())]

    def _plain(self, value: Any, hashes: dict[int, str], name: str = "") -> Any:
        """A record without ids and times."""
        if is_dataclass(value) and not isinstance(value, type):
            told = {
                one.name: self._plain(getattr(value, one.name), hashes, one.name) for one in fields(value)
            }
            return {"type": type(value).__name__, **_in_order(told)}
        if isinstance(value, tuple):
            all_told = [self._plain(one, hashes) for one in value]
            return all_told if name in ("assignment_epochs", "partitions") else sorted(all_told, key=repr)
        if name == "metadata_hash":
            return hashes.setdefault(value, f"hash {len(hashes)}")
        if name in _TIMES and value not in (0, -1):
            return "time"
        names: dict[Any, str] = {**self.ids, **{topic.topic_id: one for one, topic in self.topics.items()}}
        return names.get(value, value)

    # -- members of the classic protocol

    def join(self, member: ScriptMember, **changes: Any) -> Waiting:
        """Send a JoinGroup; a dynamic member without a member id requests one first."""
        request = self._joining(member, **changes)
        if not member.member_id and member.instance_id is None and "member_id" not in changes:
            given = self.ask(member, request)
            member.member_id = given.member_id
            request = replace(request, member_id=given.member_id)
        return self.send(member.name, request)

    def _joining(self, member: ScriptMember, **changes: Any) -> JoinGroup:
        request = JoinGroup(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.name,
            client_host=HOST,
            session_timeout_ms=member.session_ms,
            rebalance_timeout_ms=member.rebalance_ms,
            protocols=protocols(),
            skips_assignment=False,
        )
        return replace(request, **changes)

    def joined(self, member: ScriptMember, waiting: Waiting) -> Answer:
        """The answer to a JoinGroup, with the member id and the generation."""
        answer = self.note(member, waiting.answer())
        if answer.error is Error.NONE:
            member.member_id, member.epoch = answer.member_id, answer.generation
        return answer

    def sync(self, *members: ScriptMember) -> None:
        """These members, the leader first, sync: partition 0 for the first, 1 for the second, and so on."""
        shares = tuple((one.member_id, owning("t", place)) for place, one in enumerate(members))
        for place, member in enumerate(members):
            request = SyncGroup(
                member_id=member.member_id,
                instance_id=member.instance_id,
                generation=member.epoch,
                assignments=() if place else shares,
            )
            self.ask(member, request)

    def alone(self, member: ScriptMember, **changes: Any) -> None:
        """A single member joins and syncs."""
        self.joined(member, self.join(member, **changes))
        self.sync(member)

    def together(self, first: ScriptMember, second: ScriptMember) -> None:
        """A second member joins, the first one rejoins, and both sync."""
        waiting = self.join(second)
        self.until_told(first, self.beat(first), Error.REBALANCE_IN_PROGRESS)
        again = self.join(first)
        self.joined(first, again)
        self.joined(second, waiting)
        self.sync(first, second)

    def beat(self, member: ScriptMember) -> ClassicHeartbeat:
        """A classic heartbeat."""
        return ClassicHeartbeat(
            member_id=member.member_id, instance_id=member.instance_id, generation=member.epoch
        )

    def leave(self, member: ScriptMember) -> Answer:
        """A classic member leaves."""
        return self.ask(member, LeaveGroup.of(member_id=member.member_id, instance_id=member.instance_id))

    def commit(self, member: ScriptMember | None, *offsets: int, **changes: Any) -> Answer:
        """Commit offsets of partitions 0, 1, …, without a member if it is None."""
        commits = tuple(Commit(topic="t", partition=number, offset=one) for number, one in enumerate(offsets))
        who = member or ScriptMember("nobody", epoch=-1)
        request = OffsetCommit(
            member_id=who.member_id, instance_id=who.instance_id, generation=who.epoch, commits=commits
        )
        return self.ask(who, replace(request, **changes))

    def delete(self) -> Answer:
        """An administrator deletes the group."""
        return self.ask(ScriptMember("admin"), DeleteGroup())

    # -- members of the consumer protocol, which generate their ids

    def enter(self, member: ScriptMember, *topics: str, **changes: Any) -> Answer:
        """The heartbeat with which a member joins."""
        member.epoch, member.owned = 0, frozenset()
        member.member_id = member.member_id or member.name
        first = {"rebalance_timeout_ms": member.rebalance_ms, "topics": topics or ("t",)}
        return self.live(member, **{**first, **changes})

    def live(self, member: ScriptMember, **changes: Any) -> Answer:
        """A member's heartbeat with its epoch and its partitions."""
        answer = self.ask(member, self.living(member, **changes))
        if answer.error is Error.NONE and answer.generation >= 0:
            member.epoch = answer.generation
            member.owned = member.owned if answer.assigned is None else answer.assigned
        return answer

    def living(self, member: ScriptMember, **changes: Any) -> ConsumerGroupHeartbeat:
        """The request of a heartbeat."""
        request = ConsumerGroupHeartbeat(
            member_id=member.member_id,
            member_epoch=member.epoch,
            instance_id=member.instance_id,
            client_id=member.name,
            client_host=HOST,
            owned=member.owned,
        )
        return replace(request, **changes)

    def go(self, member: ScriptMember, epoch: int = -1) -> Answer:
        """A member leaves, with epoch -2 for a while."""
        return self.live(member, member_epoch=epoch, owned=None)


def _in_order(told: dict[str, Any]) -> dict[str, Any]:
    """Partitions in order, each with its epoch."""
    epochs = told.get("assignment_epochs")
    if epochs is not None:
        pairs = sorted(zip(told["partitions"], epochs, strict=True))
        return {
            **told,
            "partitions": [one for one, _ in pairs],
            "assignment_epochs": [one for _, one in pairs],
        }
    return {**told, "partitions": sorted(told["partitions"])} if told.get("partitions") else told


def members(*names: str, **changes: Any) -> Iterator[ScriptMember]:
    """New members with these names."""
    return (ScriptMember(name, **changes) for name in names)


def differences(model: Iterable[Any], broker: Iterable[Any]) -> str:
    """The first place where two lists differ, for a message."""
    for place, (one, other) in enumerate(itertools.zip_longest(model, broker)):
        if one != other:
            return f"at {place}\nmodel  {one}\nbroker {other}"
    return ""
