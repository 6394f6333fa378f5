"""What is done to groups of real clients, by a broker's administrator or by the processes themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from groupreplay.state import OFFSETS_TOPIC
from support.diagnosed.stage import (
    BUSY_TOPIC,
    DOOMED_TOPIC,
    LIFE_SECONDS,
    QUIET_TOPIC,
    TOPIC,
    Play,
    PlayedGroup,
    Stage,
)
from support.kafka.clients import set_configs
from support.kafka.waiting import wait_until

KIP_848: Final[dict[str, Any]] = {"group_protocol": "consumer"}


def three(stage: Stage, group: str, library: str = "librdkafka", **settings: Any) -> PlayedGroup:
    """Members a, b and c, which work."""
    members = stage.group(group, library, **settings)
    members.start(*(f"{group}-{name}" for name in "abc"))
    members.lives(3)
    return members


def lost(how: str, library: str = "librdkafka", **settings: Any) -> Play:
    """Member c is killed or frozen until the coordinator has removed it."""

    def play(stage: Stage, group: str) -> None:
        members = three(stage, group, library, **settings)
        (members.kill if how == "kill" else members.freeze)(f"{group}-c")
        members.lives(2)

    return play


def slow_poll(stage: Stage, group: str) -> None:
    """Member c polls no more, and its client gives up."""
    members = three(stage, group, max_poll_interval_ms=60_000)
    members.do("hang", f"{group}-c")
    members.lives(2)


def silent(stage: Stage, group: str) -> None:
    """Member c hangs; a minute later another one joins."""
    members = three(stage, group, max_poll_interval_ms=180_000)
    members.do("hang", f"{group}-c")
    time.sleep(60)
    members.start(f"{group}-d")
    members.lives(3)


def blocked(stage: Stage, group: str) -> None:
    """Member c does not return from its revocation callback when another one joins."""
    members = three(stage, group, max_poll_interval_ms=100_000)
    members.do("block", f"{group}-c")
    members.start(f"{group}-d")
    members.lives(3)


def crash_loop(stage: Stage, group: str) -> None:
    """Member c is killed and started again, five times."""
    members = three(stage, group, session_timeout_ms=6_000)
    for _ in range(5):
        members.kill(f"{group}-c")
        members.is_now(2)
        members.start(f"{group}-c")
        members.lives(3, 8)


def static_crash_loop(stage: Stage, group: str) -> None:
    """A static member is killed and started again before its session ends, five times."""
    members = stage.group(group)
    for name in "abc":
        members.start(f"{group}-{name}", group_instance_id=f"{group}-i{name}")
    members.lives(3)
    for _ in range(5):
        members.kill(f"{group}-c")
        members.start(f"{group}-c", group_instance_id=f"{group}-ic")
        time.sleep(15)
    members.lives(3)


def shared_instance(stage: Stage, group: str) -> None:
    """Two processes with one instance id fence each other, and are started again.

    They commit so often that about each fourth takeover comes sooner after a commit than a process starts: with rarer
    commits a play would show only now and then that the former process had worked.
    """
    members = stage.group(group, auto_commit_interval_ms=200)
    members.start(f"{group}-a", topic=BUSY_TOPIC)
    for name in "bc" * 12:
        process = f"{group}-{name}"
        if process in members.hosts:
            # The coordinator has fenced it; its supervisor starts it again.
            members.kill(process)
        members.start(process, topic=BUSY_TOPIC, group_instance_id=f"{group}-i")
        members.lives(2, 4)


def refused_instance(stage: Stage, group: str) -> None:
    """The coordinator refuses a second KIP-848 process with the same instance id, as often as it is started."""
    members = stage.group(group, **KIP_848)
    members.start(f"{group}-a")
    for name in "bccc":
        members.start(f"{group}-{name}", group_instance_id=f"{group}-i")
        members.lives(2, 12)


def static_restarts(times: int, **settings: Any) -> Play:
    """A static member is closed and started again, so often; the others stay."""

    def play(stage: Stage, group: str) -> None:
        members = stage.group(group, **settings)
        for name in "abc":
            members.start(f"{group}-{name}", group_instance_id=f"{group}-i{name}")
        members.lives(3)
        for _ in range(times):
            members.do("close", f"{group}-c")
            time.sleep(2)
            members.start(f"{group}-c", group_instance_id=f"{group}-ic")
            members.lives(3, 8)
        members.lives(3)

    return play


def rolling(**settings: Any) -> Play:
    """Each member is restarted after the other."""

    def play(stage: Stage, group: str) -> None:
        members = three(stage, group, **settings)
        for name in "abc":
            members.do("close", f"{group}-{name}")
            members.is_now(2)
            members.start(f"{group}-{name}")
            members.lives(3, 8)
        members.lives(3)

    return play


def offsets_set(stage: Stage, group: str) -> None:
    """An administrator sets the offsets back while the group is empty."""
    members = three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    members.set_offsets(3)
    members.start(*members.hosts)
    members.lives(3)


def topic_deleted(stage: Stage, group: str) -> None:
    """An administrator deletes the topic of member b."""
    members = stage.group(group)
    members.start(f"{group}-a")
    members.start(f"{group}-b", topic=DOOMED_TOPIC)
    members.lives(2)
    stage.is_doomed.set()
    stage.admin.delete_topics([DOOMED_TOPIC])[DOOMED_TOPIC].result(60)
    members.lives(2)


def group_deleted(stage: Stage, group: str) -> None:
    """An administrator deletes the group between two lives."""
    members = three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    members.delete()
    members.start(*members.hosts)
    members.lives(3)


def not_revoked(stage: Stage, group: str) -> None:
    """A KIP-848 member keeps the partitions that another one is to have."""
    members = stage.group(group, **KIP_848)
    members.stubborn(f"{group}-a", 150_000)
    members.lives(1)
    members.start(f"{group}-b")
    # Until the coordinator gives up, and then some.
    members.lives(1)


def refused_pattern(stage: Stage, group: str) -> None:
    """The coordinator refuses the regular expression of a third member: RE2 repeats a thousand times at most."""
    members = stage.group(group, **KIP_848)
    members.start(f"{group}-a", f"{group}-b")
    members.lives(2)
    members.start(f"{group}-c", topic="^o{1,1500}rders")
    time.sleep(LIFE_SECONDS)
    members.is_now(2)


def slow_leader(stage: Stage, group: str) -> None:
    """The leader's assignor sleeps for twelve seconds."""
    leader, a, b = stage.sleepy_leader(), f"{group}-a", f"{group}-b"
    leader.join(stage.servers, group, a, "orders", 120_000)
    wait_until(lambda: leader.owned(a) == 6, 120)
    time.sleep(LIFE_SECONDS)
    leader.sleep(12_000)
    leader.join(stage.servers, group, b, "orders", 120_000)
    wait_until(lambda: (leader.owned(a), leader.owned(b)) == (3, 3), 120)
    time.sleep(LIFE_SECONDS)


def nobody_commits(stage: Stage, group: str) -> None:
    """The only member hangs for longer than its group ever paused."""
    members = stage.group(group, "java")
    members.start(f"{group}-a", topic=QUIET_TOPIC)
    members.lives(1, 60)
    members.do("hang", f"{group}-a")
    time.sleep(170)


def quiet(stage: Stage, group: str) -> None:
    """Nothing is new in the topic."""
    members = stage.group(group)
    members.start(f"{group}-a", f"{group}-b", topic=QUIET_TOPIC)
    members.lives(2, 150)


def scaled(stage: Stage, group: str) -> None:
    """One member more, then two less."""
    members = three(stage, group)
    members.start(f"{group}-d")
    members.lives(4)
    members.do("close", f"{group}-d", f"{group}-b")
    members.lives(2)


def deployed(stage: Stage, group: str) -> None:
    """All members end, then all start."""
    members = three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    members.start(*members.hosts)
    members.lives(3)


def expired(stage: Stage, group: str) -> None:
    """All members end until the offsets have expired."""
    members = three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    wait_until(lambda: not members.has_offsets(), 300, pause=2.0)
    members.start(*members.hosts)
    members.lives(3)


def unwritable(stage: Stage, group: str) -> None:
    """A member is restarted while no generation can be written."""
    members = three(stage, group)
    with small_records(stage.servers):
        members.kill(f"{group}-c")
        members.start(f"{group}-c")
        time.sleep(180)
    members.lives(3)


def left_open(seconds: float) -> Play:
    """A producer commits in transactions; it leaves one of them open for so long, and aborts it."""

    def play(stage: Stage, group: str) -> None:
        settings = {"bootstrap.servers": stage.servers, "log_level": 0}
        consumer = Consumer({**settings, "group.id": group})
        producer = Producer({**settings, "transactional.id": group, "transaction.timeout.ms": 600_000})
        producer.init_transactions(60)
        for offset in range(20):
            producer.begin_transaction()
            places = [TopicPartition(TOPIC, 0, offset)]
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 60)
            if offset == 10:
                time.sleep(seconds)
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
            time.sleep(2)
        consumer.close()

    return play


@contextmanager
def small_records(servers: str) -> Iterator[None]:
    """The coordinator can write commits, and no generation: its record is too large for the offsets topic.

    Too few replicas cannot be had with one broker: Kafka 4 asks for no more than a partition has (KIP-966).
    """
    largest = "max.message.bytes"
    set_configs(servers, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], {largest: 450})
    try:
        yield
    finally:
        set_configs(servers, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], {largest: 1_048_588})
