"""The model and Kafka's coordinator take the same requests at the same times; every step is compared.

Member ids are Kafka's: the model is given the random numbers that Kafka drew. So the order of Java's hash maps, which
follows from the ids, is compared too.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import structs

from groupreplay.codecs import Key, OffsetCommitKey, OffsetCommitValue, Value
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import Answer, Error, JoinGroup, LeaveGroup, Outcome, Request, Settings
from support.model.kafka_coordinator import GROUP, KafkaCoordinator, Told

_START_MS = 1_000
#: (the start of a timer's key in Kafka, whether it is a member's) -> its key in the model, without the member.
_TIMERS: Final[Mapping[tuple[str, bool], tuple[str, ...]]] = {
    ("heartbeat", True): ("session",),
    ("join", False): ("join",),
    ("sync", False): ("sync",),
    ("session-timeout", True): ("session", "consumer"),
    ("rebalance-timeout", True): ("revocation", "consumer"),
    ("join", True): ("join", "consumer"),
    ("sync", True): ("sync", "consumer"),
}


class GivenNumbers(random.Random):
    """The random numbers that Kafka drew."""

    given: int | None = None

    def getrandbits(self, bits: int, /) -> int:
        """Kafka's number for the member id of this request."""
        assert self.given is not None, "the model makes a member id, Kafka did not"
        return self.given


@dataclass
class CoordinatorPair:
    """Both coordinators. ``trail`` has all that happened, for messages."""

    kafka: KafkaCoordinator
    seed: int
    settings: Settings
    topics: dict[str, Topic]
    group: str = GROUP
    now: int = _START_MS
    requests: dict[int, Request] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    trail: list[str] = field(default_factory=list)
    _latest: Request | None = None

    def __post_init__(self) -> None:
        self.numbers = GivenNumbers(0)
        self.model = Coordinator(self.group, self.settings, self.numbers, self.topics)
        self.kafka.begin(self.seed, self.settings, self.topics, self.now, self.group)
        self.model.topics_version = len(self.topics)

    @property
    def checks_requests(self) -> bool:
        """Whether Kafka's side also has the checks that come before those of the group."""
        return self.settings.scala

    def send(self, request: Request) -> int:
        """Send a request to both; returns its number, under which the answer comes now or later."""
        number = len(self.requests)
        self.requests[number] = request
        self._latest = request
        self.trail.append(f"{self.now} #{number} {request}")
        told = self.kafka.handle(number, request, self.now)
        self.numbers.given = told.drawn
        self._compare(told, self.model.handle(request, self.now))
        return number

    def wait(self, wait_ms: int) -> None:
        """Let time pass."""
        self.now += wait_ms
        self.trail.append(f"{self.now} waited")
        self._compare(self.kafka.advance(self.now), self.model.advance(self.now))

    def clean_up(self) -> None:
        """The check of the offsets' retention."""
        self.trail.append(f"{self.now} cleans up")
        self._compare(self.kafka.clean_up(self.now), self.model.clean_up(self.now))

    def grow(self, name: str, partitions: int) -> None:
        """A topic gets more partitions."""
        self.trail.append(f"{self.now} {name} grows to {partitions}")
        self._topic(name, replace(self.topics[name], partitions=partitions))

    def create(self, name: str, topic: Topic) -> None:
        """A topic is created."""
        self.trail.append(f"{self.now} {name} is created")
        self._topic(name, topic)

    def _topic(self, name: str, topic: Topic) -> None:
        self.topics[name] = topic
        self.kafka.topic(name, topic)
        self.model.topics_version += 1

    def delete_topic(self, name: str) -> None:
        """A topic is deleted, and its offsets."""
        self.trail.append(f"{self.now} {name} is deleted")
        del self.topics[name]
        self.model.topics_version += 1
        self._compare(self.kafka.delete_topic(name, self.now), self.model.delete_topic(name, self.now))

    def move(self) -> None:
        """Another broker becomes the coordinator."""
        self.trail.append(f"{self.now} moves")
        self._compare(self.kafka.move(self.now), self.model.move(self.now))

    def resign(self) -> None:
        """The older coordinator's broker leads the partition no more."""
        self.trail.append(f"{self.now} resigns")
        self._compare(self.kafka.resign(self.now), self.model.unload(self.now))

    def begin_loading(self) -> None:
        """It leads the partition again."""
        self.kafka.begin_loading()
        self.model.begin_loading(self.now)

    def put(self, key: Key, value: Value) -> None:
        """A record that another broker has written, until the coordinator moves."""
        self.trail.append(f"{self.now} puts {key} {value}")
        self.kafka.put(key, value)
        self.model.journal.write(self.now, (key, value))
        self.model.journal.take()
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.model.offsets.store((key.topic, key.partition), value, None)

    # -- the comparison

    def compare_offsets(self) -> None:
        """Compare what each has committed; -1 stands for an offset that Kafka does not tell, as another is pending."""
        # A consumer group that was forgotten keeps its offsets, which Kafka does not tell.
        committed = {} if self.model.group is None else self.model.offsets.committed
        told = self.kafka.offsets()
        mine = {place: one.value.offset if told.get(place) != -1 else -1 for place, one in committed.items()}
        self._equal("offsets", mine, told)
        if self.settings.scala and self.model.group is not None:
            self._equal("kinds of commits", len(self.model.offsets.committed_by) > 1, self.kafka.mixed())

    def _compare(self, told: Told, outcome: Outcome) -> None:
        given = {self._number(reply.request): reply.answer for reply in outcome.replies}
        self.answers |= told.answers
        self._equal("answers", self._answers(given), self._answers(told.answers))
        written = [(one.timestamp_ms, one.records) for one in outcome.operations]
        self._equal("records", self._plain(written), self._plain(told.operations))
        if self.settings.scala:
            # The older coordinator has operations in purgatories instead of timers.
            return
        mine = {key: due[0] for key, due in self.model.timers._due.items()}
        self._equal("timers", mine, {_model_timer(*key): at_ms for key, at_ms in told.timers.items()})

    def _number(self, request: Request) -> int:
        return next(number for number, one in self.requests.items() if one is request)

    def _answers(self, answers: Mapping[int, Answer]) -> dict[int, Any]:
        return {number: self._answer(number, answer) for number, answer in sorted(answers.items())}

    def _answer(self, number: int, answer: Answer) -> Answer:
        """The compared part: of a refusal the error, and the member id where it has a meaning."""
        if answer.error is Error.NONE:
            return structs.replace(answer, refused=tuple(sorted(answer.refused)))
        request = self.requests[number]
        named = isinstance(request, JoinGroup)
        left = answer.left
        if isinstance(request, LeaveGroup) and not self.checks_requests:
            # The shard alone does not translate the error of an unknown group into those of the members.
            left = left or (answer.error,) * len(request.members)
        return Answer(error=answer.error, member_id=answer.member_id if named else "", left=left)

    def _plain(self, operations: Iterable[tuple[int, Any]]) -> list[Any]:
        """Operations with records, in a form without order where the order has no meaning.

        The older coordinator goes through a hash map of partitions when they are committed. Consumers that leave
        together are in a hash set, in which the identity of objects counts.
        """
        latest = self._latest
        together = isinstance(latest, LeaveGroup) and len(latest.members) > 1
        return [
            (
                at_ms,
                _in_order(
                    [(key, _sorted(value)) for key, value in records],
                    all_offsets=self.settings.scala,
                    members=together,
                ),
            )
            for at_ms, records in operations
            if records
        ]

    def _equal(self, what: str, model: Any, kafka: Any) -> None:
        if model != kafka:
            trail = "\n".join(self.trail)
            raise AssertionError(f"{what} differ after\n{trail}\nmodel {model}\nkafka {kafka}")


def _model_timer(kind: str, member_id: str) -> tuple[str, ...]:
    name, *of_consumers = _TIMERS[kind, member_id != ""]
    return (name, member_id, *of_consumers)


#: Fields with one entry for each topic, which Kafka writes in the order of a hash map of topic ids.
_BY_TOPIC: Final = ("topic_partitions", "assigned_partitions", "partitions_pending_revocation")


def _sorted(value: Any) -> Any:
    """A record's value with its topics and their partitions in order."""
    found = [name for name in _BY_TOPIC if hasattr(value, name)]
    changed = {
        name: tuple(sorted(map(_in_topic, getattr(value, name)), key=lambda one: one.topic_id))
        for name in found
    }
    return replace(value, **changed) if changed else value


def _in_topic(topic: Any) -> Any:
    epochs = getattr(topic, "assignment_epochs", None)
    if epochs is None:
        return replace(topic, partitions=tuple(sorted(topic.partitions)))
    pairs = sorted(zip(topic.partitions, epochs, strict=True))
    return replace(
        topic,
        partitions=tuple(number for number, _ in pairs),
        assignment_epochs=tuple(epoch for _, epoch in pairs),
    )


def _in_order(records: list[tuple[Any, Any]], *, all_offsets: bool, members: bool) -> list[tuple[Any, Any]]:
    """The tombstones of offsets sorted: Kafka writes them in the order of two hash maps, topics and partitions.

    With ``members`` also those of members, by member.
    """

    def place(record: tuple[Any, Any]) -> tuple[Any, ...]:
        key, value = record
        if isinstance(key, OffsetCommitKey) and (all_offsets or value is None):
            return key.topic, key.partition
        return (key.member_id,) if members and value is None and hasattr(key, "member_id") else ()

    runs = itertools.groupby(records, key=lambda one: place(one) != ())
    return [one for is_sorted, run in runs for one in (sorted(run, key=place) if is_sorted else run)]
