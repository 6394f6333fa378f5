"""After random churn, the state that is replayed from the log equals the broker's description of every group.

Real consumers of both protocols join, leave and commit in many groups at random. When all groups are stable, the
replayed state is compared with that of Kafka's Admin client. Generation and leader of classic groups, which the
client does not return, are compared with the debug log of the consumers' library.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.jars import jar_paths
from support.job.replays import named, replayed_log
from support.kafka.clients import make_topics, poll_all, produce
from support.kafka.kafka_admin import KafkaAdmin, by_broker, by_log, kafka_admin

pytestmark = pytest.mark.broker

TOPICS = {"oracle-orders": 4, "oracle-payments": 3}
CLASSIC, MODERN = 20, 12
QUIET_SECONDS = 120.0
_JOINED = re.compile(
    r"JoinGroup response: GenerationId (?P<generation>\d+), Protocol (?P<protocol>[^,]*), "
    r"LeaderId (?P<leader>\S+?)(?: \(me\))?, my MemberId (?P<member>[^,]+),"
)


class JoinResponses(logging.Handler):
    """Keeps (generation, leader) of the last JoinGroup response that a group's consumers have logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.last: tuple[int, str] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Reads librdkafka's line if it is about a JoinGroup response."""
        found = _JOINED.search(record.getMessage())
        if found:
            response = (int(found["generation"]), found["leader"])
            self.last = response if self.last is None else max(self.last, response, key=lambda one: one[0])


class Churn:
    """Groups whose members join and leave; one thread polls all of them."""

    def __init__(self, servers: str, prefix: str, seed: int) -> None:
        self.servers = servers
        self.random = random.Random(seed)
        self.classic = [f"{prefix}-classic-{number}" for number in range(CLASSIC)]
        self.modern = [f"{prefix}-modern-{number}" for number in range(MODERN)]
        self.groups = [*self.classic, *self.modern]
        self.members: dict[str, list[Consumer]] = {group: [] for group in self.groups}
        self.responses: dict[str, JoinResponses] = {group: JoinResponses() for group in self.classic}
        self._named = 0

    def step(self) -> None:
        """Makes one random change to one random group."""
        group = self.random.choice(self.groups)
        members = self.members[group]
        if members and (len(members) > 3 or self.random.random() < 0.4):
            members.pop(self.random.randrange(len(members))).close()
        else:
            members.append(self._join(group))

    def poll(self, seconds: float) -> None:
        """Polls all consumers in turn for about this long."""
        poll_all([consumer for members in self.members.values() for consumer in members], seconds)

    def _join(self, group: str) -> Consumer:
        self._named += 1
        settings: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": group,
            "client.id": f"{group}-member-{self._named}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 300,
            "log_level": 7,
        }
        logger = logging.Logger(group, logging.DEBUG)
        if group in self.responses:
            strategies = ["range", "roundrobin", "cooperative-sticky"]
            strategy = strategies[self.classic.index(group) % len(strategies)]
            settings.update({"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 300})
            settings["debug"] = "cgrp"
            logger.addHandler(self.responses[group])
        else:
            settings["group.protocol"] = "consumer"
            logger.addHandler(logging.NullHandler())
        consumer = Consumer(settings, logger=logger)
        consumer.subscribe(self.random.sample(sorted(TOPICS), self.random.choice([1, 2])))
        return consumer

    def close(self) -> None:
        for members in self.members.values():
            for consumer in members:
                consumer.close()


@contextmanager
def churn(broker: EmbeddedBroker, prefix: str, seed: int) -> Iterator[Churn]:
    """Groups on the broker, and topics with messages for their commits."""
    make_topics(broker.bootstrap_servers, TOPICS)
    for topic in TOPICS:
        produce(broker.bootstrap_servers, topic, [(None, b"x")] * 200)
    made = Churn(broker.bootstrap_servers, prefix, seed)
    try:
        yield made
    finally:
        made.close()


def settled(world: Churn, admin: KafkaAdmin) -> dict[str, dict[str, Any]]:
    """The broker's descriptions when every group is Stable and two descriptions in a row are equal."""
    before: dict[str, dict[str, Any]] = {}
    deadline = time.monotonic() + QUIET_SECONDS
    while True:
        assert time.monotonic() < deadline, [
            (name, one["state"]) for name, one in before.items() if one["state"] not in ("Stable", "Empty")
        ]
        world.poll(2)
        now = admin.describe(
            {group: "consumer" for group in world.groups if world.members[group]}, offsets=True
        )
        quiet = all(
            one["state"] == "Stable" and len(one["members"]) == len(world.members[name])
            for name, one in now.items()
        )
        if quiet and now == before:
            return now
        before = now


def check(broker: EmbeddedBroker, prefix: str, seed: int, seconds: float) -> None:
    """Runs the churn, waits until the groups are stable, and compares."""
    with churn(broker, prefix, seed) as world:
        end = time.monotonic() + seconds
        for _ in range(3 * len(world.groups) // 2):
            world.step()
        while time.monotonic() < end:
            world.poll(world.random.choice([0.1, 0.3, 0.8]))
            world.step()
        jars = jar_paths(f"broker-{broker.version}")
        with kafka_admin(jars, broker.bootstrap_servers) as admin:
            answers = settled(world, admin)
        events, replay = replayed_log(broker.bootstrap_servers)
        groups = {group.group_id: group.describe() for group in replay.groups()}
        assert len(answers) >= 20
        assert {name: by_log(groups[name]) for name in answers} == {
            name: by_broker(one) for name, one in answers.items()
        }
        reported = {name: report.last for name, report in world.responses.items() if name in answers}
        assert {name: (groups[name]["generation"], groups[name]["leader"]) for name in reported} == reported
        completed = [event["data"] for event in named(events, "rebalance.completed")]
        last = {data["group_id"]: data["generation"] for data in completed}
        assert {name: last.get(name) for name in reported} == {
            name: report[0] for name, report in reported.items() if report
        }


@pytest.mark.long
def test_after_churn_the_replay_equals_the_broker(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """State, epochs, protocol, members, assignments and offsets of 32 groups of both protocols are equal."""
    check(broker, unique("churn"), seed=1, seconds=45)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_after_ten_minutes_of_churn(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """They are equal after a longer churn with another seed."""
    check(broker, unique("churn"), seed=2, seconds=600)
