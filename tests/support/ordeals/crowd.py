"""Many groups of every kind that live at the same time, a wave after the other, and what they did."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource

from groupreplay.app.demo.scenario import Actor, member_command
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.kafka.clients import (
    close_all,
    make_topics,
    new_consumer,
    open_transaction,
    poll_all,
    produce,
    set_configs,
)
from support.kafka.live_groups import World
from support.kafka.waiting import PATIENCE_SECONDS

#: The topics that the groups read, and their partitions.
TOPICS = {"crowd-orders": 4, "crowd-payments": 3}
#: Kind of a group -> settings of its members. A kind that ends with ``static`` has instance ids.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "range": {"partition_assignment_strategy": "range"},
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "static": {"partition_assignment_strategy": "range"},
    "modern": {"group_protocol": "consumer"},
    "modern-static": {"group_protocol": "consumer"},
    "share": {},
}
_CLASSIC = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
_QUICK = {"heartbeat.interval.ms": 1_000, "session.timeout.ms": 6_000}
MOST_MEMBERS = 3
KILLED_A_WAVE = 2
_CLOSING_SECONDS = 60.0


@dataclass
class Wave:
    """The groups of one wave: their members by slot, and the processes that count as members."""

    groups: list[str]
    members: dict[str, dict[str, Consumer]] = field(default_factory=dict)
    processes: dict[str, GuardedProcess] = field(default_factory=dict)
    shares: dict[str, list[str]] = field(default_factory=dict)

    def count(self, group: str) -> int:
        """How many members the group has once everybody has joined and the killed ones are removed."""
        mine = len(self.members.get(group, ())) + len(self.shares.get(group, ()))
        return mine + (group in self.processes)


def kind_of(group: str) -> str:
    """The kind in the name of a group."""
    return group.split(".")[1]


def api_type(group: str) -> str:
    """The type by which the Admin API is asked."""
    return "share" if kind_of(group) == "share" else "consumer"


class Crowd:
    """Waves of groups on one broker; ``resets`` and ``deleted`` are what was done to groups without members."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        self.groups: list[str] = []
        self.resets: list[tuple[str, dict[str, int]]] = []
        self.deleted: set[str] = set()
        self.done: dict[str, int] = dict.fromkeys(
            ("join", "leave", "commit", "transaction", "kill", "reset", "delete", "delete offsets"), 0
        )
        self._admin = make_topics(world.servers, TOPICS)
        self._named = 0
        self._open: list[Wave] = []
        world.exit.callback(self._abandon)
        for topic in TOPICS:
            produce(world.servers, topic, [(None, b"x")] * 500)

    def wave(self, number: int, size: int) -> Wave:
        """New groups, as many of each kind as of the others."""
        kinds = sorted(KINDS)
        wave = Wave([f"crowd.{kinds[one % len(kinds)]}.{number:02}.{one:03}" for one in range(size)])
        self.groups += wave.groups
        self._open.append(wave)
        for prefix in ("consumer", "share"):
            values = {f"{prefix}.{name}": value for name, value in _QUICK.items()}
            set_configs(self.world.servers, ConfigResource.Type.GROUP, wave.groups, values)
        for group in wave.groups:
            self._join(wave, group)
        victims = [one for one in wave.groups if kind_of(one) in ("range", "modern")]
        for group in self.random.sample(victims, min(KILLED_A_WAVE, len(victims))):
            protocol = "consumer" if kind_of(group) == "modern" else "classic"
            actor = Actor(group=group, topic=next(iter(TOPICS)), protocol=protocol)
            wave.processes[group] = self.world.guarded(
                f"victim-{group}", member_command(self.world.servers, f"victim-{group}", actor)
            )
        return wave

    def live(self, wave: Wave, seconds: float) -> None:
        """Random changes for about this long; all processes are killed on the way."""
        actions = (self._join, self._join, self._leave, self._commit, self._commit, self._transact)
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            self.poll(wave, self.random.choice([0.05, 0.1, 0.3]))
            self.random.choice(actions)(wave, self.random.choice(wave.groups))
            if wave.processes and passed > seconds / 2:
                _, victim = wave.processes.popitem()
                victim.send(signal.SIGKILL)
                self.done["kill"] += 1

    def poll(self, wave: Wave, seconds: float) -> None:
        """Polls all consumers in turn for about this long."""
        poll_all([*_consumers(wave)], seconds)

    def end(self, wave: Wave) -> None:
        """All members leave, static ones too, in parallel."""
        assert close_all(_consumers(wave), PATIENCE_SECONDS), "a consumer does not close"
        for names in wave.shares.values():
            for name in names:
                self.world.members.closeShare(name)
        wave.members.clear()
        wave.shares.clear()

    def _abandon(self) -> None:
        """Closes what a failure has left open: a consumer that is only forgotten keeps the process from ending."""
        close_all((one for wave in self._open for one in _consumers(wave)), _CLOSING_SECONDS)

    def operate(self, empty: Mapping[str, Mapping[str, int]]) -> None:
        """What operators do to groups without members: set offsets, delete offsets, delete groups.

        ``empty``: the committed offset by place (``topic-partition``) of each such group.
        """
        for group, offsets in sorted(empty.items()):
            if not offsets or kind_of(group) == "share":
                continue
            action = self.random.choice((self._reset, self._reset, self._delete, self._delete_offsets, None))
            if action is not None:
                action(group, offsets)

    def _reset(self, group: str, offsets: Mapping[str, int]) -> None:
        chosen = self.random.sample(sorted(offsets), self.random.randint(1, len(offsets)))
        moved = {place: max(0, offsets[place] + self.random.choice((-7, -1, 3, 1_000))) for place in chosen}
        changed = {place: offset for place, offset in moved.items() if offset != offsets[place]}
        request = ConsumerGroupTopicPartitions(group, [_place(one, offset) for one, offset in moved.items()])
        self._admin.alter_consumer_group_offsets([request])[group].result(60)
        if changed:
            self.resets.append((group, changed))
            self.done["reset"] += 1

    def _delete(self, group: str, _: Mapping[str, int]) -> None:
        self._admin.delete_consumer_groups([group])[group].result(60)
        self.deleted.add(group)
        self.done["delete"] += 1

    def _delete_offsets(self, group: str, offsets: Mapping[str, int]) -> None:
        place = _place(min(offsets))
        self.world.admin.delete_offset(group, place.topic, place.partition)
        self.done["delete offsets"] += 1

    def _join(self, wave: Wave, group: str) -> None:
        if wave.count(group) >= MOST_MEMBERS:
            return
        self._named += 1
        kind, name = kind_of(group), f"{group}-{self._named}"
        self.done["join"] += 1
        if kind == "share":
            self.world.members.startShare(self.world.servers, group, name, next(iter(TOPICS)))
            wave.shares.setdefault(group, []).append(name)
            return
        members, more = wave.members.setdefault(group, {}), dict(KINDS[kind])
        if "group_protocol" not in more:
            more |= _CLASSIC
        slot = name
        if kind.endswith("static"):
            slot = next(f"slot-{one}" for one in range(MOST_MEMBERS) if f"slot-{one}" not in members)
            more["group_instance_id"] = slot
        topics = self.random.sample(sorted(TOPICS), self.random.choice([1, 2]))
        members[slot] = new_consumer(
            self.world.servers, group, *topics, client_id=name, auto_offset_reset="earliest", **more
        )

    def _leave(self, wave: Wave, group: str) -> None:
        members, shares = wave.members.get(group), wave.shares.get(group)
        if members:
            members.pop(self.random.choice(sorted(members))).close()
            self.done["leave"] += 1
        elif shares:
            self.world.members.closeShare(shares.pop())
            self.done["leave"] += 1

    def _commit(self, wave: Wave, group: str) -> None:
        for consumer in wave.members.get(group, {}).values():
            places = [
                TopicPartition(one.topic, one.partition, self.random.randrange(500))
                for one in consumer.assignment()
            ]
            if places:
                # In a rebalance the coordinator refuses it.
                with suppress(KafkaException):
                    consumer.commit(offsets=places, asynchronous=False)
                    self.done["commit"] += 1

    def _transact(self, wave: Wave, group: str) -> None:
        for consumer in wave.members.get(group, {}).values():
            owned = consumer.assignment()
            if owned:
                place = TopicPartition(owned[0].topic, owned[0].partition, self.random.randrange(500))
                with suppress(KafkaException):
                    producer = open_transaction(self.world.servers, f"t-{group}", consumer, place)
                    end = self.random.choice((producer.commit_transaction, producer.abort_transaction))
                    end(30)
                    self.done["transaction"] += 1
                return


def _consumers(wave: Wave) -> Iterator[Consumer]:
    for members in wave.members.values():
        yield from members.values()


def _place(name: str, offset: int = -1001) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition), offset)
