"""Kafka's whole group coordinator (``GroupCoordinatorService``) in virtual time, above a log in memory.

Beside the shard alone (`kafka_coordinator`) it has partitions that nobody leads or that load, appends that fail, and
the errors that clients get then. `KafkaService.java` is compiled by Janino, so it has no lambdas and no generics.
"""

from __future__ import annotations

import base64
import itertools
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from groupreplay.codecs import decode_key, decode_value
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    EndTransaction,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Record,
    Request,
    Settings,
    SyncGroup,
)
from groupreplay.coordinator.trace import ERROR_CODES
from groupreplay.streaming.local.jars import jar_paths
from support.kafka.kafka_classes import Jvm
from support.model.kafka_coordinator import GROUP, config

_ERRORS: Final = {code: error for error, code in ERROR_CODES.items()}
Json = dict[str, Any]


@dataclass(frozen=True)
class Heard:
    """What the coordinator has answered and written. ``drawn``: the random number of a member id."""

    answers: Mapping[int, Answer]
    #: Time, producer id and records of each batch; a control batch has no records.
    batches: tuple[tuple[int, int, tuple[Record, ...]], ...]
    drawn: int | None


class KafkaService:
    """The coordinator of one partition of the offsets topic."""

    def __init__(self, service: Any, release: str) -> None:
        self._service, self.release = service, release

    def begin(
        self, seed: int, settings: Settings, topics: Mapping[str, Topic], now_ms: int, group: str = GROUP
    ) -> None:
        """Forget everything and start with these settings."""
        self._group = group
        # Timers of the whole partition must not fire by themselves.
        quiet = {"offsets.retention.check.interval.ms": 2**31 - 1}
        begin = {"seed": seed, "now": now_ms, "config": {**config(settings), **quiet}}
        self._service.begin(json.dumps(begin))
        for name, topic in topics.items():
            self.topic(name, topic)

    def topic(self, name: str, topic: Topic) -> None:
        """A topic is created or gets more partitions."""
        self._service.topic(name, topic.topic_id, topic.partitions)

    def handle(self, number: int, request: Request, now_ms: int) -> Heard:
        """Handle a request after all timers that were due before it; its number names it in answers."""
        self._service.advance(now_ms)
        api, version, body = _plain(request, self._group)
        client = getattr(request, "client_id", "client")
        host = getattr(request, "client_host", "/10.0.0.1").removeprefix("/")
        self._service.send(number, api, version, client, host, json.dumps(body))
        return self.heard()

    def advance(self, now_ms: int) -> Heard:
        """Run all timers that are due by now."""
        self._service.advance(now_ms)
        return self.heard()

    def fail(self, error: Error | None) -> None:
        """Appends fail with this error; None: they succeed."""
        self._service.fail(None if error is None else error.value)

    def resign(self) -> Heard:
        """The broker leads the partition no more."""
        self._service.resign()
        return self.heard()

    def elect(self) -> Heard:
        """The broker leads the partition and begins to load it."""
        self._service.elect()
        return self.heard()

    def load(self) -> Heard:
        """The broker has loaded the partition."""
        self._service.load()
        return self.heard()

    def described(self) -> tuple[Error, str]:
        """The error and the state of the group in the answer to DescribeGroups."""
        self._service.send(-1, "DESCRIBE_GROUPS", 5, "client", "10.0.0.1", json.dumps({"group": self._group}))
        (answer,) = json.loads(self._service.told())["answers"]
        return Error(answer["error"]), answer["state"]

    def heard(self) -> Heard:
        """What has come since the last time."""
        told = json.loads(self._service.told())
        drawn = told.get("drawn")
        batches: list[tuple[int, int, tuple[Record, ...]]] = []
        for first, records in itertools.groupby(told["records"], key=_Counter()):
            found = list(records)
            assert first
            kept = tuple(_record(one) for one in found if not one["control"])
            batches.append((found[0]["at"], found[0]["producer"], kept))
        return Heard(
            answers={one["number"]: _answer(one) for one in told["answers"]},
            batches=tuple(batches),
            drawn=None if drawn is None else uuid.UUID(bytes=base64.b64decode(drawn), version=4).int,
        )


class _Counter:
    """The number of a record's batch, for records in order."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, record: Json) -> int:
        self._count += record["first"]
        return self._count


@contextmanager
def kafka_service(release: str) -> Iterator[KafkaService]:
    """The coordinator of a release in a JVM that ends with the context."""
    source = Path(__file__).with_name("KafkaService.java").read_text(encoding="utf-8")
    with Jvm(jar_paths(f"broker-{release}")) as jvm:
        yield KafkaService(jvm.make(source, "KafkaService"), release)


def _record(told: Json) -> Record:
    decoded: Any = decode_key(base64.b64decode(told["key"]))
    value = told["value"]
    content: Any = None if value is None else decode_value(decoded, base64.b64decode(value))
    return decoded, content


# -- requests and answers in the JSON of Kafka's own converters


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _plain(request: Request, group: str) -> tuple[str, int, Json]:  # noqa: PLR0911 -- one for each kind
    """The name of the request, its version (-1: the newest) and its content."""
    match request:
        case JoinGroup():
            return _joining(request, group)
        case SyncGroup():
            return "SYNC_GROUP", 5, {**_member(request, group), **_syncing(request)}
        case ClassicHeartbeat():
            return "HEARTBEAT", 4, {**_member(request, group), "generationId": request.generation}
        case LeaveGroup():
            members = [
                {"memberId": one.member_id, "groupInstanceId": one.instance_id, "reason": None}
                for one in request.members
            ]
            return "LEAVE_GROUP", 5, {"groupId": group, "members": members}
        case ConsumerGroupHeartbeat():
            return "CONSUMER_GROUP_HEARTBEAT", 1, _living(request, group)
        case OffsetCommit():
            return _committing(request, group)
        case EndTransaction():
            end = {"producer": request.producer_id, "committed": request.committed}
            return "END_TXN", -1, end
        case DeleteGroup():
            return "DELETE_GROUPS", -1, {"group": group}
        case _:
            topics: dict[str, list[Json]] = {}
            for topic, partition in request.partitions:
                topics.setdefault(topic, []).append({"partitionIndex": partition})
            named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
            return "OFFSET_DELETE", 0, {"groupId": group, "topics": named}


def _member(request: JoinGroup | SyncGroup | ClassicHeartbeat | OffsetCommit, group: str) -> Json:
    return {"groupId": group, "memberId": request.member_id, "groupInstanceId": request.instance_id}


def _joining(request: JoinGroup, group: str) -> tuple[str, int, Json]:
    body = {
        **_member(request, group),
        "sessionTimeoutMs": request.session_timeout_ms,
        "rebalanceTimeoutMs": request.rebalance_timeout_ms,
        "protocolType": request.protocol_type,
        "protocols": [{"name": one.name, "metadata": _text(one.metadata)} for one in request.protocols],
    }
    if request.skips_assignment:
        return "JOIN_GROUP", 9, {**body, "reason": None}
    # The first versions without member ids that are required know no instance ids on the wire, but the code does.
    return "JOIN_GROUP", 5 if request.require_known_member_id or request.instance_id else 3, body


def _syncing(request: SyncGroup) -> Json:
    shares = [{"memberId": name, "assignment": _text(one)} for name, one in request.assignments]
    return {
        "generationId": request.generation,
        "protocolType": request.protocol_type,
        "protocolName": request.protocol,
        "assignments": shares,
    }


def _living(request: ConsumerGroupHeartbeat, group: str) -> Json:
    owned = request.owned
    topics: dict[bytes, list[int]] = {}
    for topic, partition in sorted(owned or ()):
        topics.setdefault(topic, []).append(partition)
    named = [{"topicId": uuid_text(topic), "partitions": numbers} for topic, numbers in topics.items()]
    return {
        "groupId": group,
        "memberId": request.member_id,
        "memberEpoch": request.member_epoch,
        "instanceId": request.instance_id,
        "rackId": request.rack_id,
        "rebalanceTimeoutMs": request.rebalance_timeout_ms,
        "subscribedTopicNames": None if request.topics is None else list(request.topics),
        "subscribedTopicRegex": None,
        "serverAssignor": request.assignor,
        "topicPartitions": None if owned is None else named,
    }


def uuid_text(topic_id: bytes) -> str:
    """An id as Kafka's ``Uuid`` prints it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _committing(request: OffsetCommit, group: str) -> tuple[str, int, Json]:
    topics: dict[str, list[Json]] = {}
    for one in request.commits:
        topics.setdefault(one.topic, []).append(
            {
                "partitionIndex": one.partition,
                "committedOffset": one.offset,
                "committedLeaderEpoch": one.leader_epoch,
                "committedMetadata": one.metadata,
            }
        )
    named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    body = {**_member(request, group), "topics": named}
    if request.retention_ms is not None:
        # The last version with a retention time.
        old = {"generationIdOrMemberEpoch": request.generation, "retentionTimeMs": request.retention_ms}
        return "OFFSET_COMMIT", 4, {**body, **old}
    if request.producer_id is None:
        return "OFFSET_COMMIT", 9, {**body, "generationIdOrMemberEpoch": request.generation}
    transaction = {"transactionalId": "x", "producerId": request.producer_id, "producerEpoch": 0}
    return "TXN_OFFSET_COMMIT", 3, {**body, **transaction, "generationId": request.generation}


def _answer(told: Json) -> Answer:
    if "data" not in told:
        return Answer(error=Error(told["error"]))
    data = told["data"]
    if "topics" in data:
        return Answer(error=_ERRORS[data.get("errorCode", 0)], refused=tuple(_refused(data)))
    if isinstance(data.get("members"), list) and data["members"] and "errorCode" in data["members"][0]:
        left = tuple(_ERRORS[one["errorCode"]] for one in data["members"])
        return (
            structs.replace(Answer.of_leaving(left), error=_ERRORS[data["errorCode"]])
            if data["errorCode"]
            else (Answer.of_leaving(left))
        )
    named: Json = {"error": _ERRORS[data["errorCode"]], "member_id": data.get("memberId") or ""}
    if "generationId" in data:
        named["generation"] = data["generationId"]
        named["leader"] = data["leader"]
        named["skip_assignment"] = data.get("skipAssignment", False)
        named["members"] = tuple(
            (one["memberId"], one.get("groupInstanceId"), base64.b64decode(one["metadata"]))
            for one in data["members"]
        )
    if "protocolName" in data:
        named["protocol_type"], named["protocol"] = data.get("protocolType"), data["protocolName"]
    if "memberEpoch" in data:
        named["generation"] = data["memberEpoch"]
        assigned = data["assignment"]
        named["assigned"] = None if assigned is None else frozenset(_assigned(assigned))
    if isinstance(data.get("assignment"), str):
        named["assignment"] = base64.b64decode(data["assignment"])
    return Answer(**named)


def _refused(data: Json) -> Iterator[tuple[str, int, Error]]:
    for topic in data["topics"]:
        for one in topic["partitions"]:
            if one["errorCode"]:
                yield topic["name"], one["partitionIndex"], _ERRORS[one["errorCode"]]


def _assigned(assigned: Json) -> Iterator[tuple[bytes, int]]:
    for topic in assigned["topicPartitions"]:
        topic_id = base64.urlsafe_b64decode(topic["topicId"] + "==")
        yield from ((topic_id, number) for number in topic["partitions"])
