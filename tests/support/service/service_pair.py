"""The model and Kafka's whole coordinator take the same requests, while partitions move and appends fail.

Answers and records are compared at every step; timers only by what they do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from groupreplay.codecs import Assignment, decode_assignment, encode_blob
from groupreplay.codecs.consumer import ConsumerGroupMetadataValue
from groupreplay.coordinator.requests import (
    Answer,
    EndTransaction,
    Error,
    OffsetCommit,
    OffsetDelete,
    Outcome,
    PartitionState,
    Request,
)
from support.model.coordinator_pair import CoordinatorPair
from support.service.kafka_service import Heard, KafkaService


class OrderUnknown(Exception):  # noqa: N818 -- a script ends with it, nothing is wrong
    """From here on the order of one of Java's hash maps decides what happens."""


@dataclass
class ServicePair(CoordinatorPair):
    """Both coordinators."""

    kafka: KafkaService  # type: ignore[assignment]

    @property
    def checks_requests(self) -> bool:
        """Kafka's service checks requests before it looks for the group."""
        return True

    def send(self, request: Request) -> int:
        """Send a request to both; returns its number, under which the answer comes now or later."""
        pending = self.model.offsets.pending
        if isinstance(request, EndTransaction) and request.producer_id not in pending:
            # Kafka also writes the end of a transaction that has nothing to do with the group.
            return -1
        return super().send(request)

    def wait(self, wait_ms: int) -> None:
        """Let time pass."""
        self.now += wait_ms
        self.trail.append(f"{self.now} waited")
        heard, outcome = self.kafka.advance(self.now), self.model.advance(self.now)
        times = ([at_ms for at_ms, _, _ in heard.batches], [one.timestamp_ms for one in outcome.operations])
        if self.settings.downgrades and any(len({*moments}) < len(moments) for moments in times):
            # Sessions began together with a load, and end together. If the last member of the consumer protocol goes
            # first, the group is downgraded.
            raise OrderUnknown
        self._compare(heard, outcome)

    def clean_up(self) -> None:
        """The broker's own timer does it, which does not fire in a script."""

    def compare_offsets(self) -> None:
        """The shard alone does it."""

    # -- what goes wrong

    @property
    def partition(self) -> PartitionState:
        """What the coordinator does for the partition."""
        return self.model.partition

    def fail(self, error: Error | None) -> None:
        """From now on appends fail, or succeed again."""
        self.trail.append(f"{self.now} appends fail with {error}")
        self.kafka.fail(error)
        self.model.fail_appends(error)

    def resign(self) -> None:
        """The broker leads the partition no more."""
        self.trail.append(f"{self.now} resigns")
        self._compare(self.kafka.resign(), self.model.unload(self.now))

    def elect(self) -> None:
        """The broker leads the partition again and begins to load it."""
        self.trail.append(f"{self.now} is elected")
        self._compare(self.kafka.elect(), self.model.begin_loading(self.now))

    def load(self) -> None:
        """The broker has loaded the partition."""
        self.trail.append(f"{self.now} has loaded")
        self._compare(self.kafka.load(), self.model.load(self.now))

    def describe(self) -> None:
        """Compare the answers to DescribeGroups."""
        summary = self.model.summary()
        state = "" if summary.error is not Error.NONE else summary.state.value
        self._equal("descriptions", (summary.error, state), self.kafka.described())

    def move(self) -> None:
        """Another broker becomes the coordinator, with all steps at the same time."""
        if self.partition is PartitionState.ACTIVE:
            self.resign()
            self.elect()
            self.load()

    def _answer(self, number: int, answer: Answer) -> Answer:
        """An error for all partitions of a request is one for each."""
        request = self.requests[number]
        if isinstance(request, OffsetCommit | OffsetDelete):
            return Answer(refused=_by_partition(request, answer))
        # The order of topics in an assignment is that of an immutable map of Java, which differs between JVMs.
        compared = super()._answer(number, answer)
        return structs.replace(compared, assignment=_sorted_assignment(compared.assignment))

    def _compare(self, heard: Heard, outcome: Outcome) -> None:  # type: ignore[override]
        mine = {self._number(reply.request): reply.answer for reply in outcome.replies}
        self.answers |= heard.answers
        self._equal("answers", self._answers(mine), self._answers(heard.answers))
        self._equal(
            "records",
            _by_time(self._plain([(one.timestamp_ms, one.records) for one in outcome.operations])),
            _by_time(self._plain([(at_ms, records) for at_ms, _, records in heard.batches])),
        )
        self._equal(
            "producers",
            [one.producer_id for one in outcome.operations],
            [None if producer < 0 else producer for _, producer, _ in heard.batches],
        )


def _by_partition(request: OffsetCommit | OffsetDelete, answer: Answer) -> tuple[tuple[str, int, Error], ...]:
    if isinstance(request, OffsetCommit):
        places = [(one.topic, one.partition) for one in request.commits]
    else:
        places = list(request.partitions)
    refused = {(topic, number): error for topic, number, error in answer.refused}
    return tuple((*place, refused.get(place, answer.error)) for place in sorted(set(places)))


def _sorted_assignment(data: bytes) -> bytes:
    decoded = decode_assignment(data) if data else None
    if not isinstance(decoded, Assignment):
        return data
    return encode_blob(
        replace(decoded, assigned_partitions=tuple(sorted(decoded.assigned_partitions, key=repr)))
    )


def _by_time(operations: Iterable[tuple[int, list[Any]]]) -> Iterable[Any]:
    """The records of each moment. Sessions that began with a load end together, in the order of a hash map."""
    return list(_moments(operations))


def _moments(operations: Iterable[tuple[int, list[Any]]]) -> Iterator[Any]:
    for at_ms, run in itertools.groupby(operations, key=lambda one: one[0]):
        batches = [records for _, records in run]
        if len(batches) == 1:
            yield at_ms, batches[0]
        else:
            together = [record for records in batches for record in records]
            yield at_ms, len(batches), sorted(repr((key, _without_hash(value))) for key, value in together)


def _without_hash(value: Any) -> Any:
    """The hash of the topics that are left depends on who goes first."""
    return replace(value, metadata_hash=0) if isinstance(value, ConsumerGroupMetadataValue) else value
