"""A cluster that answers requests for the ends of partitions, as ``Connection`` hands the answers on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.contract.log import EpochEnd
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.log_ends import Place


class AnsweredEnds:
    """``ends`` by partition; ``leaderless`` partitions; ``errors``: codes by topic; ``internal`` topics."""

    def __init__(
        self,
        ends: Mapping[Place, PartitionEnds],
        *,
        leaderless: Collection[Place] = (),
        silent: Collection[Place] = (),
        errors: Mapping[str, int] | None = None,
        internal: Collection[str] = (),
    ) -> None:
        self.ends, self.leaderless, self.silent = ends, leaderless, silent
        self.errors, self.internal = dict(errors or {}), internal
        self.asked: list[list[Place]] = []
        self.described: list[list[str]] = []
        self.forgotten = 0

    def metadata(self, where: str) -> Any:
        """All topics, with the partitions and whether these have a leader."""
        topics: dict[str, Any] = {}
        for topic, number in sorted({*self.ends, *self.leaderless, *((topic, 0) for topic in self.errors)}):
            metadata = topics.setdefault(topic, SimpleNamespace(error=None, partitions={}))
            leader = -1 if (topic, number) in self.leaderless else 1
            metadata.partitions[number] = SimpleNamespace(leader=leader)
        return SimpleNamespace(topics=topics)

    def consumer(self, isolation_level: str) -> Any:
        """A consumer that answers one question, for ends at this level."""
        return SimpleNamespace(
            offsets_for_times=lambda wanted, _: self._ends_of(wanted, isolation_level), close=lambda: None
        )

    def admin(self) -> AdminClient:
        """The part of the client that is used."""
        client: AdminClient = SimpleNamespace(describe_topics=self._describe)
        return client

    def forget_admin(self) -> None:
        """Counts."""
        self.forgotten += 1

    def partition_starts(self, places: Collection[Place]) -> dict[Place, int]:
        """The log start offsets."""
        self.asked.append(list(places))
        return {place: self.ends[place].start for place in self._answering(places)}

    def partition_ends(
        self, places: Collection[Place], level: IsolationLevel, seconds: float
    ) -> dict[Place, EpochEnd]:
        """High watermarks, or last stable offsets."""
        is_stable = level == IsolationLevel.READ_COMMITTED
        return {
            place: EpochEnd(ends.stable if is_stable else ends.end, None if ends.epoch < 0 else ends.epoch)
            for place in self._answering(places)
            for ends in [self.ends[place]]
        }

    def _ends_of(self, wanted: list[TopicPartition], level: str) -> list[TopicPartition]:
        self.asked.append([(at.topic, at.partition) for at in wanted])
        if any((at.topic, at.partition) in self.silent for at in wanted):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        answers = []
        for at in wanted:
            ends = self.ends[at.topic, at.partition]
            offset = ends.stable if level == "read_committed" else ends.end
            answers.append(TopicPartition(at.topic, at.partition, offset, leader_epoch=ends.epoch))
        return answers

    def _answering(self, places: Collection[Place]) -> Iterable[Place]:
        return [place for place in places if place in self.ends and place not in self.silent]

    def _describe(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        self.described.append(list(topics.topic_names))
        return {name: self._described(name) for name in topics.topic_names}

    def _described(self, name: str) -> Future[Any]:
        answer = Future[Any]()
        partitions = [
            SimpleNamespace(id=number, leader=None if (topic, number) in self.leaderless else object())
            for topic, number in sorted({*self.ends, *self.leaderless})
            if topic == name
        ]
        code = self.errors.get(name, None if partitions else KafkaError.UNKNOWN_TOPIC_OR_PART)
        if code is None:
            is_internal = name in self.internal
            answer.set_result(SimpleNamespace(topic_id=None, partitions=partitions, is_internal=is_internal))
        else:
            answer.set_exception(KafkaException(KafkaError(code)))
        return answer
