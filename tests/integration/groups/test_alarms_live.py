"""What must be found, with real clients on a real broker: each by its condition, with its severity, and nothing else.

All groups misbehave at the same time, each in its own way, with a prober beside them; a replay of the log and the
probes says what the job would have said. Numbers are the defaults except where they are times that a test cannot
wait for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from groupreplay.state.kafka_terms import partition_for
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.demo.scenario import Actor, member_command
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.prober.prober import Prober, ProbeRound
from support.job.watched import Heard, Watch, watching
from support.kafka.live_groups import Story, World
from support.kafka.waiting import wait_until

if TYPE_CHECKING:
    from groupreplay.streaming.local.process_guard import GuardedProcess

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC, OTHER, NARROW = "orders", "payments", "narrow"
CLASSIC = {
    "protocol": "classic",
    "heartbeat_interval_ms": 300,
    "partition_assignment_strategy": "range",
    "auto_offset_reset": "earliest",
}
#: A group's rebalance timeout is the longest of its members'.
QUICK = {**CLASSIC, "session_timeout_ms": 6_000, "max_poll_interval_ms": 9_000}
OFFSETS_PARTITIONS = 8

#: What a test cannot wait for; the rest holds as shipped.
RULES = """
[job.blind]
threshold_ms = 3000

[[group]]
match = "storm-worse"
rebalance.storm.window_ms = 5000
rebalance.storm.least = 2
rebalance.storm.per_slot = 0
rebalance.storm.beyond = 0

[[group]]
match = "idle"
member.idle.least_ms = 1000
"""


def ignore(*_: object) -> None:
    """With callbacks of its own a consumer takes part in a rebalance only when it polls."""


class Flipping:
    """A member that changes its mind about its topics: each time the group rebalances for nothing."""

    def __init__(self, world: World, group: str) -> None:
        self._consumer = world.join(group, "flips", TOPIC, **CLASSIC)
        self._wanted = [TOPIC]

    def flip(self) -> Callable[[], bool]:
        """Another subscription; the condition is that it is at work with it."""
        self._wanted = [TOPIC] if len(self._wanted) == 2 else [TOPIC, OTHER]
        self._consumer.subscribe(self._wanted)
        return self.works

    def works(self) -> bool:
        """Whether it has partitions of the topics that it wants now."""
        return {one.topic for one in self._consumer.assignment()} == set(self._wanted)

    def commit(self) -> None:
        """Commits once."""
        self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)


def storm(world: World, group: str) -> Story:
    """Fourteen rebalances, and nobody comes or goes."""
    member = Flipping(world, group)
    yield member.works
    for _ in range(14):
        yield member.flip()


def storm_worse(world: World, group: str) -> Story:
    """The same for three windows, and no commit moves meanwhile."""
    member = Flipping(world, group)
    yield member.works
    member.commit()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        yield member.flip()


def flapping(world: World, group: str) -> Story:
    """One of two goes and comes back three times."""
    world.join(group, "stays", TOPIC, **CLASSIC)
    flaps = world.join(group, "flaps", TOPIC, **CLASSIC)
    both = world.shows(group, "Stable", "flaps", "stays")
    yield both
    for _ in range(3):
        world.leave(flaps)
        yield world.shows(group, "Stable", "stays")
        flaps = world.join(group, "flaps", TOPIC, **CLASSIC)
        yield both


def timeouts(world: World, group: str) -> Story:
    """A member works longer than its rebalance timeout whenever somebody else comes: dropped three times."""
    settings = {name.replace("_", "."): value for name, value in QUICK.items() if name != "protocol"}
    slow = Consumer(
        {
            **settings,
            "bootstrap.servers": world.servers,
            "group.id": group,
            "client.id": "slow",
            "log_level": 0,
        }
    )
    world.exit.callback(slow.close)
    slow.subscribe([TOPIC], on_assign=ignore, on_revoke=ignore)

    def polled(name: str) -> Callable[[], object]:
        shown = world.shows(group, "Stable", *([name, "slow"] if name else ["slow"]))

        def look() -> bool:
            slow.poll(0)
            return shown() and bool(slow.assignment())

        return look

    yield polled("")
    for number in range(3):
        quick = world.join(group, f"quick-{number}", TOPIC, **QUICK)
        # It polls no more until the broker has gone on without it.
        yield world.shows(group, "Stable", f"quick-{number}")
        yield polled(f"quick-{number}")
        world.leave(quick)
        yield polled("")


def static_process(world: World, group: str, name: str, number: int) -> GuardedProcess:
    """A process with the instance id that all of its group have; no session ends while the test goes on."""
    actor = Actor(group=group, topic=TOPIC, instance_id="i", session_timeout_ms=45_000)
    return world.guarded(f"{group}-{number}", member_command(world.servers, name, actor))


def conflict(world: World, group: str) -> Story:
    """Two processes with one instance id: each throws the other one out, and is started again."""
    last = static_process(world, group, "one", 0)
    yield world.shows(group, "Stable", "one")
    for number, name in enumerate(("two", "one", "two"), 1):
        # The broker gives the new member the client id of the one before.
        replaced = world.replaced(group, "one")
        taking = static_process(world, group, name, number)
        yield replaced
        # That one is told that it is fenced, and its process ends.
        last.end(0)
        last = taking


def crash_loop(world: World, group: str) -> Story:
    """A static member crashes three times, and is started again in its place."""
    crashing = static_process(world, group, "crashes", 0)
    yield world.shows(group, "Stable", "crashes")
    for number in range(1, 4):
        crashing.end(0)
        replaced = world.replaced(group, "crashes")
        crashing = static_process(world, group, "crashes", number)
        yield replaced


def idle(world: World, group: str) -> Story:
    """One partition for two members; a third one comes and goes, so that there are rounds."""
    for name in ("a", "b"):
        world.join(group, name, NARROW, **CLASSIC)
    yield world.shows(group, "Stable", "a", "b")
    for number in range(2):
        third = world.join(group, f"c{number}", NARROW, **CLASSIC)
        yield world.shows(group, "Stable", "a", "b", f"c{number}")
        world.leave(third)
        yield world.shows(group, "Stable", "a", "b")


STORIES: dict[str, Callable[[World, str], Story]] = {
    "timeouts": timeouts,
    "storm": storm,
    "storm-worse": storm_worse,
    "flapping": flapping,
    "conflict": conflict,
    "crash-loop": crash_loop,
    "idle": idle,
}


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heard]:
    """All stories at once, and an open transaction beside them."""
    folder = tmp_path_factory.mktemp("alarms")
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    with EmbeddedBroker(offsets_partitions=OFFSETS_PARTITIONS) as broker:
        servers = broker.bootstrap_servers
        with World(servers, folder) as world, watching(servers, folder) as watch:
            for topic, partitions in {TOPIC: 4, OTHER: 2, NARROW: 1}.items():
                world.create(topic, partitions)
            stories = {group: ("consumer", story(world, group)) for group, story in STORIES.items()}
            stories["hanging"] = ("consumer", hanging(world, "hanging", watch))
            world.play(stories)
            yield watch.replay("--rules", str(rules), "--member-events")


def test_a_storm(ending: Heard) -> None:
    """Rebalances without a change; a warning while it is not known to be worse."""
    (fired,) = ending.of("storm", "rebalance.storm")
    assert ending.alarms("storm") == [("rebalance.storm", "WARN", "firing")]
    # At the first one beyond ten, which is what the only member's coming does not explain.
    assert (fired["slots_changed"], fired["generations"]) == (1, 11)


def test_a_storm_that_goes_on(ending: Heard) -> None:
    """An error when it has lasted three windows without a commit that moves; said again, resolved once at most."""
    first, second, *rest = ending.alarms("storm-worse")
    assert [first, second] == [
        ("rebalance.storm", "WARN", "firing"),
        ("rebalance.storm", "ERROR", "firing"),
    ]
    assert rest in ([], [("rebalance.storm", "ERROR", "resolved")])


def test_a_member_that_comes_and_goes(ending: Heard) -> None:
    """The slot that returned three times, not the one that stayed."""
    assert ending.alarms("flapping") == [("member.flapping", "WARN", "firing")]
    (fired,) = ending.of("flapping", "member.flapping")
    assert (fired["client_id"], len(fired["returned_ms"])) == ("flaps", 3)


def test_a_member_that_is_dropped_again_and_again(ending: Heard) -> None:
    """Three times at its rebalance timeout: no rebalance lasts long enough to be slow, and yet it is an error."""
    left = [one for one in ending.of("timeouts", "member.left") if one["client_id"] == "slow"]
    assert [one["reason"] for one in left] == ["rebalance_timeout"] * 3
    (fired,) = ending.of("timeouts", "rebalance.timeouts")
    assert (fired["client_id"], len(fired["dropped_ms"]), fired["rebalance_timeout_ms"]) == ("slow", 3, 9_000)
    # It comes back each time, under a new member id.
    assert ending.alarms("timeouts") == [
        ("rebalance.timeouts", "ERROR", "firing"),
        ("member.flapping", "WARN", "firing"),
    ]


def test_two_processes_with_one_instance_id(ending: Heard) -> None:
    """Found, but as a member that crashes: the broker writes the first one's client id and host for both."""
    replaced = ending.of("conflict", "static.replaced")
    assert len(replaced) == 3
    assert {(one["old_host"], one["new_host"]) for one in replaced} == {("/127.0.0.1", "/127.0.0.1")}
    assert ending.alarms("conflict") == ending.alarms("crash-loop")
    (fired,) = ending.of("conflict", "static.crash_loop")
    assert (fired["instance_id"], fired["place"]) == ("i", "one@/127.0.0.1")


def test_a_static_member_that_crashes(ending: Heard) -> None:
    """No rebalance, no member that leaves, and yet it is found."""
    (fired,) = ending.of("crash-loop", "static.crash_loop")
    assert (fired["place"], len(fired["restarted_ms"])) == ("crashes@/127.0.0.1", 3)
    assert ending.alarms("crash-loop") == [
        ("member.flapping", "WARN", "firing"),
        ("static.crash_loop", "WARN", "firing"),
    ]
    assert ending.counts("crash-loop")["rebalance.completed"] == 1


def test_a_member_without_work(ending: Heard) -> None:
    """The one of two members that gets no partition."""
    assert ending.alarms("idle") == [("member.idle", "INFO", "firing")]
    (fired,) = ending.of("idle", "member.idle")
    assert fired["client_id"] == "b"


def hanging(world: World, group: str, watch: Watch) -> Story:
    """A producer commits offsets in a transaction that it leaves open for some rounds, and then aborts."""
    member = world.join(group, "a", TOPIC, **CLASSIC)
    yield world.shows(group, "Stable", "a")
    producer = Producer({"bootstrap.servers": world.servers, "transactional.id": group, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    place = TopicPartition(TOPIC, 0, 5)
    producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 30)
    mine = partition_for(group, OFFSETS_PARTITIONS)

    def held_ms() -> int:
        """How long the prober has seen it held."""
        ends = [(one.taken_ms, one.partitions[mine]) for one in watch.rounds() if mine in one.partitions]
        held = [taken_ms for taken_ms, (high, stable) in ends if stable < high]
        return held[-1] - held[0] if held else 0

    yield now_and_then(lambda: held_ms() >= 5_000)
    producer.abort_transaction(30)
    rounds = len(watch.rounds())
    yield now_and_then(lambda: len(watch.rounds()) >= rounds + 3)


def now_and_then(condition: Callable[[], bool]) -> Callable[[], bool]:
    """A condition that is itself work, looked at once a second: the other stories go on meanwhile."""
    looked = [0.0]

    def look() -> bool:
        if time.monotonic() - looked[0] < 1:
            return False
        looked[0] = time.monotonic()
        return condition()

    return look


def test_a_hanging_transaction(ending: Heard) -> None:
    """The partition that it holds, as long as it does: one alarm, resolved when the transaction ends."""
    assert ending.alarms(None) == [("job.blind", "ERROR", "firing"), ("job.blind", "ERROR", "resolved")]
    fired, resolved = ending.of(None, "job.blind")
    assert (fired["what"], fired["partitions"]) == (
        "hanging_transaction",
        [partition_for("hanging", OFFSETS_PARTITIONS)],
    )
    assert fired["condition_id"] == resolved["condition_id"]


def test_what_hides_a_rebalance_neither_ends_nor_restarts_it(
    broker: EmbeddedBroker, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """One round cannot be written down, then the broker does not answer for some: it is one rebalance all the same.

    The probes go to another broker, where the watched one is said to be silent.
    """
    probes, group = unique("probes"), "blocked"
    sink = Cluster(bootstrap_servers=broker.bootstrap_servers)
    ensure_topics(Connection(sink), TopicNames(probes=probes), only=("probes",))
    publisher = Publisher(sink)
    with EmbeddedBroker(offsets_partitions=2) as watched, World(watched.bootstrap_servers, tmp_path) as world:
        source = Connection(Cluster(bootstrap_servers=watched.bootstrap_servers))
        questions = GroupAdmin(source, request_seconds=3.0)
        prober = Prober(questions, cluster_id=source.cluster_id(), clock=now_ms)

        def look(*, lost: bool = False) -> ProbeRound:
            """A round; its answers are only remembered when they were written down."""
            taken = prober.take()
            if not lost:
                publisher.publish(probes, map(encode_message, taken.messages))
                prober.remember(taken)
            return taken

        def seen(state: str, blocker: Consumer | None = None) -> Callable[[], bool]:
            def turn() -> bool:
                joiner.poll(0)
                if blocker is not None:
                    blocker.poll(0)
                return [one.state for one in look().answers] == [state]

            return turn

        world.create(TOPIC, 2)
        blocker = world.join(group, "blocker", TOPIC, **CLASSIC)
        wait_until(lambda: blocker.poll(0.1) or blocker.assignment())
        assert look().answers == ()
        joiner = world.join(group, "joiner", TOPIC, **CLASSIC)
        wait_until(seen("PreparingRebalance"))
        assert [one.state for one in look(lost=True).answers] == ["PreparingRebalance"]
        assert watched.pid is not None
        os.kill(watched.pid, signal.SIGSTOP)
        try:
            silent = [look() for _ in range(3)]
        finally:
            os.kill(watched.pid, signal.SIGCONT)
        assert [one.answers for one in silent] == [()] * 3
        assert all(one.summary.brokers[1] is not None for one in silent)
        wait_until(seen("PreparingRebalance"))
        wait_until(seen("Stable", blocker))
        rules = ("--rule", "rebalance.slow.threshold_ms=1500", "--rule", "rebalance.stuck.threshold_ms=2000")
        heard = Watch(watched.bootstrap_servers, broker.bootstrap_servers, probes).replay(*rules)
    assert heard.alarms(group) == [
        ("rebalance.slow", "WARN", "firing"),
        ("rebalance.stuck", "ERROR", "firing"),
        ("rebalance.slow", "WARN", "resolved"),
        ("rebalance.stuck", "ERROR", "resolved"),
    ]
    (started,) = heard.of(group, "rebalance.started")
    completed = heard.of(group, "rebalance.completed")[-1]
    fired = heard.of(group, "rebalance.stuck")[0]
    assert started["rebalance_id"] == completed["rebalance_id"] == fired["rebalance_id"]
    assert fired["since_ms"] < silent[0].summary.taken_ms
    assert [(one["what"], one["brokers"], one["status"]) for one in heard.of(None, "job.blind")] == [
        ("brokers_silent", [1], "firing"),
        ("brokers_silent", [1], "resolved"),
    ]


def now_ms() -> int:
    """The clock."""
    return time.time_ns() // 1_000_000
