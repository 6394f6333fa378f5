"""The coordinator model and a real broker give the same records and responses, except ids and times."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import ConfigResource

from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.requests import Error, LeaveGroup, LeavingMember, Protocol, Settings
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.clients import make_topics, set_configs
from support.model.classic_clients import subscription
from support.model.coordinator_lines import broker_lines, trace_lines
from support.model.scripted import ScriptMember, ScriptWorld, differences, members
from support.model.scripted_worlds import BrokerWorld, ModelWorld, OffsetsLog, wait_for_coordinator

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

#: Topic g is used by one script only, which adds partitions.
PARTITIONS = {"t": 3, "u": 2, "g": 1}
OFFSETS_PARTITIONS = 4
SETTINGS = Settings(
    initial_rebalance_delay_ms=0,
    min_session_timeout_ms=1_000,
    max_size=2,
    consumer_max_size=3,
    consumer_assignment_interval_ms=0,
)
OVERRIDES = {
    "group.max.size": SETTINGS.max_size,
    "group.consumer.max.size": SETTINGS.consumer_max_size,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.assignment.interval.ms": 0,
    # A thread in the background would compute the assignment sometimes before and sometimes after the answer.
    "group.consumer.assignor.offload.enable": "false",
}
#: Some of the coordinator's lines that are compared are for debugging.
DEBUG_LINES = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=debug"
Script = Callable[[ScriptWorld], None]


# -- the classic protocol


def told_to_rejoin(world: ScriptWorld, member: ScriptMember, **fields: Any) -> None:
    """Heartbeats until one is answered with a rebalance, in which the member takes part."""
    world.until_told(member, world.beat(member), Error.REBALANCE_IN_PROGRESS)
    world.alone(member, **fields)


def comes_and_goes(world: ScriptWorld) -> None:
    """One member joins, commits and leaves."""
    a = ScriptMember("a")
    world.alone(a)
    world.commit(a, 5, 6)
    world.leave(a)


def two_members(world: ScriptWorld) -> None:
    """A second member joins; the first one leads, then leaves."""
    a, b = members("a", "b")
    world.alone(a)
    world.together(a, b)
    world.leave(a)
    told_to_rejoin(world, b)


def two_leave_together(world: ScriptWorld) -> None:
    """Both members and one that is not there, in one request."""
    a, b = members("a", "b")
    world.alone(a)
    world.together(a, b)
    names = (b.member_id, "nobody", a.member_id)
    world.ask(a, LeaveGroup(members=tuple(LeavingMember(member_id=name) for name in names)))
    world.ask(a, world.beat(a))


def session_expires(world: ScriptWorld) -> None:
    """One of two members sends no heartbeats; the other one remains."""
    a, b = ScriptMember("a"), ScriptMember("b", session_ms=2_000)
    world.alone(a)
    world.together(a, b)
    told_to_rejoin(world, a)


def static_restart(world: ScriptWorld) -> None:
    """A static member rejoins without its member id: the generation stays, the old member id is fenced."""
    a = ScriptMember("a", instance_id="i")
    world.alone(a)
    old = ScriptMember("a", member_id=a.member_id, epoch=a.epoch, instance_id="i")
    world.joined(a, world.join(a, member_id=""))
    world.ask(old, world.beat(old))
    world.commit(old, 7)
    world.alone(old)
    world.ask(a, world.beat(a))


def static_otherwise(world: ScriptWorld) -> None:
    """A static member rejoins with one protocol of two, which causes a rebalance."""
    a = ScriptMember("a", instance_id="i")
    topics = subscription("t")
    world.alone(a, protocols=(Protocol("range", topics), Protocol("sticky", topics)))
    world.alone(a, member_id="", protocols=(Protocol("sticky", topics),))


def deleted(world: ScriptWorld) -> None:
    """A group with members cannot be deleted; an empty group is deleted with its offsets."""
    a = ScriptMember("a")
    world.alone(a)
    world.commit(a, 1)
    world.delete()
    world.leave(a)
    world.delete()
    world.delete()


def refused(world: ScriptWorld) -> None:
    """Full group, no common protocol, unknown member ids, too short sessions, wrong generations."""
    a, b, c = members("a", "b", "c")
    world.joined(c, world.join(c, member_id="c-nobody"))
    world.joined(c, world.join(c, member_id="", session_timeout_ms=500))
    world.alone(a)
    world.together(a, b)
    world.joined(c, world.join(c, member_id=""))
    world.joined(c, world.join(c, member_id="c-nobody"))
    world.leave(b)
    world.until_told(a, world.beat(a), Error.REBALANCE_IN_PROGRESS)
    world.joined(c, world.join(c, member_id="", protocols=(Protocol("sticky", subscription("t")),)))
    world.joined(c, world.join(c, member_id="", protocol_type="connect"))
    world.alone(a)
    world.sync(ScriptMember("a", member_id=a.member_id, epoch=9))
    world.commit(ScriptMember("a", member_id=a.member_id, epoch=9), 1)
    world.leave(c)


def offsets_alone(world: ScriptWorld) -> None:
    """Commits without a member create a group, which a member joins later."""
    world.commit(None, 1, 2)
    world.alone(ScriptMember("a"))
    world.commit(None, 3)


# -- the consumer protocol


def settled(world: ScriptWorld, *group: ScriptMember) -> None:
    """Heartbeats of all members in turn, until the group is stable."""
    for _ in range(4):
        for member in group:
            world.live(member)


def two_consumers(world: ScriptWorld) -> None:
    """The first member revokes partitions for the second one; the second one leaves, then the first."""
    a, b = members("a", "b")
    world.enter(a)
    world.enter(b)
    settled(world, a, b)
    world.go(b)
    settled(world, a)
    world.go(a)
    world.enter(a)


def three_consumers(world: ScriptWorld) -> None:
    """A third member joins, a fourth one is refused; partitions are revoked late."""
    a, b, c = members("a", "b", "c")
    world.enter(a)
    world.enter(b)
    world.live(a, owned=None)
    world.enter(c)
    world.live(b)
    world.enter(ScriptMember("d"))
    settled(world, a, b, c)
    world.go(a)
    settled(world, c, b)


def static_consumer(world: ScriptWorld) -> None:
    """A static member leaves and returns with another id; one that joins before is refused."""
    a, b = ScriptMember("a", instance_id="i"), ScriptMember("b", instance_id="i")
    world.enter(a)
    world.enter(b)
    world.go(a, -2)
    world.enter(b)
    world.live(a)
    world.go(b)


def static_consumer_changed(world: ScriptWorld) -> None:
    """A static member returns with another subscription, next to another member."""
    a, b, c = ScriptMember("a", instance_id="i"), ScriptMember("b"), ScriptMember("c", instance_id="i")
    world.enter(a, assignor="range")
    world.enter(b, assignor="range")
    settled(world, a, b)
    world.go(a, -2)
    # The model has the uniform assignor only for members with equal subscriptions.
    world.enter(c, "t", "u", assignor="range")
    settled(world, b, c)


def never_revokes(world: ScriptWorld) -> None:
    """A member is fenced at its rebalance timeout although its session is alive; then it rejoins."""
    a, b = ScriptMember("a", rebalance_ms=1_500), ScriptMember("b")
    world.enter(a)
    world.enter(b)
    world.live(a)
    world.until_written(4)
    world.live(a)
    world.live(b)
    world.enter(a)


def consumer_expires(world: ScriptWorld) -> None:
    """A silent member is fenced when its session ends."""
    world.enter(ScriptMember("a"))
    world.until_written(4)


def epochs(world: ScriptWorld) -> None:
    """Heartbeats and commits with old, new and previous epochs."""
    a, b = members("a", "b")
    world.enter(a)
    world.commit(a, 1)
    world.enter(b)
    settled(world, a, b)
    for epoch in (1, 2, 9):
        world.live(a, member_epoch=epoch, owned=None)
        world.live(a, member_epoch=epoch)
        world.commit(ScriptMember("a", member_id="a", epoch=epoch), 4)
        world.commit(ScriptMember("a", member_id="a", epoch=epoch), 4, 5, 6)
    world.commit(ScriptMember("x", member_id="x", epoch=3), 4)
    world.commit(None, 4)
    world.live(ScriptMember("x", member_id="x", epoch=3))
    world.live(ScriptMember("x", member_id="x", epoch=-3))
    world.live(ScriptMember("x", member_id="x", epoch=0))
    world.live(a, assignor="mine")


def other_topics(world: ScriptWorld) -> None:
    """A member subscribes to other topics, to one that does not exist, to none; another one selects ``range``."""
    a, b = members("a", "b")
    world.enter(a, assignor="range")
    world.live(a, topics=("t", "u"))
    settled(world, a)
    world.enter(b, "t", "u", assignor="range")
    settled(world, a, b)
    world.live(a, topics=("u",))
    settled(world, a, b)
    world.live(a, topics=("nowhere",))
    settled(world, a, b)
    world.live(b, topics=())
    settled(world, a, b)


def more_partitions(world: ScriptWorld) -> None:
    """A topic gets more partitions, which is a new epoch without a change of members."""
    a, b = members("a", "b")
    world.enter(a, "g")
    world.grow("g", 3)
    world.until_epoch(a, 3)
    world.enter(b, "g")
    settled(world, a, b)


def consumers_deleted(world: ScriptWorld) -> None:
    """A consumer group is deleted only when it is empty; its offsets are deleted first."""
    a = ScriptMember("a")
    world.enter(a)
    world.commit(a, 1, 2)
    world.delete()
    world.go(a)
    world.delete()
    world.live(a)


# -- conversions


def up_and_down(world: ScriptWorld) -> None:
    """A classic group becomes a consumer group, its member follows; the new member leaves, and it is classic again."""
    c, n = members("c", "n")
    world.alone(c)
    world.enter(n)
    for _ in range(3):
        told_to_rejoin(world, c, protocols=(Protocol("range", subscription("t")),))
        world.live(n)
        if world.ask(c, world.beat(c)).error is Error.NONE:
            break
    world.commit(c, 3)
    world.go(n)
    told_to_rejoin(world, c)


def empty_both_ways(world: ScriptWorld) -> None:
    """An empty group is replaced by a group of the other type."""
    c, n = members("c", "n")
    world.alone(c)
    world.leave(c)
    world.enter(n)
    world.go(n)
    world.alone(ScriptMember("d"))


def static_up_and_down(world: ScriptWorld) -> None:
    """The only member, a static one, changes to the other protocol and back."""
    c, n = ScriptMember("c", instance_id="i"), ScriptMember("n", instance_id="i")
    world.alone(c)
    world.enter(n)
    settled(world, n)
    back = ScriptMember("c", instance_id="i")
    world.alone(back)


def classic_comes(world: ScriptWorld) -> None:
    """A classic member joins a consumer group, and leaves it."""
    n, c = members("n", "c")
    world.enter(n)
    world.alone(c)
    world.live(n)
    world.live(n)
    told_to_rejoin(world, c)
    world.commit(c, 9)
    world.leave(c)
    settled(world, n)


SCRIPTS: list[Script] = [
    *(comes_and_goes, two_members, session_expires, static_restart, static_otherwise, deleted, refused),
    *(offsets_alone, two_consumers, three_consumers, static_consumer, static_consumer_changed),
    *(never_revokes, consumer_expires, epochs, other_topics, more_partitions, consumers_deleted),
    *(up_and_down, empty_both_ways, static_up_and_down, classic_comes),
]


#: Scripts that wait for a session timeout; the others must not depend on the machine's speed.
SESSIONS: dict[Script, int] = {consumer_expires: 2_000}


@pytest.fixture(scope="module")
def small() -> Iterator[EmbeddedBroker]:
    """One broker for all scripts, with small limits for members."""
    # The model is of 4.3: brokers of 4.4 write one record more when a consumer group becomes empty.
    with EmbeddedBroker(
        "4.3.1", offsets_partitions=OFFSETS_PARTITIONS, overrides=OVERRIDES, jvm_options=[DEBUG_LINES]
    ) as running:
        yield running


@pytest.fixture(scope="module")
def topics(small: EmbeddedBroker) -> dict[str, Topic]:
    """The topics with their ids on the broker."""
    admin = make_topics(small.bootstrap_servers, PARTITIONS)
    found = {}
    for name, described in admin.describe_topics(TopicCollection(list(PARTITIONS))).items():
        number = described.result(30).topic_id
        bits = (number.get_most_significant_bits(), number.get_least_significant_bits())
        raw = b"".join((one & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big") for one in bits)
        found[name] = Topic(raw, PARTITIONS[name])
    wait_for_coordinator(small.bootstrap_servers, PARTITIONS)
    return found


@pytest.fixture(scope="module")
def offsets(small: EmbeddedBroker) -> Iterator[OffsetsLog]:
    """The broker's offsets topic."""
    log = OffsetsLog(small.bootstrap_servers, OFFSETS_PARTITIONS)
    yield log
    log.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_model_writes_the_same_records(
    script: Script, small: EmbeddedBroker, topics: dict[str, Topic], offsets: OffsetsLog
) -> None:
    """Records in order, responses, the records of each operation, and what the coordinator says of its steps."""
    group = f"{script.__name__}-{uuid.uuid4()}"
    settings = SETTINGS
    if (session_ms := SESSIONS.get(script)) is not None:
        settings = replace(SETTINGS, consumer_session_timeout_ms=session_ms)
        sessions = {
            "consumer.heartbeat.interval.ms": session_ms // 2,
            "consumer.session.timeout.ms": session_ms,
        }
        set_configs(small.bootstrap_servers, ConfigResource.Type.GROUP, [group], sessions)
    broker = BrokerWorld(group, dict(topics), server=small.bootstrap_servers, offsets=offsets)
    script(broker)
    model = ModelWorld(group, dict(topics), other_ids=broker.ids, settings=settings)
    script(model)
    assert differences(model.answers, broker.answers) == ""
    assert differences(model.log(), broker.log()) == ""
    assert model.operations() == broker.operations()
    expected = broker_lines(small.log_path, group, broker.ids)
    assert trace_lines(model.trace, model.ids) == expected
