"""Incidents of known cause that real clients play on a real broker; each row was written before it was first played.

A broker's administrator and clients do what the name says, and nothing else; the same table says what the diagnosis
must name, as ``incidents`` does for simulated groups.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka.admin import ConfigResource

from groupreplay.state import OFFSETS_TOPIC
from support.diagnosed.incidents import Causes
from support.diagnosed.stage import DOOMED_TOPIC, LIFE_SECONDS, QUIET_TOPIC, Play, PlayedGroup, Stage
from support.kafka.clients import set_configs
from support.kafka.waiting import wait_until

_NOBODY: Final = frozenset[str]()
_KIP_848: Final = {"group_protocol": "consumer"}


@dataclass(frozen=True, kw_only=True)
class RealIncident:
    """What is played; ``causes`` and ``ok`` as of ``Incident``. ``broker``: a name of ``recorded.BROKERS``."""

    group: str
    name: str
    clients: str
    play: Play
    causes: Causes = field(default_factory=dict)
    ok: str = ""
    broker: str = "usual"


def _blamed(member: str) -> frozenset[str]:
    return frozenset({member})


def _three(stage: Stage, group: str, library: str = "librdkafka", **settings: object) -> PlayedGroup:
    """Members a, b and c, which work."""
    members = stage.group(group, library, **settings)
    members.start(*(f"{group}-{name}" for name in "abc"))
    members.lives(3)
    return members


def _lost(how: str, library: str = "librdkafka", **settings: object) -> Play:
    """Member c is killed or frozen until the coordinator has removed it."""

    def play(stage: Stage, group: str) -> None:
        members = _three(stage, group, library, **settings)
        (members.kill if how == "kill" else members.freeze)(f"{group}-c")
        members.lives(2)

    return play


def _slow_poll(stage: Stage, group: str) -> None:
    members = _three(stage, group, max_poll_interval_ms=60_000)
    members.do("hang", f"{group}-c")
    members.lives(2)


def _silent(stage: Stage, group: str) -> None:
    members = _three(stage, group, max_poll_interval_ms=180_000)
    members.do("hang", f"{group}-c")
    time.sleep(60)
    members.start(f"{group}-d")
    members.lives(3)


def _blocked(stage: Stage, group: str) -> None:
    members = _three(stage, group, max_poll_interval_ms=100_000)
    members.do("block", f"{group}-c")
    members.start(f"{group}-d")
    members.lives(3)


def _crash_loop(stage: Stage, group: str) -> None:
    members = _three(stage, group, session_timeout_ms=6_000)
    for _ in range(5):
        members.kill(f"{group}-c")
        members.is_now(2)
        members.start(f"{group}-c")
        members.lives(3, 8)


def _static_crash_loop(stage: Stage, group: str) -> None:
    members = stage.group(group)
    for name in "abc":
        members.start(f"{group}-{name}", group_instance_id=f"{group}-i{name}")
    members.lives(3)
    for _ in range(5):
        members.kill(f"{group}-c")
        members.start(f"{group}-c", group_instance_id=f"{group}-ic")
        time.sleep(15)
    members.lives(3)


def _shared_instance(stage: Stage, group: str) -> None:
    members = stage.group(group)
    members.start(f"{group}-a")
    for name in "bcbcb":
        members.start(f"{group}-{name}", group_instance_id=f"{group}-i")
        members.lives(2, 12)
        # The coordinator fences it when the other one comes; its supervisor starts it again.


def _rolling(**settings: object) -> Play:
    def play(stage: Stage, group: str) -> None:
        members = _three(stage, group, **settings)
        for name in "abc":
            members.do("close", f"{group}-{name}")
            members.is_now(2)
            members.start(f"{group}-{name}")
            members.lives(3, 8)
        members.lives(3)

    return play


def _set(stage: Stage, group: str) -> None:
    members = _three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    members.set_offsets(3)
    members.start(*members.hosts)
    members.lives(3)


def _topic_deleted(stage: Stage, group: str) -> None:
    members = stage.group(group)
    members.start(f"{group}-a")
    members.start(f"{group}-b", topic=DOOMED_TOPIC)
    members.lives(2)
    stage.is_doomed.set()
    stage.admin.delete_topics([DOOMED_TOPIC])[DOOMED_TOPIC].result(60)
    members.lives(2)


def _group_deleted(stage: Stage, group: str) -> None:
    members = _three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    members.delete()
    members.start(*members.hosts)
    members.lives(3)


def _not_revoked(stage: Stage, group: str) -> None:
    members = stage.group(group, **_KIP_848)
    members.stubborn(f"{group}-a", 150_000)
    members.lives(1)
    members.start(f"{group}-b")
    # Until the coordinator gives up, and then some.
    members.lives(1)


def _refused_pattern(stage: Stage, group: str) -> None:
    members = stage.group(group, **_KIP_848)
    members.start(f"{group}-a", f"{group}-b")
    members.lives(2)
    members.start(f"{group}-c", topic="^(orders")
    time.sleep(LIFE_SECONDS)
    members.is_now(2)


def _slow_leader(stage: Stage, group: str) -> None:
    leader, a, b = stage.sleepy_leader(), f"{group}-a", f"{group}-b"
    leader.join(stage.servers, group, a, "orders", 120_000)
    wait_until(lambda: leader.owned(a) == 6, 120)
    time.sleep(LIFE_SECONDS)
    leader.sleep(12_000)
    leader.join(stage.servers, group, b, "orders", 120_000)
    wait_until(lambda: (leader.owned(a), leader.owned(b)) == (3, 3), 120)
    time.sleep(LIFE_SECONDS)


def _nobody_commits(stage: Stage, group: str) -> None:
    members = stage.group(group, "java")
    members.start(f"{group}-a", topic=QUIET_TOPIC)
    members.lives(1, 60)
    members.do("hang", f"{group}-a")
    time.sleep(170)


def _quiet(stage: Stage, group: str) -> None:
    members = stage.group(group)
    members.start(f"{group}-a", f"{group}-b", topic=QUIET_TOPIC)
    members.lives(2, 150)


def _scaled(stage: Stage, group: str) -> None:
    members = _three(stage, group)
    members.start(f"{group}-d")
    members.lives(4)
    members.do("close", f"{group}-d", f"{group}-b")
    members.lives(2)


def _deployed(stage: Stage, group: str) -> None:
    members = _three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    members.start(*members.hosts)
    members.lives(3)


def _expired(stage: Stage, group: str) -> None:
    members = _three(stage, group)
    members.do("close", *members.hosts)
    members.is_gone()
    wait_until(lambda: not members.has_offsets(), 300, pause=2.0)
    members.start(*members.hosts)
    members.lives(3)


def _unwritable(stage: Stage, group: str) -> None:
    members = _three(stage, group)
    with _small_records(stage.servers):
        members.kill(f"{group}-c")
        members.start(f"{group}-c")
        time.sleep(180)
    members.lives(3)


@contextmanager
def _small_records(servers: str) -> Iterator[None]:
    """The coordinator can write commits, and no generation: its record is too large for the offsets topic.

    Too few replicas cannot be had with one broker: Kafka 4 asks for no more than a partition has (KIP-966).
    """
    largest = "max.message.bytes"
    set_configs(servers, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], {largest: 450})
    try:
        yield
    finally:
        set_configs(servers, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], {largest: 1_048_588})


REAL_INCIDENTS: Final = (
    RealIncident(
        group="frozen",
        name="a process is frozen (`SIGSTOP`) for longer than its session",
        clients="librdkafka",
        play=_lost("freeze"),
        causes={"process_lost": _blamed("frozen-c")},
    ),
    RealIncident(
        group="frozen-java",
        name="the JVM of a member is frozen",
        clients="Java",
        play=_lost("freeze", "java"),
        causes={"process_lost": _blamed("frozen-java-c")},
    ),
    RealIncident(
        group="killed",
        name="a process is killed (`SIGKILL`)",
        clients="librdkafka",
        play=_lost("kill"),
        causes={"process_lost": _blamed("killed-c")},
    ),
    RealIncident(
        group="killed-848",
        name="a process of a KIP-848 group is killed",
        clients="librdkafka",
        play=_lost("kill", **_KIP_848),
        causes={"process_lost": _blamed("killed-848-c")},
    ),
    RealIncident(
        group="slow-poll",
        name="a member does not call `poll` for `max.poll.interval.ms`",
        clients="librdkafka",
        play=_slow_poll,
        causes={"gave_up": _blamed("slow-poll-c")},
    ),
    RealIncident(
        group="silent",
        name="a member hangs, and a minute later another one joins",
        clients="librdkafka",
        play=_silent,
        causes={"silent_member": _blamed("silent-c")},
    ),
    RealIncident(
        group="blocked",
        name="a member does not return from its revocation callback when another one joins",
        clients="librdkafka",
        play=_blocked,
        causes={"slow_rejoin": _blamed("blocked-c")},
    ),
    RealIncident(
        group="crashes",
        name="a process is killed and started again, five times",
        clients="librdkafka",
        play=_crash_loop,
        causes={"crash_loop": _blamed("crashes-c")},
    ),
    RealIncident(
        group="static-crashes",
        name="a static member is killed and started again within its session, five times",
        clients="librdkafka",
        play=_static_crash_loop,
        causes={"crash_loop": _blamed("static-crashes-ic")},
    ),
    RealIncident(
        group="shared",
        name="two processes have one `group.instance.id`, and their supervisors start them again",
        clients="librdkafka",
        play=_shared_instance,
        causes={"shared_instance_id": _blamed("shared-i")},
    ),
    RealIncident(
        group="set",
        name="an administrator sets the offsets back while the group is empty",
        clients="librdkafka, Admin API",
        play=_set,
        causes={"offsets_set": _NOBODY},
    ),
    RealIncident(
        group="topic-deleted",
        name="an administrator deletes a topic",
        clients="librdkafka, Admin API",
        play=_topic_deleted,
        causes={"offsets_deleted": _NOBODY},
    ),
    RealIncident(
        group="group-deleted",
        name="an administrator deletes the group, and it comes back",
        clients="librdkafka, Admin API",
        play=_group_deleted,
        causes={"offsets_deleted": _NOBODY},
    ),
    RealIncident(
        group="not-revoked",
        name="a KIP-848 member does not give up a partition for which another one waits",
        clients="librdkafka",
        play=_not_revoked,
        causes={"not_revoked": _blamed("not-revoked-a")},
    ),
    RealIncident(
        group="slow-leader",
        name="the leader's assignor needs twelve seconds",
        clients="Java",
        play=_slow_leader,
        causes={"slow_leader": _blamed("slow-leader-a")},
    ),
    RealIncident(
        group="nobody",
        name="the only member hangs; nothing was new in its topic",
        clients="Java",
        play=_nobody_commits,
        causes={"commits_stopped": _NOBODY},
    ),
    RealIncident(
        group="expired",
        name="all members end, the offsets expire, and the members start again",
        clients="librdkafka",
        play=_expired,
        causes={"offsets_expired": _NOBODY},
        broker="brief retention",
    ),
    RealIncident(
        group="unwritable",
        name="the record of a generation is too large for the offsets topic; a member is restarted",
        clients="librdkafka, Admin API",
        play=_unwritable,
        causes={"sync_fails": _NOBODY},
        broker="small records",
    ),
    RealIncident(
        group="refused",
        name="the coordinator refuses the regular expression of a third member: no record has it",
        clients="librdkafka",
        play=_refused_pattern,
    ),
    RealIncident(
        group="rolling",
        name="a rolling restart of three",
        clients="librdkafka",
        play=_rolling(),
        ok="restarted one after another",
    ),
    RealIncident(
        group="rolling-848",
        name="a rolling restart of three KIP-848 members",
        clients="librdkafka",
        play=_rolling(**_KIP_848),
        ok="restarted one after another",
    ),
    RealIncident(group="scaled", name="scaled up and down", clients="librdkafka", play=_scaled),
    RealIncident(
        group="deployed", name="a deployment: stop, then start", clients="librdkafka", play=_deployed
    ),
    RealIncident(
        group="quiet", name="nothing is new in the topics of two members", clients="librdkafka", play=_quiet
    ),
)
