"""Conditions of real clients on a real broker: each is detected with its severity, and no other one fires.

All groups misbehave at the same time, each in another way, while a prober runs; a replay of the log and the probes
gives the events. Thresholds are the defaults, except times that are too long for a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition

from groupreplay.app.demo.scenario import Actor, member_command
from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.watched import Heard, Watch, watching
from support.kafka.clients import new_consumer, open_transaction
from support.kafka.live_groups import CLASSIC, Story, World
from support.kafka.polled_members import ignore
from support.kafka.waiting import seldom

pytestmark = [pytest.mark.broker, pytest.mark.long]

TOPIC, OTHER, NARROW = "orders", "payments", "narrow"
#: A group's rebalance timeout is the longest of its members'.
QUICK = {**CLASSIC, "session_timeout_ms": 6_000, "max_poll_interval_ms": 9_000}
OFFSETS_PARTITIONS = 8

#: Shorter times for the test; all other thresholds keep their defaults.
RULES = """
[job.blind]
threshold_ms = 3000

[transaction.hanging]
threshold_ms = 1000

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


class Flipping:
    """A member that changes its subscription: each time the group rebalances without another change."""

    def __init__(self, world: World, group: str) -> None:
        self._consumer = world.join(group, "flips", TOPIC, **CLASSIC)
        self._wanted = [TOPIC]

    def flip(self) -> Callable[[], bool]:
        """Changes the subscription; the condition is that the new topics are assigned."""
        self._wanted = [TOPIC] if len(self._wanted) == 2 else [TOPIC, OTHER]
        self._consumer.subscribe(self._wanted)
        return self.is_assigned

    def is_assigned(self) -> bool:
        """Whether partitions of all subscribed topics are assigned."""
        return {one.topic for one in self._consumer.assignment()} == set(self._wanted)

    def commit(self) -> None:
        self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)


def storm(world: World, group: str) -> Story:
    """Fourteen rebalances without a member that joins or leaves."""
    member = Flipping(world, group)
    yield member.is_assigned
    for _ in range(14):
        yield member.flip()


def storm_worse(world: World, group: str) -> Story:
    """Rebalances for three windows, during which no committed offset advances."""
    member = Flipping(world, group)
    yield member.is_assigned
    member.commit()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        yield member.flip()


def flapping(world: World, group: str) -> Story:
    """One of two members leaves and returns three times."""
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
    """A member exceeds its rebalance timeout whenever another one joins, and is removed three times."""
    settings = {name: value for name, value in QUICK.items() if name != "protocol"}
    slow = new_consumer(world.servers, group, client_id="slow", **settings)
    world.exit.callback(slow.close)
    slow.subscribe([TOPIC], on_assign=ignore, on_revoke=ignore)

    def polled(name: str) -> Callable[[], object]:
        shown = world.shows(group, "Stable", *([name, "slow"] if name else ["slow"]))

        def is_stable() -> bool:
            slow.poll(0)
            return shown() and bool(slow.assignment())

        return is_stable

    yield polled("")
    for number in range(3):
        quick = world.join(group, f"quick-{number}", TOPIC, **QUICK)
        # The slow member does not poll until the broker has completed the rebalance without it.
        yield world.shows(group, "Stable", f"quick-{number}")
        yield polled(f"quick-{number}")
        world.leave(quick)
        yield polled("")


def static_process(world: World, group: str, name: str, number: int) -> GuardedProcess:
    """A process with the same instance id for all of its group; no session expires during the test."""
    actor = Actor(group=group, topic=TOPIC, instance_id="i", session_timeout_ms=45_000)
    return world.guarded(f"{group}-{number}", member_command(world.servers, name, actor))


def conflict(world: World, group: str) -> Story:
    """Two processes with the same instance id fence each other, and each is started again."""
    last = static_process(world, group, "one", 0)
    yield world.shows(group, "Stable", "one")
    for number, name in enumerate(("two", "one", "two"), 1):
        # The broker keeps the previous member's client id for the new member.
        replaced = world.replaced(group, "one")
        taking = static_process(world, group, name, number)
        yield replaced
        # The previous member is fenced, and its process ends.
        last.end(0)
        last = taking


def crash_loop(world: World, group: str) -> Story:
    """A static member crashes three times and is started again with its instance id."""
    crashing = static_process(world, group, "crashes", 0)
    yield world.shows(group, "Stable", "crashes")
    for number in range(1, 4):
        crashing.end(0)
        replaced = world.replaced(group, "crashes")
        crashing = static_process(world, group, "crashes", number)
        yield replaced


def idle(world: World, group: str) -> Story:
    """One partition for two members; a third one joins and leaves, which causes rebalances."""
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
    """Runs all stories at once, and an open transaction."""
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
    """Rebalances without a change are a warning."""
    (fired,) = ending.of("storm", "rebalance.storm")
    assert ending.alarms("storm") == [("rebalance.storm", "WARN", "firing")]
    # It fires at the first generation beyond ten that the only member's join does not explain.
    assert (fired["slots_changed"], fired["generations"]) == (1, 11)


def test_a_storm_that_continues(ending: Heard) -> None:
    """After three windows without progress of commits it becomes an error, which is resolved at most once."""
    first, second, *rest = ending.alarms("storm-worse")
    assert [first, second] == [("rebalance.storm", "WARN", "firing"), ("rebalance.storm", "ERROR", "firing")]
    assert rest in ([], [("rebalance.storm", "ERROR", "resolved")])


def test_a_member_that_leaves_and_returns(ending: Heard) -> None:
    """The condition names the slot that returned three times, not the one that stayed."""
    assert ending.alarms("flapping") == [("member.flapping", "WARN", "firing")]
    (fired,) = ending.of("flapping", "member.flapping")
    assert (fired["client_id"], len(fired["returned_ms"])) == ("flaps", 3)


def test_a_member_that_is_removed_repeatedly(ending: Heard) -> None:
    """Three removals at the rebalance timeout are an error, although no rebalance is long enough to be slow."""
    left = [one for one in ending.of("timeouts", "member.left") if one["client_id"] == "slow"]
    # Its client gives up in the same seconds in which the coordinator's timer ends.
    assert len(left) == 3
    assert {one["reason"] for one in left} <= {"poll_timeout", "rebalance_timeout", "unknown"}
    (fired,) = ending.of("timeouts", "rebalance.timeouts")
    assert (fired["client_id"], len(fired["dropped_ms"]), fired["rebalance_timeout_ms"]) == ("slow", 3, 9_000)
    # The member returns each time with a new member id, and it may have been the leader.
    alarms = [alarm for alarm in ending.alarms("timeouts") if alarm[0] != "leader.flapping"]
    assert alarms == [
        ("rebalance.timeouts", "ERROR", "firing"),
        ("member.flapping", "WARN", "firing"),
    ]


def test_two_processes_with_one_instance_id(ending: Heard) -> None:
    """They look like a crashing member, because the broker writes the first process's client id and host for both."""
    # The same event is emitted once a minute.
    replaced = ending.of("conflict", "static.replaced")
    assert {(one["old_host"], one["new_host"]) for one in replaced} == {("/127.0.0.1", "/127.0.0.1")}
    assert ending.alarms("conflict") == ending.alarms("crash-loop")
    (fired,) = ending.of("conflict", "static.crash_loop")
    assert (fired["instance_id"], fired["place"], len(fired["restarted_ms"])) == ("i", "one@/127.0.0.1", 3)


def test_a_static_member_that_crashes(ending: Heard) -> None:
    """A crash loop of a static member is detected although no rebalance happens and no member leaves."""
    (fired,) = ending.of("crash-loop", "static.crash_loop")
    assert (fired["place"], len(fired["restarted_ms"])) == ("crashes@/127.0.0.1", 3)
    assert ending.alarms("crash-loop") == [
        ("member.flapping", "WARN", "firing"),
        ("static.crash_loop", "WARN", "firing"),
    ]
    assert ending.counts("crash-loop")["rebalance.completed"] == 1


def test_an_idle_member(ending: Heard) -> None:
    """The condition names the member without partitions."""
    assert ending.alarms("idle") == [("member.idle", "INFO", "firing")]
    (fired,) = ending.of("idle", "member.idle")
    assert fired["client_id"] == "b"


def hanging(world: World, group: str, watch: Watch) -> Story:
    """A producer commits offsets in a transaction, leaves it open for some rounds of the prober, and aborts it."""
    member = world.join(group, "a", TOPIC, **CLASSIC)
    yield world.shows(group, "Stable", "a")
    producer = open_transaction(world.servers, group, member, TopicPartition(TOPIC, 0, 5))
    mine = partition_for(group, OFFSETS_PARTITIONS)

    def held_ms() -> int:
        """How long the prober has seen the partition held by the transaction."""
        ends = [(one.taken_ms, one.partitions[mine]) for one in watch.rounds() if mine in one.partitions]
        held = [taken_ms for taken_ms, (high, stable) in ends if stable < high]
        return held[-1] - held[0] if held else 0

    yield seldom(lambda: held_ms() >= 5_000, 1)
    producer.abort_transaction(30)
    rounds = len(watch.rounds())
    yield seldom(lambda: len(watch.rounds()) >= rounds + 3, 1)


def test_a_hanging_transaction(ending: Heard) -> None:
    """``job.blind`` fires for the partition and is resolved when the transaction ends."""
    assert ending.alarms(None) == [("job.blind", "ERROR", "firing"), ("job.blind", "ERROR", "resolved")]
    fired, resolved = ending.of(None, "job.blind")
    assert (fired["what"], fired["partitions"]) == (
        "hanging_transaction",
        [partition_for("hanging", OFFSETS_PARTITIONS)],
    )
    assert fired["condition_id"] == resolved["condition_id"]
    (transaction,) = fired["transactions"]
    assert (transaction["partition"], transaction["groups"]) == (fired["partitions"][0], ["hanging"])
    # The group that waits is told of the same transaction.
    alarms = [alarm for alarm in ending.alarms("hanging") if alarm[0] == "transaction.hanging"]
    assert [status for *_, status in alarms] == ["firing", "resolved"]
    begun, ended = ending.of("hanging", "transaction.hanging")
    assert begun["condition_id"] == ended["condition_id"]
    names = ("producer_id", "producer_epoch", "first_offset")
    assert [begun[name] for name in names] == [transaction[name] for name in names]
    assert (begun["partitions"], begun["log_partition"]) == ({TOPIC: "0"}, fired["partitions"][0])
