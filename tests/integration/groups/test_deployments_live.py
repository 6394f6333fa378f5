"""What operators do every day, with real clients on a real broker: nothing of WARN or above, with the defaults.

All deployments go on at the same time on one broker, with a prober beside them. At the end a replay of the log and
the probes says what the job would have said. The prober writes to another broker, as those do who want to be alarmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from groupreplay.streaming.demo.scenario import Actor, member_command
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.watched import Heard, producing, watching
from support.kafka.live_groups import Condition, Story, World

if TYPE_CHECKING:
    from groupreplay.streaming.local.process_guard import GuardedProcess

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900)]

TOPIC, WIDE = "orders", "wide"
PARTITIONS, WIDE_PARTITIONS = 6, 20
WORKING = {
    "reconnect_backoff_ms": 1_000,
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 500,
    "auto_offset_reset": "earliest",
}
CLASSIC = {"protocol": "classic", "heartbeat_interval_ms": 500, **WORKING}
EAGER = {**CLASSIC, "partition_assignment_strategy": "range"}
COOPERATIVE = {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"}
MODERN = {"protocol": "consumer", **WORKING}


class Pods:
    """The consumers of one group, by client id."""

    def __init__(self, world: World, group: str, topic: str = TOPIC, **settings: object) -> None:
        self._world, self._group, self._topic, self._settings = world, group, topic, settings
        self.running: dict[str, Consumer] = {}

    def start(self, *names: str, static: bool = False) -> Condition:
        """More of them; the condition is that all are at work."""
        for name in names:
            more = {"group_instance_id": name} if static else {}
            self.running[name] = self._world.join(self._group, name, self._topic, **self._settings, **more)
        return self.at_work()

    def stop(self, *names: str) -> Condition:
        """Some end in an orderly way; the condition is that the others are at work."""
        for name in names:
            self._world.leave(self.running.pop(name))
        return self.at_work()

    def at_work(self) -> Condition:
        """The group is stable with exactly these members, and each has partitions."""
        shown = self._world.shows(self._group, "Stable", *self.running)
        return lambda: shown() and all(one.assignment() for one in self.running.values())


def rolling(world: World, group: str, **settings: object) -> Story:
    """Each of three pods once."""
    pods = Pods(world, group, **settings)
    yield pods.start("a", "b", "c")
    for name in ("a", "b", "c"):
        yield pods.stop(name)
        yield pods.start(name)
    pods.stop("a", "b", "c")


def static(world: World, group: str, **settings: object) -> Story:
    """The same with instance ids: a pod that is away for a moment is missed by nobody."""
    pods = Pods(world, group, **settings)
    yield pods.start("a", "b", "c", static=True)
    for name in ("a", "b", "c"):
        world.leave(pods.running.pop(name))
        yield pods.start(name, static=True)
    pods.stop("a", "b", "c")


def autoscaling(world: World, group: str) -> Story:
    """5 to 20 and back to 5, in leaps."""
    pods = Pods(world, group, WIDE, **COOPERATIVE)
    yield pods.start(*map(str, range(5)))
    for size in (6, 8, 12, 20):
        yield pods.start(*map(str, range(len(pods.running), size)))
    for size in (17, 11, 5):
        yield pods.stop(*map(str, range(size, len(pods.running))))
    pods.stop(*pods.running)


def killed(world: World, group: str) -> Story:
    """SIGKILL for one of three; the pod is started again at once, under the same name."""
    pods = Pods(world, group, **EAGER)
    yield pods.start("a", "b")
    all_three = world.shows(group, "Stable", "a", "b", "k")
    first = process(world, group, "k")
    yield all_three
    first.end(0)
    replaced = world.replaced(group, "k")
    second = process(world, group, "k")
    # The dead one is still there until its session has run out.
    yield lambda: replaced() and all_three()
    second.end(5)
    pods.stop("a", "b")


def killed_modern(world: World, group: str) -> Story:
    """The same in a group of KIP-848, whose sessions are the broker's 45 s."""
    pods = Pods(world, group, **MODERN)
    yield pods.start("a", "b")
    k = world.process(group, "k", TOPIC)
    yield world.shows(group, "Stable", "a", "b", "k")
    k.end(0)
    all_three, replaced = world.shows(group, "Stable", "a", "b", "k"), world.replaced(group, "k")
    second = world.process(group, "k", TOPIC)
    yield lambda: replaced() and all_three()
    second.end(5)
    pods.stop("a", "b")


def process(world: World, group: str, name: str) -> GuardedProcess:
    """A member of a classic group that can be killed; its session is 6 s."""
    return world.guarded(
        f"{group}-{name}", member_command(world.servers, name, Actor(group=group, topic=TOPIC))
    )


def streams(world: World, group: str, protocol: str) -> Story:
    """Two instances of a program; each is restarted, and the second one does not say that it goes.

    Kafka Streams stays in a classic group when it is closed, so the others wait until its session has run out.
    """
    world.create(f"{group}-in", 4)
    world.create(f"{group}-out", 1)

    def start(client: str) -> None:
        world.members.startStreams(
            world.servers,
            group,
            f"{group}-{client}",
            f"{group}-in",
            f"{group}-out",
            str(world.folder),
            protocol,
        )

    def thread(client: str) -> str:
        return f"{group}-{client}-StreamThread-1-consumer"

    for client in "ab":
        start(client)
    both = world.shows(group, "Stable", thread("a"), thread("b"))
    yield both
    world.members.closeStreams(f"{group}-a")
    yield world.shows(group, "Stable", thread("b"))
    start("a")
    yield both
    world.members.stopStreams(f"{group}-b")
    replaced = world.replaced(group, thread("b"))
    start("b")
    yield lambda: replaced() and both()
    for client in "ab":
        world.members.closeStreams(f"{group}-{client}")


#: Group -> its kind, its story, and how many rebalances it takes at least.
DEPLOYMENTS: dict[str, tuple[str, Callable[[World, str], Story], int]] = {
    "eager": ("consumer", lambda world, group: rolling(world, group, **EAGER), 7),
    "cooperative": ("consumer", lambda world, group: rolling(world, group, **COOPERATIVE), 7),
    "static-eager": ("consumer", lambda world, group: static(world, group, **EAGER), 1),
    "static-cooperative": ("consumer", lambda world, group: static(world, group, **COOPERATIVE), 1),
    "modern": ("consumer", lambda world, group: rolling(world, group, **MODERN), 7),
    "static-modern": ("consumer", lambda world, group: static(world, group, **MODERN), 1),
    "autoscaling": ("consumer", autoscaling, 8),
    "killed": ("consumer", killed, 3),
    "killed-modern": ("consumer", killed_modern, 3),
    "streams": ("streams", lambda world, group: streams(world, group, "streams"), 3),
    "streams-classic": ("consumer", lambda world, group: streams(world, group, "classic"), 3),
}


@pytest.fixture(scope="module")
def ended(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Heard, set[str]]]:
    """What was said of all deployments, and the groups that the prober saw; the session's broker has the probes."""
    folder = tmp_path_factory.mktemp("deployments")
    with EmbeddedBroker() as watched:
        servers, sink = watched.bootstrap_servers, broker.bootstrap_servers
        with World(servers, folder) as world, watching(servers, folder, sink=sink) as watch:
            world.create(TOPIC, PARTITIONS)
            world.create(WIDE, WIDE_PARTITIONS)
            with producing(servers, {TOPIC: PARTITIONS, WIDE: WIDE_PARTITIONS}):
                world.play(
                    {group: (kind, story(world, group)) for group, (kind, story, _) in DEPLOYMENTS.items()}
                )
            yield watch.replay("--member-events"), {group for group in DEPLOYMENTS if watch.answers(group)}


def test_nothing_is_alarming(ended: tuple[Heard, set[str]]) -> None:
    """No event of WARN or above, about any group or the job itself."""
    assert ended[0].severe() == []


@pytest.mark.parametrize("group", DEPLOYMENTS)
def test_the_rebalances_were_seen(ended: tuple[Heard, set[str]], group: str) -> None:
    """Silence means something only where there was something to see."""
    heard, _ = ended
    assert heard.counts(group)["rebalance.completed"] >= DEPLOYMENTS[group][2]
    # That an owner is silent is inferred, and no more than a hint.
    assert {name for name, _, _ in heard.alarms(group)} <= {"owner.silent"}


def test_waiting_for_the_dead_was_seen_by_the_prober(ended: tuple[Heard, set[str]]) -> None:
    """Classic groups that wait for a session to run out are in the probes."""
    assert {"killed", "streams-classic"} <= ended[1]


def test_a_coordinator_that_moves(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A broker is restarted under its groups, which then go on with a deployment: nothing is said of them.

    That the only broker was away may be said of the job itself.
    """
    with EmbeddedBroker(ready_seconds=240) as watched:
        servers, sink = watched.bootstrap_servers, broker.bootstrap_servers
        probes = "moved-probes"
        with World(servers, tmp_path) as world, watching(servers, tmp_path, sink=sink, topic=probes) as watch:
            world.create(TOPIC, PARTITIONS)
            kinds = {"moved-eager": EAGER, "moved-modern": MODERN}
            pods = {group: Pods(world, group, **settings) for group, settings in kinds.items()}
            world.play({group: ("consumer", begun(one)) for group, one in pods.items()})
            watched.restart()
            world.play({group: ("consumer", restarted(one)) for group, one in pods.items()})
            heard = watch.replay()
    for group in kinds:
        assert heard.counts(group)["rebalance.completed"] >= 3
        assert heard.alarms(group) == []
    assert {(group, name) for group, name, _ in heard.severe()} <= {(None, "job.blind")}
    assert {one["what"] for one in heard.of(None, "job.blind")} <= {"brokers_silent"}


def begun(pods: Pods) -> Story:
    """Three pods are at work."""
    yield pods.start("a", "b", "c")


def restarted(pods: Pods) -> Story:
    """They still are, and one of them is restarted."""
    yield pods.at_work()
    yield pods.stop("a")
    yield pods.start("a")
