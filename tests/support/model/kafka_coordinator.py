"""Kafka's own group coordinator (``GroupCoordinatorShard``) in virtual time, beside the model.

It takes the requests of the model. The broker's jars are enough: there is no network, no log and no thread, and appends
succeed at once. `KafkaShard.java` is compiled by Janino, so it has no lambdas and no generics.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from groupreplay.codecs import Key, Value, decode_key, decode_value, encode_key, encode_value
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.requests import Answer, Error, Record, Request, Settings
from support.kafka.kafka_classes import Jvm, broker_jars

GROUP: Final = "g"
#: Text of the sources -> what it is with the classes of 4.4.
_SINCE_4_4: Final[Mapping[str, str]] = {
    "common.utils.LogContext": "common.utils.internals.LogContext",
    "new GroupConfigManager(new HashMap(), ": "new GroupConfigManager(",
    # Whether a plugin has forgotten the description of a streams group (KIP-1331).
    "join(group, json), one.answer": "join(group, json), one.answer, false",
    # TxnOffsetCommit in the last version with names of topics (KIP-1319), as the clients up to 4.3 send it.
    "context(ApiKeys.TXN_OFFSET_COMMIT)": 'context(ApiKeys.TXN_OFFSET_COMMIT, 5, "client", "10.0.0.1")',
    # The broker looks up the topic's id before it asks the coordinator (``KafkaApis``).
    "/* ids of topics */": (
        "for (Iterator all = data.topics().iterator(); all.hasNext();) {\n"
        "TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic one =\n"
        "(TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic) all.next();\n"
        "if (topics.containsKey(one.name())) one.setTopicId((Uuid) topics.get(one.name()));\n"
        "}"
    ),
    'setGenerationId(json.get("generation").intValue())\n            .setTopics(': (
        'setGenerationIdOrMemberEpoch(json.get("generation").intValue())\n            .setTopics('
    ),
}
#: The start of a timer's key in Kafka, or its kind in the model, and a member id.
TimerKey = tuple[str, str]


@dataclass(frozen=True)
class Told:
    """What came of a request or of time: answers by the number of their request, operations, timers.

    ``errors``: what was thrown, by the number of the request. ``drawn``: the random number of a member id.
    """

    answers: Mapping[int, Answer]
    operations: tuple[tuple[int, tuple[Record, ...]], ...]
    timers: Mapping[TimerKey, int]
    errors: Mapping[int, str]
    drawn: int | None


class KafkaCoordinator:
    """The coordinator of one partition of the offsets topic, used for one group id."""

    def __init__(self, shard: Any, release: str) -> None:
        self._shard, self.release = shard, release

    def begin(
        self, seed: int, settings: Settings, topics: Mapping[str, Topic], now_ms: int, group: str = GROUP
    ) -> None:
        """Forget everything and start with these settings; member ids follow from the seed."""
        start = {"seed": seed, "now": now_ms, "group": group, "config": config(settings)}
        self._shard.begin(json.dumps(start))
        for name, topic in topics.items():
            self.topic(name, topic)

    def topic(self, name: str, topic: Topic) -> None:
        """A topic is created or gets more partitions."""
        self._shard.topic(name, topic.topic_id, topic.partitions, json.dumps(topic.racks))

    def delete_topic(self, name: str, now_ms: int) -> Told:
        """A topic is deleted."""
        return _told(self._shard.deleteTopic(name, now_ms))

    def move(self, now_ms: int) -> Told:
        """Another broker becomes the coordinator."""
        return _told(self._shard.move(now_ms))

    def handle(self, number: int, request: Request, now_ms: int) -> Told:
        """Handle a request after all timers that were due before it; its number names it in answers."""
        text = json.dumps(_plain(request))
        return _told(self._shard.handle(type(request).__name__, number, text, now_ms))

    def advance(self, now_ms: int) -> Told:
        """Run all timers that are due by now."""
        return _told(self._shard.advance(now_ms))

    def clean_up(self, now_ms: int) -> Told:
        """The check of the offsets' retention."""
        return _told(self._shard.cleanUp(now_ms))

    def resign(self, now_ms: int) -> Told:
        """The older coordinator's broker leads the partition no more."""
        return _told(self._shard.resign(now_ms))

    def begin_loading(self) -> None:
        """It leads the partition again, and does not end to load it."""
        self._shard.beginLoading()

    def put(self, key: Key, value: Value) -> None:
        """A record that another broker has written; the next move loads it."""
        self._shard.put(encode_key(key), encode_value(value))

    def mixed(self) -> bool:
        """Whether the older coordinator has seen commits of both kinds in this generation."""
        return bool(self._shard.mixed())

    def offsets(self) -> dict[tuple[str, int], int]:
        """The committed offsets."""
        told = json.loads(self._shard.offsets())
        return {
            (topic, int(number)): offset
            for topic, partitions in told.items()
            for number, offset in partitions.items()
        }


@contextmanager
def scala_coordinator() -> Iterator[KafkaCoordinator]:
    """The older coordinator (``kafka.coordinator.group.GroupCoordinator``) of Kafka 3.9, in a JVM of its own."""
    with Jvm(broker_jars("3.9.1")) as jvm:
        made = jvm.make(java_source("ScalaShard"), "ScalaShard", uses=java_source("Requests"))
        yield KafkaCoordinator(made, "3.9.1")


@contextmanager
def kafka_coordinator(release: str) -> Iterator[KafkaCoordinator]:
    """The coordinator of a release since 4.3, in a JVM that ends with the context."""
    renamed = _SINCE_4_4 if release >= "4.4" else {}
    with Jvm(broker_jars(release)) as jvm:
        made = jvm.make(
            java_source("KafkaShard", renamed), "KafkaShard", uses=java_source("Requests", renamed)
        )
        yield KafkaCoordinator(made, release)


def java_source(name: str, renamed: Mapping[str, str] | None = None) -> str:
    """A source beside this module, with the texts replaced that another release has otherwise."""
    source = Path(__file__).with_name(f"{name}.java").read_text(encoding="utf-8")
    for text, other in (renamed or {}).items():
        source = source.replace(text, other)
    return source


def config(settings: Settings) -> dict[str, Any]:
    """The broker's properties for these settings."""
    # A broker does not start with a newer message format than its protocol.
    names = ("inter.broker.protocol.version", "log.message.format.version") if settings.scala else ()
    old = dict.fromkeys(names, settings.inter_broker_protocol_version)
    return {
        **old,
        "group.initial.rebalance.delay.ms": settings.initial_rebalance_delay_ms,
        "group.min.session.timeout.ms": settings.min_session_timeout_ms,
        "group.max.session.timeout.ms": settings.max_session_timeout_ms,
        "group.max.size": settings.max_size,
        "offset.metadata.max.bytes": settings.offset_metadata_max_bytes,
        "offsets.retention.minutes": settings.retention_ms // 60_000,
        "group.consumer.session.timeout.ms": settings.consumer_session_timeout_ms,
        "group.consumer.assignment.interval.ms": settings.consumer_assignment_interval_ms,
        "group.consumer.min.assignment.interval.ms": 0,
        "group.consumer.max.size": settings.consumer_max_size,
        "group.consumer.heartbeat.interval.ms": settings.consumer_heartbeat_interval_ms,
        "group.consumer.assignors": ",".join(settings.consumer_assignors),
        "group.consumer.regex.refresh.interval.ms": settings.consumer_regex_refresh_interval_ms,
        "group.consumer.migration.policy": settings.migration_policy,
        # The model computes assignments within the request.
        "group.consumer.assignor.offload.enable": False,
    }


def _plain(value: Any) -> Any:
    """A request as JSON; bytes are base64."""
    if isinstance(value, Struct):
        return {name: _plain(one) for name, one in asdict(value).items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, frozenset):
        return [_plain(one) for one in sorted(value)]
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _told(text: str) -> Told:
    told = json.loads(text)
    drawn = told.get("drawn")
    return Told(
        answers={one["number"]: _answer(one) for one in told["answers"]},
        operations=tuple(
            (one["at"], tuple(_record(*pair) for pair in one["records"])) for one in told["operations"]
        ),
        timers={_timer(key): at_ms for key, at_ms in told["timers"].items()},
        errors={one["number"]: one["detail"] for one in told["answers"] if "detail" in one},
        drawn=None if drawn is None else uuid.UUID(bytes=base64.b64decode(drawn), version=4).int,
    )


def _answer(told: dict[str, Any]) -> Answer:
    own = ("generation", "protocol_type", "protocol", "skip_assignment")
    named = {name: told[name] for name in own if name in told}
    if "left" in told:
        left = Answer.of_leaving(Error(one) for one in told["left"])
        return left if told["error"] == Error.NONE.value else replace(left, error=Error(told["error"]))
    members = told.get("members", ())
    assigned = told.get("assigned")
    return Answer(
        error=Error(told["error"]),
        member_id=told.get("member_id") or "",
        leader=told.get("leader") or "",
        members=tuple((one, two, base64.b64decode(three)) for one, two, three in members),
        refused=tuple((topic, number, Error(error)) for topic, number, error in told.get("refused", ())),
        assignment=base64.b64decode(told.get("assignment", "")),
        assigned=None
        if assigned is None
        else frozenset((base64.b64decode(topic), number) for topic, number in assigned),
        **named,
    )


def _record(key: str, value: str | None) -> Record:
    decoded: Any = decode_key(base64.b64decode(key))
    content: Any = None if value is None else decode_value(decoded, base64.b64decode(value))
    return decoded, content


def _timer(key: str) -> TimerKey:
    kind, _, member = key.partition(f"-{GROUP}")
    return kind, member.removeprefix("-")
