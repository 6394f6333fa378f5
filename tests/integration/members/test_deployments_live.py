"""Usual deployments of real clients on a real broker cause no event of WARN or above with the default thresholds.

All deployments run at the same time on one broker, together with a prober. At the end a replay of the log and the
probes gives the events. The prober writes to another broker, as is recommended for alerting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from groupreplay.app.demo.scenario import Actor, member_command
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.watched import Heard, producing, watching
from support.kafka.live_groups import Condition, Story, World

pytestmark = [pytest.mark.broker, pytest.mark.long]

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
        """Starts pods; the condition is that all pods have partitions."""
        for name in names:
            more = {"group_instance_id": name} if static else {}
            self.running[name] = self._world.join(self._group, name, self._topic, **self._settings, **more)
        return self.are_assigned()

    def stop(self, *names: str) -> Condition:
        """Closes pods; the condition is that the others have partitions."""
        for name in names:
            self._world.leave(self.running.pop(name))
        return self.are_assigned()

    def are_assigned(self) -> Condition:
        """The group is Stable with exactly the running pods, and each has partitions."""
        shown = self._world.shows(self._group, "Stable", *self.running)
        return lambda: shown() and all(one.assignment() for one in self.running.values())


def rolling(world: World, group: str, *, static: bool = False, **settings: object) -> Story:
    """Restarts each of three pods; that of a static member causes no rebalance."""
    pods = Pods(world, group, **settings)
    yield pods.start("a", "b", "c", static=static)
    for name in ("a", "b", "c"):
        stopped = pods.stop(name)
        if not static:
            yield stopped
        yield pods.start(name, static=static)
    pods.stop("a", "b", "c")


def autoscaling(world: World, group: str) -> Story:
    """Scales from 5 to 20 pods and back to 5, in several steps."""
    pods = Pods(world, group, WIDE, **COOPERATIVE)
    yield pods.start(*map(str, range(5)))
    for size in (6, 8, 12, 20):
        yield pods.start(*map(str, range(len(pods.running), size)))
    for size in (17, 11, 5):
        yield pods.stop(*map(str, range(size, len(pods.running))))
    pods.stop(*pods.running)


def killed(world: World, group: str, start: Callable[[], GuardedProcess], **settings: object) -> Story:
    """SIGKILL for one of three pods, which is started again at once with the same client id."""
    pods = Pods(world, group, **settings)
    yield pods.start("a", "b")
    all_three = world.shows(group, "Stable", "a", "b", "k")
    first = start()
    yield all_three
    first.end(0)
    replaced = world.replaced(group, "k")
    second = start()
    # The killed member stays in the group until its session expires.
    yield lambda: replaced() and all_three()
    second.end(5)
    pods.stop("a", "b")


def killed_classic(world: World, group: str) -> Story:
    """In a classic group; the session of the member that is killed is 6 s."""
    command = member_command(world.servers, "k", Actor(group=group, topic=TOPIC))
    return killed(world, group, lambda: world.guarded(f"{group}-k", command), **EAGER)


def killed_modern(world: World, group: str) -> Story:
    """In a group of KIP-848, with the broker's session timeout of 45 s."""
    return killed(world, group, lambda: world.process(group, "k", TOPIC), **MODERN)


def streams(world: World, group: str, protocol: str) -> Story:
    """Two instances of a program are restarted; the second one does not leave the group when it closes.

    Kafka Streams does not leave a classic group on close, so the others wait until its session has expired.
    """
    world.create(f"{group}-in", 4)
    world.create(f"{group}-out", 1)

    def start(client: str) -> None:
        topics, folder = (f"{group}-in", f"{group}-out"), str(world.folder)
        world.members.startStreams(world.servers, group, f"{group}-{client}", *topics, folder, protocol)

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


#: Group -> its type, its story, and the least number of rebalances.
DEPLOYMENTS: dict[str, tuple[str, Callable[[World, str], Story], int]] = {
    "eager": ("consumer", lambda world, group: rolling(world, group, **EAGER), 7),
    "cooperative": ("consumer", lambda world, group: rolling(world, group, **COOPERATIVE), 7),
    "static-eager": ("consumer", lambda world, group: rolling(world, group, static=True, **EAGER), 1),
    "static-cooperative": (
        "consumer",
        lambda world, group: rolling(world, group, static=True, **COOPERATIVE),
        1,
    ),
    "modern": ("consumer", lambda world, group: rolling(world, group, **MODERN), 7),
    "static-modern": ("consumer", lambda world, group: rolling(world, group, static=True, **MODERN), 1),
    "autoscaling": ("consumer", autoscaling, 8),
    "killed": ("consumer", killed_classic, 3),
    "killed-modern": ("consumer", killed_modern, 3),
    "streams": ("streams", lambda world, group: streams(world, group, "streams"), 3),
    "streams-classic": ("consumer", lambda world, group: streams(world, group, "classic"), 3),
}


@pytest.fixture(scope="module")
def ended(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Heard, set[str]]]:
    """The events of all deployments, and the groups that are in the probes."""
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


def test_there_is_no_warning(ended: tuple[Heard, set[str]]) -> None:
    """There is no event of WARN or above about any group or the job itself."""
    assert ended[0].severe() == []


@pytest.mark.parametrize("group", DEPLOYMENTS)
def test_the_rebalances_are_in_the_events(ended: tuple[Heard, set[str]], group: str) -> None:
    """Each group has its rebalances, which shows that the absence of warnings means something."""
    events, _ = ended
    assert events.counts(group)["rebalance.completed"] >= DEPLOYMENTS[group][2]
    # A silent owner is only inferred, and reported as INFO.
    assert {name for name, _, _ in events.alarms(group)} <= {"owner.silent"}


def test_the_prober_saw_groups_that_waited_for_a_session(ended: tuple[Heard, set[str]]) -> None:
    """Classic groups that wait for a session timeout are in the probes."""
    assert {"killed", "streams-classic"} <= ended[1]


def test_a_coordinator_that_moves(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A restart of the broker, followed by a deployment, causes no event of WARN or above about the groups.

    The job itself may report that the only broker was silent.
    """
    with EmbeddedBroker() as watched:
        servers, sink = watched.bootstrap_servers, broker.bootstrap_servers
        probes = "moved-probes"
        with World(servers, tmp_path) as world, watching(servers, tmp_path, sink=sink, topic=probes) as watch:
            world.create(TOPIC, PARTITIONS)
            kinds = {"moved-eager": EAGER, "moved-modern": MODERN}
            pods = {group: Pods(world, group, **settings) for group, settings in kinds.items()}
            world.play({group: ("consumer", begun(one)) for group, one in pods.items()})
            watched.restart()
            world.play({group: ("consumer", restarted(one)) for group, one in pods.items()})
            events = watch.replay()
    for group in kinds:
        assert events.counts(group)["rebalance.completed"] >= 3
        assert events.alarms(group) == []
    assert {(group, name) for group, name, _ in events.severe()} <= {(None, "job.blind")}
    assert {one["what"] for one in events.of(None, "job.blind")} <= {"brokers_silent"}


def begun(pods: Pods) -> Story:
    """Starts three pods."""
    yield pods.start("a", "b", "c")


def restarted(pods: Pods) -> Story:
    """All pods still have partitions; then one is restarted."""
    yield pods.are_assigned()
    yield pods.stop("a")
    yield pods.start("a")
