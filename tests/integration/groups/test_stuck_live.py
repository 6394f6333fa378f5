"""Rebalances that are really stuck, on a real broker, found by the running job while they are.

Several groups are stuck at the same time, each in its own way, with thresholds lowered by settings. What the job
said live is held against what the broker's log says afterwards, and against a replay of the two topics.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.demo.scenario import create_topics
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import invoke
from support.job.jobs import comparable, read_topic, running_job, topic_names
from support.job.watched import producing
from support.kafka.kafka_classes import Jvm
from support.kafka.waiting import wait_until
from support.paths import ROOT

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

# The threshold is longer than the 5 s between heartbeats of KIP-848, in which a member cannot know what to revoke, and
# than a rebalance of members that this process polls between other work.
THRESHOLD_MS, PROBE_MS, TRIGGER_MS = 10_000, 1_000, 1_000
#: From a member's last poll to the join that it blocks: its own last commit comes within 400 ms, and the rebalance is
#: seen a round of the prober late. Who is stuck for less than both cannot be told from the others by commits.
STUCK_SECONDS = 3
#: How long a member may stay away from its poll loop; the group's rebalance timeout.
TIMEOUT_MS = 60_000
RULES = (
    *("--rule", f"rebalance.stuck.threshold_ms={THRESHOLD_MS}"),
    *("--rule", "rebalance.slow.threshold_ms=4000"),
    "--member-events",
)
PROBING = ("--probe-interval", str(PROBE_MS / 1000))
Json = dict[str, Any]

#: An assignor of Kafka's own client that takes its time: the leader then does not sync.
SLEEPY = """
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class SleepyLeader {
    public static volatile long sleepMs = 0L;
    private final Map members = new HashMap();

    public void join(String servers, String group, String client, String topic, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("client.id", client);
        settings.put("max.poll.interval.ms", String.valueOf(timeoutMs));
        settings.put("session.timeout.ms", "30000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("partition.assignment.strategy", Collections.singletonList(SleepyAssignor.class));
        SleepyLoop loop = new SleepyLoop(new KafkaConsumer(settings), topic);
        loop.start();
        members.put(client, loop);
    }

    public void sleep(long ms) {
        sleepMs = ms;
    }

    public int owned(String client) {
        return ((SleepyLoop) members.get(client)).owned;
    }

    public void stop() throws Exception {
        for (Object one : members.values()) ((SleepyLoop) one).running = false;
        for (Object one : members.values()) ((SleepyLoop) one).join();
    }
}

class SleepyLoop extends Thread {
    public volatile boolean running = true;
    public volatile int owned = 0;
    private final KafkaConsumer consumer;
    private final String topic;

    public SleepyLoop(KafkaConsumer consumer, String topic) {
        this.consumer = consumer;
        this.topic = topic;
        setDaemon(true);
    }

    public void run() {
        consumer.subscribe(Collections.singletonList(topic));
        while (running) {
            consumer.poll(Duration.ofMillis(100L));
            owned = consumer.assignment().size();
        }
        consumer.close();
    }
}

public class SleepyAssignor extends RangeAssignor {
    public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
        long until = System.currentTimeMillis() + SleepyLeader.sleepMs;
        SleepyLeader.sleepMs = 0L;
        while (System.currentTimeMillis() < until) {
            try { Thread.sleep(50L); } catch (InterruptedException e) { throw new RuntimeException(e); }
        }
        return super.assign(metadata, subscriptions);
    }
}
"""


def ignore(*_: object) -> None:
    """With callbacks of its own a consumer takes part in a rebalance only when it polls."""


@dataclass
class Loop:
    """Consumers of one process, polled in turn unless they are told to be stuck."""

    servers: str
    timeout_ms: int
    consumers: dict[str, Consumer] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)

    def join(self, name: str, group: str, topic: str, *, commits: bool = True) -> None:
        """A member of a classic group."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "client.id": name,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 300,
                "max.poll.interval.ms": self.timeout_ms,
                "enable.auto.commit": commits,
                "auto.commit.interval.ms": 400,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic], on_assign=ignore, on_revoke=ignore)
        self.consumers[name] = consumer

    def poll(self) -> None:
        """Everybody once who is not stuck."""
        for name, consumer in self.consumers.items():
            if name not in self.stuck:
                consumer.poll(0)
        time.sleep(0.005)

    def owned(self, *names: str) -> list[int]:
        """How many partitions each has."""
        return [len(self.consumers[name].assignment()) for name in names]

    def close(self) -> None:
        """All leave."""
        for consumer in self.consumers.values():
            consumer.close()


@dataclass(frozen=True)
class Blocked:
    """A classic group in which ``blocker`` stops polling and ``late`` joins."""

    group: str
    topic: str
    commits: bool = True

    @property
    def members(self) -> list[str]:
        """The first members; the first of them will be stuck."""
        return [f"{self.group}-{letter}" for letter in "abc"]

    @property
    def blocker(self) -> str:
        """Who stops polling."""
        return self.members[0]

    @property
    def late(self) -> str:
        """Who joins then."""
        return f"{self.group}-d"


class World:
    """Groups that get stuck while the job watches; afterwards, everything that was written."""

    def __init__(
        self, broker: EmbeddedBroker, folder: Path, prefix: str, count: int, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self.timeout_ms = timeout_ms
        self.servers, self.prefix = broker.bootstrap_servers, prefix
        self.topic = f"{prefix}-orders"
        self.blocked = [Blocked(f"{prefix}-{number}", self.topic) for number in range(count)]
        self.mute = Blocked(f"{prefix}-mute", self.topic, commits=False)
        self.sleepy, self.modern = f"{prefix}-sleepy", f"{prefix}-modern"
        self.topics = topic_names(prefix)
        self.exit = ExitStack()
        self.loop = Loop(self.servers, timeout_ms)
        self.stuck_at_ms = self.restarted_ms = 0
        self._folder = folder

    def play(self, *, restart: bool = False) -> World:
        """Everything: groups come to rest, get stuck, and are free again; with another job in between, or not."""
        create_topics(AdminClient({"bootstrap.servers": self.servers}), {self.topic: 6})
        with self.exit:
            self.exit.callback(self.loop.close)
            self.exit.enter_context(producing(self.servers, {self.topic: 6}, 0.05))
            jvm = self.exit.enter_context(Jvm(jar_paths("broker-4.3.1")))
            leader = jvm.make(SLEEPY, "SleepyLeader")
            self._rest(leader)
            self._start()
            self._block()
            wanted = {self.mute.group, *(one.group for one in self.blocked)}
            if restart:
                self._wait(lambda: len(self._said_anew("rebalance.started")) >= len(wanted))
                assert self.job.stop() == 143
                self.restarted_ms = now_ms()
                self._start()
            else:
                self._block_others(leader)
                wanted |= {self.modern, self.sleepy}
            self._wait(lambda: wanted <= self._said("rebalance.stuck", "firing"))
            if restart:
                # However long the restart took, the group is stuck until it was said.
                self.loop.stuck.clear()
            self._wait(lambda: wanted <= self._said("rebalance.stuck", "resolved"))
            ended_ms = now_ms()
            self._wait(lambda: any(beat >= ended_ms for beat in self.job.caught_up()))
            self.events = list(self.job.events().values())
            self.recorded = {
                event["id"]: str(event["recordedtime"])
                for event in (
                    json.loads(one.value or b"{}") for one in read_topic(self.servers, self.topics.events)
                )
            }
            self.slowest_batch_ms = self._slowest_batch_ms()
            leader.stop()
            assert self.job.stop() == 143
        return self

    def _slowest_batch_ms(self) -> int:
        """Since the groups were blocked: a batch that takes longer than the trigger is what the next one waits for."""
        documents = [json.loads(one.value or b"{}") for one in read_topic(self.servers, self.topics.job)]
        since = [one for one in documents if one.get("heartbeat_ms", 0) >= self.stuck_at_ms and one["batch"]]
        return max(round(1_000 * one["batch"]["seconds"]) for one in since)

    def _start(self) -> None:
        """A job that goes on where the last one ended, once it knows everything up to its start."""
        checkpoint, started_ms = self._folder / "checkpoint", now_ms()
        job = running_job(self.servers, checkpoint, self.topics, *PROBING, *RULES)
        self.job = self.exit.enter_context(job)
        self._wait(lambda: any(beat >= started_ms for beat in self.job.caught_up()))

    def _said_anew(self, kind: str) -> list[Json]:
        """Events of this kind since the groups were blocked."""
        found = [one for one in self.job.events().values() if one["type"] == f"groupreplay.{kind}.v1"]
        return [one for one in found if milliseconds(one["time"]) >= self.stuck_at_ms]

    def _rest(self, leader: Any) -> None:
        groups = [*self.blocked, self.mute]
        for one in groups:
            for name in one.members:
                self.loop.join(name, one.group, one.topic, commits=one.commits)
        leader.join(self.servers, self.sleepy, "sleepy-a", self.topic, self.timeout_ms)
        self._wait(lambda: all(self.loop.owned(*one.members) == [2, 2, 2] for one in groups))
        self._wait(lambda: leader.owned("sleepy-a") == 6)
        self._member("stubborn")
        self._wait(lambda: self._holds("stubborn", 6))
        # Time to commit something.
        self._pass(2)

    def _pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() > end)

    def _member(self, name: str) -> None:
        script = str(ROOT / "tests" / "stubborn_member.py")
        command = [sys.executable, script, self.servers, self.modern, name, self.topic, str(self.timeout_ms)]
        self.exit.enter_context(GuardedProcess(command, self._folder / f"{name}.log"))

    def _holds(self, name: str, count: int) -> bool:
        admin = AdminClient({"bootstrap.servers": self.servers})
        group = admin.describe_consumer_groups([self.modern])[self.modern].result(10)
        return [len(one.assignment.topic_partitions) for one in group.members if one.client_id == name] == [
            count
        ]

    def _block(self) -> None:
        groups = [*self.blocked, self.mute]
        self.loop.stuck.update(one.blocker for one in groups)
        self._pass(STUCK_SECONDS)
        self.stuck_at_ms = now_ms()
        for one in groups:
            self.loop.join(one.late, one.group, one.topic, commits=one.commits)

    def _block_others(self, leader: Any) -> None:
        leader.sleep(2 * THRESHOLD_MS)
        leader.join(self.servers, self.sleepy, "sleepy-b", self.topic, self.timeout_ms)
        self._member("second")

    def _wait(self, condition: Callable[[], object]) -> None:
        """Polls the members meanwhile, and looks at the condition now and then."""
        looked = [0.0, False]

        def turn() -> bool:
            self.loop.poll()
            if time.monotonic() - looked[0] > 0.5:
                looked[:] = [time.monotonic(), bool(condition())]
            return bool(looked[1])

        wait_until(turn, 240.0, pause=0)

    def _said(self, kind: str, status: str) -> set[str]:
        """The groups of which the job has written so."""
        found = [one for one in self.job.events().values() if one["type"] == f"groupreplay.{kind}.v1"]
        return {one["data"]["group_id"] for one in found if one["data"]["status"] == status}

    def of(self, group: str, kind: str) -> list[Json]:
        """Everything of one kind that was said of a group, in order."""
        found = [one for one in self.events if one["type"] == f"groupreplay.{kind}.v1"]
        return sorted((one for one in found if one["data"]["group_id"] == group), key=lambda one: one["time"])


@pytest.fixture(scope="module")
def world(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two blocked groups, one that does not commit, a leader that sleeps, a member that will not revoke."""
    return World(broker, tmp_path_factory.mktemp("stuck"), "stuck", 2).play()


def now_ms() -> int:
    """By this machine's clock, which is the broker's."""
    return time.time_ns() // 1_000_000


def check_blocked(world: World, one: Blocked) -> list[str]:
    """Fired while it was stuck, resolved when it ended, the member dropped; the suspects by client id, in order."""
    (started,) = world.of(one.group, "rebalance.started")
    fired, resolved = world.of(one.group, "rebalance.stuck")
    completed = world.of(one.group, "rebalance.completed")[-1]
    data = fired["data"]
    assert (data["status"], resolved["data"]["status"], data["reason"], data["evidence"]) == (
        "firing",
        "resolved",
        "not_joined",
        "probe",
    )
    assert {event["data"]["rebalance_id"] for event in (started, fired, resolved, completed)} == {
        started["data"]["rebalance_id"]
    }
    assert resolved["data"]["condition_id"] == data["condition_id"]
    assert data["since_ms"] - world.stuck_at_ms >= 0
    (left,) = [one for one in world.of(one.group, "member.left") if one["data"]["reason"] != "left"]
    assert (left["data"]["client_id"], left["data"]["reason"]) == (one.blocker, "rebalance_timeout")
    assert left["severitytext"] == "WARN"
    # Exactly at the threshold by its own time, and written before it was over.
    assert milliseconds(fired["time"]) == data["since_ms"] + THRESHOLD_MS
    assert world.recorded[fired["id"]] < resolved["time"]
    late_ms = milliseconds(world.recorded[fired["id"]]) - data["since_ms"]
    bound_ms = THRESHOLD_MS + 2 * PROBE_MS + 2 * max(TRIGGER_MS, world.slowest_batch_ms)
    print(f"{one.group}: said {late_ms} ms after it began; at most {bound_ms} ms may pass")  # noqa: T201
    assert late_ms <= bound_ms
    suspects = data["suspects"]
    assert bool(suspects) == (data["suspects_note"] is None)
    return [suspect["client_id"] for suspect in suspects]


def milliseconds(time_: str) -> int:
    """An event's time as a number."""
    return round(datetime.fromisoformat(time_.replace("Z", "+00:00")).timestamp() * 1000)


def test_a_member_that_stops_polling(world: World) -> None:
    """Said while it is stuck, and the blocker is the first suspect."""
    for one in world.blocked:
        assert check_blocked(world, one)[:1] == [one.blocker]


def test_without_commits_nobody_is_suspected(world: World) -> None:
    """The same, with commits off: it is found, and no name is guessed."""
    assert check_blocked(world, world.mute) == []


def test_a_leader_that_does_not_sync(world: World) -> None:
    """CompletingRebalance is seen, and the leader of the last generation is suspected."""
    fired, resolved = world.of(world.sleepy, "rebalance.stuck")
    assert (fired["data"]["reason"], fired["data"]["state"]) == ("not_synced", "CompletingRebalance")
    assert [one["client_id"] for one in fired["data"]["suspects"]] == ["sleepy-a"]
    assert resolved["data"]["status"] == "resolved"


def test_a_member_that_will_not_revoke(world: World) -> None:
    """From the log alone: the blocker by name, and its fencing predicted within a second of the broker's."""
    # With heartbeats 5 s apart, taking over what the blocker has lost may take longer than the threshold, too.
    fired, resolved, *_ = world.of(world.modern, "rebalance.stuck")
    (blocker,) = fired["data"]["blockers"]
    assert (blocker["client_id"], fired["data"]["evidence"], fired["data"]["suspects"]) == (
        "stubborn",
        "log",
        None,
    )
    assert set(blocker["revoking"]) == {world.topic}
    (left,) = world.of(world.modern, "member.left")
    assert (left["data"]["client_id"], left["data"]["reason"]) == ("stubborn", "rebalance_timeout")
    assert abs(left["data"]["cause"]["timestamp_ms"] - blocker["fenced_at_ms"]) <= 1_000
    assert resolved["data"]["status"] == "resolved"


def test_a_replay_of_the_two_topics_says_the_same(world: World) -> None:
    """Every event of these groups, whole, and no other."""
    words = (
        "replay",
        "--bootstrap-server",
        world.servers,
        "--probes-topic",
        world.topics.probes,
        "-o",
        "jsonl",
    )
    printed = invoke(*words, *RULES).stdout
    replayed = [comparable(json.loads(line)) for line in printed.splitlines()]
    since, until = (end(one["time"] for one in world.events) for end in (min, max))
    mine = {one["id"]: one for one in replayed if (one["data"]["group_id"] or "").startswith(world.prefix)}
    live = {
        one["id"]: one for one in world.events if (one["data"]["group_id"] or "").startswith(world.prefix)
    }
    assert {name: one for name, one in mine.items() if since <= one["time"] <= until} == live


def test_without_the_prober_nothing_is_claimed(world: World) -> None:
    """Of classic groups the log says nothing while they are stuck, and so does a job that does not ask."""
    empty = f"{world.prefix}-no-probes"
    create_topics(AdminClient({"bootstrap.servers": world.servers}), {empty: 1})
    words = ("replay", "--bootstrap-server", world.servers, "--probes-topic", empty, "-o", "jsonl")
    printed = invoke(*words, *RULES).stdout
    events = [json.loads(line) for line in printed.splitlines()]
    groups = {one.group for one in [*world.blocked, world.mute]} | {world.sleepy}
    said = {one["type"] for one in events if one["data"]["group_id"] in groups}
    assert said & {f"groupreplay.rebalance.{name}.v1" for name in ("slow", "stuck", "started")} == set()


@pytest.mark.timeout(900)
def test_the_blocker_is_the_first_suspect(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """In at least 9 of 10 groups that are stuck at the same time."""
    world = World(broker, tmp_path, "stuck-ten", 10).play()
    first = [check_blocked(world, one)[:1] == [one.blocker] for one in world.blocked]
    assert sum(first) >= 9


@pytest.mark.timeout(900)
def test_a_job_that_restarts_meanwhile(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Stopped after a rebalance had begun, started again while it goes on: said once, with its real beginning."""
    world = World(broker, tmp_path, "stuck-restart", 1, timeout_ms=600_000).play(restart=True)
    (group,) = world.blocked
    (started,) = world.of(group.group, "rebalance.started")
    fired, resolved = world.of(group.group, "rebalance.stuck")
    assert (fired["data"]["status"], resolved["data"]["status"]) == ("firing", "resolved")
    assert fired["data"]["condition_id"] == resolved["data"]["condition_id"]
    assert fired["data"]["since_ms"] == milliseconds(started["time"]) < world.restarted_ms
    assert world.recorded[fired["id"]] < resolved["time"]
    assert [suspect["client_id"] for suspect in fired["data"]["suspects"]][:1] == [group.blocker]
