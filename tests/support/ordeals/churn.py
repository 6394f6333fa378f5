"""Real groups that come and go in the background, and lives that are written into the log beside them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from groupreplay.streaming.base.clock import now_ms
from support.job.jobs import interleaved, write_log
from support.kafka.clients import new_consumer
from support.kafka.waiting import in_background
from support.tools.written_load import short_life

#: Partitions of the offsets topic.
PARTITIONS = 4
#: The topic that the groups read, of four partitions.
ORDERS = "orders"
#: Name of a group -> protocol of its members.
GROUPS = {"classic-0": "classic", "classic-1": "classic", "modern-0": "consumer", "modern-1": "consumer"}
MOST_MEMBERS = 6
TURN_SECONDS = 0.3


class Churn:
    """Groups that are never at rest: members join, commit and leave, and short lives are written into the log."""

    def __init__(self, server: str, seed: int) -> None:
        self._server, self._random = server, random.Random(seed)
        self._members: list[Consumer] = []
        self._lives = 0

    def turn(self) -> None:
        """One thing more happens."""
        for consumer in self._members:
            consumer.poll(0)
        self._random.choice([self._join, self._leave, self._commit, self._commit, self._live])()

    def end(self) -> None:
        """Everybody leaves."""
        while self._members:
            self._members.pop().close()

    def _join(self) -> None:
        if len(self._members) == MOST_MEMBERS:
            return
        group = self._random.choice(sorted(GROUPS))
        more = {"session_timeout_ms": 6_000} if GROUPS[group] == "classic" else {}
        self._members.append(new_consumer(self._server, group, ORDERS, group_protocol=GROUPS[group], **more))

    def _leave(self) -> None:
        if self._members:
            self._members.pop(self._random.randrange(len(self._members))).close()

    def _commit(self) -> None:
        for consumer in self._members:
            owned = consumer.assignment()
            if owned:
                offset = self._random.randrange(1_000)
                consumer.commit(offsets=[TopicPartition(ORDERS, owned[0].partition, offset)])

    def _live(self) -> None:
        self._lives += 1
        life = {f"written-{self._lives}": short_life(now_ms())}
        with suppress(
            KafkaException, AssertionError
        ):  # the broker was killed over it: what counts is the log
            write_log(self._server, interleaved(life, PARTITIONS, 0), PARTITIONS)


@contextmanager
def churning(server: str, seed: int) -> Iterator[None]:
    """Churn in the background, until the block ends."""
    churn = Churn(server, seed)

    def run(done: threading.Event) -> None:
        while not done.wait(TURN_SECONDS):
            churn.turn()
        churn.end()

    with in_background(run):
        yield
