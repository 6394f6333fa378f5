"""Incidents of known cause that real clients play on a real broker; each row was written before it was first played.

A broker's administrator and clients do what the name says, and nothing else; the same table says what the diagnosis
must name, as ``incidents`` does for simulated groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from support.diagnosed.incidents import Causes
from support.diagnosed.plays import (
    KIP_848,
    blocked,
    crash_loop,
    deployed,
    expired,
    group_deleted,
    left_open,
    lost,
    nobody_commits,
    not_revoked,
    offsets_set,
    quiet,
    refused_instance,
    refused_pattern,
    rolling,
    scaled,
    shared_instance,
    silent,
    slow_leader,
    slow_poll,
    static_crash_loop,
    static_restarts,
    topic_deleted,
    unwritable,
)
from support.diagnosed.stage import Play

_NOBODY: Final = frozenset[str]()


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


REAL_INCIDENTS: Final = (
    RealIncident(
        group="frozen",
        name="a process is frozen (`SIGSTOP`) for longer than its session",
        clients="librdkafka",
        play=lost("freeze"),
        causes={"process_lost": _blamed("frozen-c")},
    ),
    RealIncident(
        group="frozen-java",
        name="the JVM of a member is frozen",
        clients="Java",
        play=lost("freeze", "java"),
        causes={"process_lost": _blamed("frozen-java-c")},
    ),
    RealIncident(
        group="killed",
        name="a process is killed (`SIGKILL`)",
        clients="librdkafka",
        play=lost("kill"),
        causes={"process_lost": _blamed("killed-c")},
    ),
    RealIncident(
        group="killed-848",
        name="a process of a KIP-848 group is killed",
        clients="librdkafka",
        play=lost("kill", **KIP_848),
        causes={"process_lost": _blamed("killed-848-c")},
    ),
    RealIncident(
        group="slow-poll",
        name="a member does not call `poll` for `max.poll.interval.ms`",
        clients="librdkafka",
        play=slow_poll,
        causes={"gave_up": _blamed("slow-poll-c")},
    ),
    RealIncident(
        group="silent",
        name="a member hangs, and a minute later another one joins",
        clients="librdkafka",
        play=silent,
        causes={"silent_member": _blamed("silent-c")},
    ),
    RealIncident(
        group="blocked",
        name="a member does not return from its revocation callback when another one joins",
        clients="librdkafka",
        play=blocked,
        causes={"slow_rejoin": _blamed("blocked-c")},
    ),
    RealIncident(
        group="crashes",
        name="a process is killed and started again, five times",
        clients="librdkafka",
        play=crash_loop,
        causes={"crash_loop": _blamed("crashes-c")},
    ),
    RealIncident(
        group="static-crashes",
        name="a static member is killed and started again within its session, five times",
        clients="librdkafka",
        play=static_crash_loop,
        causes={"crash_loop": _blamed("static-crashes-ic")},
    ),
    RealIncident(
        group="shared",
        name="two processes have one `group.instance.id`, and their supervisors start them again",
        clients="librdkafka",
        play=shared_instance,
        causes={"shared_instance_id": _blamed("shared-i")},
    ),
    RealIncident(
        group="shared-848",
        name="a second KIP-848 process has the `group.instance.id` of one that works: the coordinator refuses it, and "
        "no record has it",
        clients="librdkafka",
        play=refused_instance,
    ),
    RealIncident(
        group="static-restarts-848",
        name="a static KIP-848 member is closed and started again, five times",
        clients="librdkafka",
        play=static_restarts(5, **KIP_848),
        causes={"crash_loop": _blamed("static-restarts-848-ic")},
    ),
    RealIncident(
        group="static-restart",
        name="a static member is closed and started again, once",
        clients="librdkafka",
        play=static_restarts(1),
    ),
    RealIncident(
        group="static-restart-848",
        name="a static KIP-848 member is closed and started again, once",
        clients="librdkafka",
        play=static_restarts(1, **KIP_848),
    ),
    RealIncident(
        group="set",
        name="an administrator sets the offsets back while the group is empty",
        clients="librdkafka, Admin API",
        play=offsets_set,
        causes={"offsets_set": _NOBODY},
    ),
    RealIncident(
        group="topic-deleted",
        name="an administrator deletes a topic",
        clients="librdkafka, Admin API",
        play=topic_deleted,
        causes={"offsets_deleted": _NOBODY},
    ),
    RealIncident(
        group="group-deleted",
        name="an administrator deletes the group, and it comes back",
        clients="librdkafka, Admin API",
        play=group_deleted,
        causes={"offsets_deleted": _NOBODY},
    ),
    RealIncident(
        group="not-revoked",
        name="a KIP-848 member does not give up a partition for which another one waits",
        clients="librdkafka",
        play=not_revoked,
        causes={"not_revoked": _blamed("not-revoked-a")},
    ),
    RealIncident(
        group="slow-leader",
        name="the leader's assignor needs twelve seconds",
        clients="Java",
        play=slow_leader,
        causes={"slow_leader": _blamed("slow-leader-a")},
    ),
    RealIncident(
        group="nobody",
        name="the only member hangs; nothing was new in its topic",
        clients="Java",
        play=nobody_commits,
        causes={"commits_stopped": _NOBODY},
    ),
    RealIncident(
        group="expired",
        name="all members end, the offsets expire, and the members start again",
        clients="librdkafka",
        play=expired,
        causes={"offsets_expired": _NOBODY},
        broker="brief retention",
    ),
    RealIncident(
        group="unwritable",
        name="the record of a generation is too large for the offsets topic; a member is restarted",
        clients="librdkafka, Admin API",
        play=unwritable,
        causes={"sync_fails": _NOBODY},
        broker="small records",
    ),
    # No other group has its partition of the offsets topic: readers would not get the commits of that one, either.
    RealIncident(
        group="hanging",
        name="a producer leaves a transaction with commits open for 100 seconds",
        clients="librdkafka",
        play=left_open(100),
        causes={"hanging_transaction": _NOBODY},
    ),
    RealIncident(
        group="orders-tx",
        name="a producer leaves a transaction with commits open for 20 seconds",
        clients="librdkafka",
        play=left_open(20),
    ),
    RealIncident(
        group="refused",
        name="the coordinator refuses the regular expression of a third member: no record has it",
        clients="librdkafka",
        play=refused_pattern,
    ),
    RealIncident(
        group="rolling",
        name="a rolling restart of three",
        clients="librdkafka",
        play=rolling(),
        ok="restarted one after another",
    ),
    RealIncident(
        group="rolling-848",
        name="a rolling restart of three KIP-848 members",
        clients="librdkafka",
        play=rolling(**KIP_848),
        ok="restarted one after another",
    ),
    RealIncident(group="scaled", name="scaled up and down", clients="librdkafka", play=scaled),
    RealIncident(
        group="deployed", name="a deployment: stop, then start", clients="librdkafka", play=deployed
    ),
    RealIncident(
        group="quiet", name="nothing is new in the topics of two members", clients="librdkafka", play=quiet
    ),
)
