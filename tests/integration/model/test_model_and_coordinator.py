"""The coordinator model and Kafka's own coordinators do the same in virtual time, in random scripts.

Every step is compared: answers, records in their order, and timers with their deadlines. Of Kafka 3.9's coordinator,
which is written in Scala and has no such timers, answers and records with their times.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.consumer.subscriptions import xxh3
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Commit,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    Error,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Settings,
    SyncGroup,
)
from groupreplay.streaming.local.jars import jar_paths
from support.kafka.kafka_classes import compiled
from support.model.classic_clients import joining, owning, subscription
from support.model.coordinator_pair import CoordinatorPair
from support.model.kafka_coordinator import GROUP, KafkaCoordinator, kafka_coordinator, scala_coordinator
from support.model.random_scripts import KINDS, RandomScript, make_script
from support.service.bold_scripts import make_bold_script

pytestmark = pytest.mark.broker

#: Scripts of each kind that are always run, and those that the long form runs.
FEW, MANY = range(5), range(5, 400)
#: Scripts of ordinary clients, and those with what clients and administrators do rarely.
MAKERS = pytest.mark.parametrize("make", [make_script, make_bold_script])
_HASH = """
public class Hash {
    public long of(byte[] data) { return com.dynatrace.hash4j.hashing.Hashing.xxh3_64().hashBytesToLong(data); }
}
"""


def written(
    *,
    version: int = 3,
    protocol: str | None = "range",
    leader: str | None = "m",
    members: tuple[MemberMetadata, ...] | None = None,
) -> GroupMetadataValue:
    """A record of a group at second 1, by default of one member that subscribes to topic t."""
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=-1 if version == 0 else 70_000,
        session_timeout_ms=50_000,
        subscription=subscription("t"),
        assignment=b"",
    )
    return GroupMetadataValue(
        version=version,
        protocol_type="consumer",
        generation=4,
        protocol=protocol,
        leader=leader,
        current_state_timestamp_ms=1_000 if version > 1 else -1,
        members=(member,) if members is None else members,
    )


def commit_of(expiry_ms: int | None) -> OffsetCommitValue:
    """A commit at second 0; the version with an expiry unless that is None."""
    return OffsetCommitValue(
        version=3 if expiry_ms is None else 1,
        offset=7,
        metadata="",
        commit_timestamp_ms=0,
        expire_timestamp_ms=-1 if expiry_ms is None else expiry_ms,
    )


@pytest.fixture(scope="module")
def coordinator() -> Iterator[KafkaCoordinator]:
    """One JVM for all scripts."""
    with kafka_coordinator("4.3.1") as running:
        yield running


@pytest.fixture(scope="module")
def newer_coordinator() -> Iterator[KafkaCoordinator]:
    """That of Kafka 4.4, which the model is with ``since_4_4``."""
    with kafka_coordinator("4.4.0") as running:
        yield running


@pytest.fixture(scope="module")
def older_coordinator() -> Iterator[KafkaCoordinator]:
    """That of Kafka 3.9 for classic groups."""
    with scala_coordinator() as running:
        yield running


def check(
    kafka: KafkaCoordinator,
    kind: str,
    seeds: range,
    *,
    make: Callable[..., RandomScript] = make_script,
    scala: bool = False,
) -> None:
    """Run the scripts of these seeds; the message names the first one that differs."""
    for seed in seeds:
        try:
            make(kafka, kind, seed, scala=scala).run()
        except AssertionError as error:
            raise AssertionError(f"{kind} script {seed} of {make.__name__}: {error}") from error


@MAKERS
@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts(kind: str, make: Callable[..., RandomScript], coordinator: KafkaCoordinator) -> None:
    """Classic, KIP-848 and mixed groups."""
    check(coordinator, kind, FEW, make=make)


@MAKERS
@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts_of_the_newer_coordinator(
    kind: str, make: Callable[..., RandomScript], newer_coordinator: KafkaCoordinator
) -> None:
    """The same of Kafka 4.4."""
    check(newer_coordinator, kind, FEW, make=make)


@MAKERS
@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_scripts_of_the_newer_coordinator(
    kind: str, make: Callable[..., RandomScript], newer_coordinator: KafkaCoordinator
) -> None:
    """More than two thousand other seeds of Kafka 4.4."""
    check(newer_coordinator, kind, MANY, make=make)


@MAKERS
def test_random_scripts_of_the_older_coordinator(
    make: Callable[..., RandomScript], older_coordinator: KafkaCoordinator
) -> None:
    """Classic groups with ``--scala``, with transactions and moves as of the newer one."""
    check(older_coordinator, "classic", FEW, make=make, scala=True)


@MAKERS
@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_many_random_scripts_of_the_older_coordinator(
    make: Callable[..., RandomScript], older_coordinator: KafkaCoordinator
) -> None:
    """More than a thousand of other seeds."""
    check(older_coordinator, "classic", range(FEW.stop, 3 * MANY.stop), make=make, scala=True)


@MAKERS
@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_scripts(
    kind: str,
    make: Callable[..., RandomScript],
    coordinator: KafkaCoordinator,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """More than a thousand of other seeds."""
    with capsys.disabled():
        sys.stdout.write(f"\n{kind} scripts {MANY.start} to {MANY.stop - 1} of {make.__name__}\n")
    check(coordinator, kind, MANY, make=make)


#: Records that only an old broker, or none, has written: the group's value, and whether its offsets expire.
_LOADED = {
    "members without a protocol": (written(protocol=None), False),
    "members": (written(), True),
    "no members, without a time": (written(version=1, members=(), protocol=None, leader=None), True),
    "members with one timeout": (written(version=0), True),
}


@pytest.mark.parametrize("name", _LOADED)
@pytest.mark.parametrize("scala", [False, True])
def test_records_of_others(name: str, scala: bool, request: pytest.FixtureRequest) -> None:
    """A group that is loaded: which of its offsets expire, and when its member has to be back.

    The first offset is of a topic to which nobody subscribes, the others have an expiry of their own, long ago or in
    the year 1969; -1 is none.
    """
    kafka = request.getfixturevalue("older_coordinator" if scala else "coordinator")
    value, expires = _LOADED[name]
    pair = CoordinatorPair(kafka, 0, Settings(retention_ms=60_000, scala=scala), {})
    expiries = (None, 500, -5_000_000, -1)
    for partition, expiry_ms in enumerate(expiries):
        pair.put(OffsetCommitKey(group=GROUP, topic="u", partition=partition), commit_of(expiry_ms))
    pair.put(GroupMetadataKey(group=GROUP), value)
    pair.move()
    for _ in range(2):
        pair.clean_up()
        pair.compare_offsets()
        assert bool({1, 2} & {place[1] for place in pair.model.offsets.committed}) != expires
        pair.wait(20_000)
    for _ in range(4):
        # The session of the member ends before the retention does.
        pair.wait(20_000)
        pair.clean_up()
        pair.compare_offsets()


def test_requests_without_the_older_coordinator(older_coordinator: KafkaCoordinator) -> None:
    """While nobody leads the partition, and while it is loaded: a JoinGroup is refused with its member id."""
    pair = CoordinatorPair(older_coordinator, 0, Settings(initial_rebalance_delay_ms=0, scala=True), {})
    joined = pair.send(joining("a", instance_id="i"))
    pair.wait(1_000)
    member_id = pair.answers[joined].member_id
    requests = (
        joining("a", member_id),
        joining("a", member_id, session_timeout_ms=1),
        SyncGroup(member_id=member_id, generation=1),
        ClassicHeartbeat(member_id=member_id, generation=1),
        LeaveGroup.of(member_id=member_id),
        OffsetCommit(commits=(Commit(topic="t", partition=0, offset=1),)),
        OffsetCommit(commits=(Commit(topic="t", partition=0, offset=1),), producer_id=5),
        DeleteGroup(),
        OffsetDelete((("t", 0),)),
    )
    for change, error in (
        (pair.resign, Error.NOT_COORDINATOR),
        (pair.begin_loading, Error.COORDINATOR_LOAD_IN_PROGRESS),
    ):
        change()
        numbers = [pair.send(replace(request)) for request in requests]
        assert pair.answers[numbers[0]] == Answer(error=error, member_id=member_id)


def entering(*topics: str) -> ConsumerGroupHeartbeat:
    """A member of the consumer protocol joins."""
    return ConsumerGroupHeartbeat(
        member_id="n",
        member_epoch=0,
        client_id="n",
        client_host="/10.0.0.1",
        rebalance_timeout_ms=30_000,
        topics=topics or ("t",),
        owned=frozenset(),
    )


def test_a_classic_leader_that_has_assigned_what_is_not_there(coordinator: KafkaCoordinator) -> None:
    """Kafka upgrades the group, and fails where an assignor looks at the partition: nobody can join any more."""
    settings = Settings(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
    topics = {name: Topic(name.encode() * 16, 3) for name in "tu"}
    pair = CoordinatorPair(coordinator, 0, settings, topics)
    joined = pair.send(joining("a", instance_id="i"))
    pair.wait(1_000)
    member_id = pair.answers[joined].member_id
    shares = ((member_id, owning("t", 9)),)
    pair.send(SyncGroup(member_id=member_id, instance_id="i", generation=1, assignments=shares))
    refused = pair.send(entering("u"))
    assert pair.answers[refused].error is Error.UNKNOWN_SERVER_ERROR
    assert isinstance(pair.model.group, ClassicGroup)
    pair.send(ClassicHeartbeat(member_id=member_id, instance_id="i", generation=1))
    pair.send(replace(entering("u"), member_id="m"))
    pair.move()
    pair.wait(60_000)


def test_a_timer_that_meets_the_next_group(coordinator: KafkaCoordinator) -> None:
    """A group without members is upgraded in its first rebalance, and replaced: its timer raises the generation."""
    settings = Settings(migration_policy="bidirectional", consumer_assignment_interval_ms=0)
    pair = CoordinatorPair(coordinator, 0, settings, {})
    first = joining("a", instance_id="i")
    pair.send(first)
    pair.send(LeaveGroup.of(instance_id="i"))
    living = entering()
    pair.send(living)
    pair.send(replace(living, member_epoch=-1))
    pair.send(joining("b"))
    pair.wait(3_000)
    assert isinstance(pair.model.group, ClassicGroup)
    assert (pair.model.state, pair.model.group.generation) == (Phase.EMPTY, 1)
    pair.send(joining("c", instance_id="j"))
    pair.wait(10_000)


def test_the_hash_of_topics() -> None:
    """XXH3 of bytes of any length, as the library in Kafka has it."""
    numbers = random.Random(0)
    with compiled(jar_paths("broker-4.3.1"), _HASH, "Hash") as theirs:
        for size in (*range(300), 1_024, 1_025, 1_088, 1_089, 2_049, 3_000):
            data = numbers.randbytes(size)
            assert xxh3(data) == theirs.of(bytearray(data)) & 2**64 - 1, f"of {size} bytes"
