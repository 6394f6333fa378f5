"""Stories of several groups, which run at the same time on one broker, so that they wait in parallel.

A story is a generator: it does something, then yields the condition under which it continues. One loop polls all
consumers, requests descriptions of the groups from the broker, and resumes every story whose condition holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer
from confluent_kafka.admin import ConfigResource

from groupreplay.app.demo.scenario import Actor, member_command
from groupreplay.codecs import Key, decode_key, decode_value
from groupreplay.state import Context, Group
from groupreplay.state.policy.broker_log import BrokerLog
from groupreplay.streaming.broker_log.reader import read_broker_logs
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.kafka.broker_config import effective_retention
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import DEFAULT_VERSION
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.sources.topic import read_topic
from support.histories.builders import Raw, observed
from support.job.replays import Json, event_name, events_of
from support.kafka.clients import close_all, make_topics, new_consumer, poll_all, set_configs
from support.kafka.kafka_admin import SOURCE as ADMIN_SOURCE
from support.kafka.kafka_admin import KafkaAdmin
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.kafka_members import SOURCE as MEMBERS_SOURCE
from support.kafka.stubborn_member import stubborn_command
from support.kafka.waiting import PATIENCE_SECONDS

Condition = Callable[[], object]
Story = Iterator[Condition]

#: Settings of a member of a classic group, for ``World.join``.
CLASSIC = {
    "protocol": "classic",
    "heartbeat_interval_ms": 300,
    "partition_assignment_strategy": "range",
    "auto_offset_reset": "earliest",
}
#: For all stories together; the longest ones wait for a session timeout.
DEADLINE_SECONDS = PATIENCE_SECONDS
CLOSING_SECONDS = 15.0
_TURN_SECONDS = 0.1
#: How the line begins that says what raised an epoch, by trigger.
REASONS: Mapping[str, str] = {
    "first_join": r"(?:Adding new member|(?:Static m|M)ember \S+ .*joins|\[MemberId \S+\] Member joins)",
    "member_joined": r"(?:\[MemberId \S+\] Member joins|Member \S+ joins)",
    "member_left": r"(?:(?:\[MemberId \S+\] )?(?:Streams m|M|Dynamic m)ember \S+ (?:left|fenced|has left)|Downgrade)",
    "subscription_changed": "Scanned ",
    "unknown": "Bumped group epoch",
}


class World:
    """Groups on one broker and their members. A context manager: on exit it ends all members."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self.exit = ExitStack()
        self._consumers: list[Consumer] = []
        self._seen: dict[str, Json] = {}

    def __enter__(self) -> World:
        jvm, self.members = self.jvm()
        self.admin = KafkaAdmin(jvm.make(ADMIN_SOURCE, "AdminOracle"), self.servers)
        self.exit.callback(close_all, self._consumers, CLOSING_SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        self.exit.close()

    def jvm(self) -> tuple[Jvm, Any]:
        """A JVM that can be killed, and in it an object that starts members (`kafka_members`)."""
        jvm = self.exit.enter_context(Jvm([*broker_jars(), *jar_paths(f"streams-{DEFAULT_VERSION}")]))
        return jvm, jvm.make(MEMBERS_SOURCE, "Members")

    def create(self, topic: str, partitions: int) -> None:
        make_topics(self.servers, {topic: partitions})

    def join(
        self, group: str, name: str, *topics: str, protocol: str = "consumer", **more: object
    ) -> Consumer:
        """A consumer that the loop polls; in the names of settings ``_`` stands for a dot."""
        joining = new_consumer(self.servers, group, *topics, client_id=name, group_protocol=protocol, **more)
        self._consumers.append(joining)
        return joining

    def leave(self, member: Consumer) -> None:
        """Closes a consumer; a static member stays in the group."""
        self._consumers.remove(member)
        member.close()

    def process(self, group: str, name: str, topic: str) -> GuardedProcess:
        """A member in a process that can be killed."""
        command = member_command(self.servers, name, Actor(group=group, topic=topic, protocol="consumer"))
        return self.guarded(name, command)

    def stubborn(self, group: str, name: str, topic: str, rebalance_timeout_ms: int) -> GuardedProcess:
        """A member that never revokes a partition."""
        return self.guarded(name, stubborn_command(self.servers, group, name, topic, rebalance_timeout_ms))

    def guarded(self, name: str, command: list[str]) -> GuardedProcess:
        """A process that ends with this context."""
        return self.exit.enter_context(GuardedProcess(command, self.folder / f"{name}.log"))

    def shows(self, group: str, state: str, *names: str) -> Condition:
        """The broker reports this state, and members with exactly these client ids."""

        def holds_now() -> bool:
            return self._reported(group) == (state, sorted(names))

        return holds_now

    def holds(self, group: str, name: str, count: int) -> Condition:
        """The broker reports this number of partitions or tasks for a member."""

        def holds_now() -> bool:
            mine = [one["partitions"] for one in self._members(group, name)]
            return [sum(map(len, held.values())) for held in mine] == [count]

        return holds_now

    def replaced(self, group: str, name: str) -> Condition:
        """The broker reports members with this client id, none of which has a member id of now."""

        def ids() -> set[str]:
            return {one["member_id"] for one in self._members(group, name)}

        before = ids()
        return lambda: before and ids() and before.isdisjoint(ids())

    def _members(self, group: str, name: str) -> list[Json]:
        members = self._seen.get(group, {"members": ()})["members"]
        return [one for one in members if one["client_id"] == name]

    def _reported(self, group: str) -> tuple[str | None, list[str]]:
        """The state, and the client ids of all members."""
        seen = self._seen.get(group, {"state": None, "members": ()})
        return seen["state"], sorted(member["client_id"] for member in seen["members"])

    def is_now(self, group: str, kind: str) -> Condition:
        """The broker reports this type of the group."""
        return lambda: self._seen.get(group, {"type": None})["type"] == kind

    def play(self, stories: dict[str, tuple[str, Story]]) -> None:
        """Runs the stories (group -> type and story) until the last one has ended."""
        # Every step of a rebalance waits for a heartbeat. A client of Kafka Streams gives up when its source topic is
        # missing for two of them (StreamThread, 4.4): a story that creates it needs the time.
        quick = {"consumer": 1_000, "share": 1_000, "streams": 5_000}
        for group, (kind, _) in stories.items():
            if kind in quick:
                settings = {f"{kind}.heartbeat.interval.ms": quick[kind]}
                set_configs(self.servers, ConfigResource.Type.GROUP, [group], settings)
        waiting: dict[str, Condition] = {group: lambda: True for group in stories}
        deadline = time.monotonic() + DEADLINE_SECONDS
        while waiting:
            assert time.monotonic() < deadline, {
                group: self._place(stories[group][1], group) for group in waiting
            }
            for group in [group for group, condition in waiting.items() if condition()]:
                condition = next(stories[group][1], None)
                if condition is None:
                    del waiting[group]
                else:
                    waiting[group] = condition
            self._turn({group: kind for group, (kind, _) in stories.items()})

    def _place(self, story: Story, group: str) -> tuple[object, ...]:
        """The line at which a story waits, and the state and members that the broker reports."""
        return getattr(story, "gi_frame").f_lineno, *self._reported(group)  # noqa: B009

    def _turn(self, kinds: dict[str, str]) -> None:
        poll_all(self._consumers, _TURN_SECONDS)
        self._seen = self.admin.describe(kinds)


class ReplayedGroups:
    """Events and state of some groups, replayed from the log after all stories have ended.

    ``broker_logs`` are log files of the coordinator.
    """

    def __init__(self, servers: str, groups: Sequence[str], broker_logs: Sequence[Path] = ()) -> None:
        connection = Connection(Cluster(bootstrap_servers=servers))
        rows = read_topic(connection.cluster)
        batches = list(rows.batches)
        self._context = Context(
            cluster_id=rows.cluster_id,
            era=rows.era,
            topic_names=connection.topic_names(),
            member_events=True,
            sessions=effective_retention(RetentionFlags(), connection).sessions,
            broker_log=read_broker_logs(broker_logs) if broker_logs else BrokerLog(),
        )
        replay = Replay(self._context, groups)
        events = events_of(replay.feed(replace(rows, batches=iter(batches))))
        self._events = sorted(events, key=lambda event: str(event["sequence"]))
        self._records = [raw for batch in batches for raw in _raws(batch, groups)]
        self.groups = {group.group_id: group.describe() for group in replay.groups()}

    def data(self, group: str, fact: str = "") -> list[Json]:
        """The data of all events about a group, or of those with this name, in order."""
        found = [event["data"] for event in self._events if not fact or event_name(event) == fact]
        return [data for data in found if data["group_id"] == group]

    def facts(self, group: str, fields: Mapping[str, Sequence[str]]) -> list[tuple[Any, ...]]:
        """All events about a group, in order: the name and these fields of each."""
        return [
            (event_name(event), *(event["data"][field] for field in fields.get(event_name(event), ())))
            for event in self._events
            if event["data"]["group_id"] == group
        ]

    def states(self, group: str) -> list[str]:
        """The states of the group after each broker operation, without repetitions."""
        replayed, states = Group(group, self._context), ["Dead"]
        for raw in self._records:
            if raw.key.group == group:
                replayed.apply(observed([raw]), 0)
                states.append(replayed.describe()["state"])
        replayed.expire(1 << 62)
        states.append(replayed.describe()["state"])
        return [now for before, now in pairwise(states) if now != before]


def _raws(batch: pa.RecordBatch, groups: Collection[str]) -> Iterator[Raw]:
    for record in batch.to_pylist():
        key = decode_key(record["key"])
        if isinstance(key, Key) and getattr(key, "group", None) in groups:
            yield Raw(key, decode_value(key, record["value"]), record["offset"], record["timestamp"])
