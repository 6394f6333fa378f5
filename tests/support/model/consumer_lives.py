"""Random histories of a group with members of both protocols, each compared with a replay of its log.

The log cannot show what `classic_lives` lists, nor the conversion of a group that offsets had created, nor the
rebalance that begins with such a conversion: the offsets may as well belong to a group whose records were cleaned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from groupreplay.codecs import uuid_text
from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup, ConsumerMember, Topic
from groupreplay.coordinator.requests import Commit, DeleteGroup, OffsetCommit, OffsetDelete, TopicIdPartition
from groupreplay.state import Context
from support.model.classic_lives import HAPPENINGS as CLASSIC
from support.model.classic_lives import SELDOM_CLEANED, SIMPLE, Life, written
from support.model.consumer_clients import TOPIC_IDS, ConsumerClients

NAMED = replace(
    SELDOM_CLEANED, topic_names={uuid_text(topic_id): name for name, topic_id in TOPIC_IDS.items()}
)
_NAMES = {topic_id: name for name, topic_id in TOPIC_IDS.items()}
_MOST_MEMBERS = 5
_FIRST_EPOCH = 2
WAITS_MS = (1, 7, 300, 900, 900, 3_000, 3_000, 12_000, 50_000, 8 * 24 * 3_600_000)


@dataclass
class ConsumerLife(Life):
    """One group of either type.

    A rebalance begins with a new epoch when the group has members and no rebalance is in progress; it ends at Stable.
    """

    COMPARED: ClassVar[tuple[str, ...]] = (*Life.COMPARED, "group.converted", "rebalance.started")
    clients: ConsumerClients = field(default_factory=ConsumerClients)
    context: Context = NAMED
    _open: bool = False
    _epoch: int = 0
    #: Converted before a record of a generation, and no rebalance was noted since.
    _converted_unseen: bool = False
    _settled: bool = True
    _checked: tuple[int, int] = (0, 0)

    def happen(self, happening: str, who: int) -> None:
        """Run one of the ``HAPPENINGS``."""
        HAPPENINGS[happening](self.clients, who)

    def check(self) -> None:
        """Compare, unless there are no new records and state changes."""
        seen = len(self.clients.log), len(self.clients.changes)
        if seen != self._checked:
            self._checked = seen
            super().check()

    def _note(self, before: Any, after: Any, generation: int, at_ms: int) -> None:
        kinds = {type(before), type(after)}
        if kinds == {Phase}:
            super()._note(before, after, generation, at_ms)
        elif kinds != {ConsumerPhase}:
            self._converted(before, after, generation, at_ms)
        elif before is ConsumerPhase.DEAD:
            self._epoch = 0
            self.truth.append(("group.created", generation, at_ms))
        elif after is ConsumerPhase.DEAD:
            self.truth.append(("group.deleted", generation, at_ms))
        elif after is ConsumerPhase.EMPTY:
            self._open = False
            self.truth.append(("group.emptied", generation, at_ms))
        elif self.clients.gap > 1 and not self._continues:
            # Sessions that end at the same time are separate operations only with a gap between their offsets.
            self._begin(generation, at_ms)

    def _converted(self, before: Any, after: Any, generation: int, at_ms: int) -> None:
        group = self.clients.coordinator.group
        simple, shown = self._simple, self._shown
        self._simple, self._shown, self._open, self._epoch = False, None, False, 0
        if isinstance(group, ClassicGroup):
            # This was written, whatever the group becomes in the same millisecond.
            self._shown = written(group) if group.members else {**SIMPLE, "generation": 0}
            generation = group.generation
        elif before is not Phase.EMPTY:
            # The epochs continue from the last generation; the log has the last one that was written.
            self._epoch = (shown or {}).get("generation") or 0
            # In the log a group with one KIP-848 member at a first epoch looks like a new group.
            alone = (
                isinstance(group, ConsumerGroup) and len(group.members) == 1 and group.epoch <= _FIRST_EPOCH
            )
            self._converted_unseen, self._settled = simple and not alone, False
        if not simple:
            self.truth.append(("group.converted", generation, at_ms))

    def _begin(self, epoch: int, at_ms: int) -> None:
        if epoch > self._epoch and not self._open:
            self._open, self._epoch = True, epoch
            self.truth.append(("rebalance.started", epoch, at_ms))

    def _note_rebalances(self) -> None:
        group = self.clients.coordinator.group
        if not isinstance(group, ConsumerGroup):
            self._open = self._converted_unseen = False
            return
        now_ms = self.clients.now
        if group.members and not self._continues:
            self._begin(group.epoch, now_ms)
        if self._open and group.state is ConsumerPhase.STABLE:
            self._converted_unseen = False
            self.truth.append(("rebalance.completed", group.epoch, now_ms))
        self._open = self._open and group.state not in (ConsumerPhase.STABLE, ConsumerPhase.EMPTY)
        self._converted_unseen = self._converted_unseen and bool(group.members)
        self._settled = group.state is ConsumerPhase.STABLE
        self._epoch = group.epoch

    @property
    def _continues(self) -> bool:
        """Whether an epoch continues a rebalance whose begin the log does not show."""
        return self._converted_unseen and not self._settled

    def _expected(self) -> dict[str, Any] | None:
        group = self.clients.coordinator.group
        if not isinstance(group, ConsumerGroup):
            return super()._expected()
        return {
            "state": group.state.value,
            "group_epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "members": {
                name: _member(member, group.targets.get(name)) for name, member in group.members.items()
            },
            "subscribed_topics": sorted({topic for one in group.members.values() for topic in one.topics}),
            "offsets": {
                place: one.value.offset for place, one in self.clients.coordinator.offsets.committed.items()
            },
        }

    @staticmethod
    def picture(described: dict[str, Any]) -> dict[str, Any] | None:
        """What is compared of a replayed group; None for one that there is not."""
        if described["type"] != "consumer" or described["state"] == "Dead":
            return Life.picture(described)
        return {
            **{
                name: described[name]
                for name in ("state", "group_epoch", "target_epoch", "subscribed_topics")
            },
            "members": {member["member_id"]: _told(member) for member in described["members"]},
            "offsets": {(one["topic"], one["partition"]): one["offset"] for one in described["offsets"]},
        }


def _member(member: ConsumerMember, target: frozenset[TopicIdPartition] | None) -> tuple[Any, ...]:
    return (
        (member.instance_id, member.client_id, member.client_host, member.epoch, member.phase.value),
        _named(member.assigned),
        None if target is None else _named(target),
        _named(member.revoking),
        "consumer" if member.classic is None else "classic",
        [one.name for one in member.classic.protocols] if member.classic else [],
    )


def _told(member: dict[str, Any]) -> tuple[Any, ...]:
    return (
        tuple(member[name] for name in ("instance_id", "client_id", "client_host", "epoch", "state")),
        member["partitions"],
        member["target_partitions"],
        member["revoking"],
        member["member_protocol"],
        member["supported_protocols"],
    )


def _named(places: Any) -> dict[str, list[int]]:
    named: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        named.setdefault(_NAMES[topic], []).append(number)
    return named


# -- happenings; one that is impossible now does nothing


def _members(clients: ConsumerClients, *, classic: bool) -> dict[str, ConsumerMember]:
    """The members of a consumer group that use the classic or the consumer protocol."""
    group = clients.coordinator.group
    members = group.members if isinstance(group, ConsumerGroup) else {}
    return {name: member for name, member in members.items() if (member.classic is not None) is classic}


def _native(clients: ConsumerClients, who: int) -> str:
    """The id of a member of the consumer protocol, ``nobody`` if there is none."""
    names = list(_members(clients, classic=False))
    return names[who % len(names)] if names else "nobody"


def _mixed(act: Callable[[ConsumerClients, str, int], object]) -> Callable[[ConsumerClients, int], None]:
    """A happening to a classic member of a consumer group, if there is any."""

    def happen(clients: ConsumerClients, who: int) -> None:
        names = list(_members(clients, classic=True))
        if names:
            act(clients, names[who % len(names)], who)

    return happen


def _enter(clients: ConsumerClients, who: int, **fields: Any) -> None:
    if len(clients.member_ids) < _MOST_MEMBERS:
        topics = (("t",), ("t",), ("t", "u"))[who % 3]
        timeout_ms = (5_000, 60_000)[who % 2]
        clients.enter(f"m{who}-{clients.now}", *topics, rebalance_timeout_ms=timeout_ms, **fields)


def _away(clients: ConsumerClients, who: int) -> None:
    for name, mine in list(clients.believed.items()):
        if mine.instance_id is not None and mine.epoch > 0:
            clients.away(name)


def _beats(clients: ConsumerClients, who: int) -> None:
    for name, member in _members(clients, classic=False).items():
        if member.epoch > 0:
            clients.beat(name)


def _holds_on(clients: ConsumerClients, who: int) -> None:
    """A heartbeat without owned partitions: nothing is revoked."""
    name = _native(clients, who)
    answer = clients.beat(name, owned=None)
    clients.believed[name].epoch = max(0, answer.generation)


def _again(clients: ConsumerClients, who: int) -> None:
    """A heartbeat with the previous epoch, as after a lost answer."""
    name = _native(clients, who)
    clients.beat(
        name, member_epoch=max(1, clients.believed[name].epoch - 1) if name in clients.believed else 1
    )


def _topics_change(clients: ConsumerClients, who: int) -> None:
    topics = (("t",), ("u",), ("t", "u"), (), ("nowhere",), ("nowhere", "t"))[who % 6]
    clients.beat(_native(clients, who), topics=topics)


def _grow(clients: ConsumerClients, who: int) -> None:
    name = "tu"[who % 2]
    if clients.topics[name].partitions < 8:
        clients.topics[name] = Topic(TOPIC_IDS[name], clients.topics[name].partitions + 1)


def _commit(clients: ConsumerClients, who: int) -> None:
    group = clients.coordinator.group
    if not isinstance(group, ConsumerGroup):
        CLASSIC["commit"](clients, who)
        return
    name = _native(clients, who)
    epoch = group.members[name].epoch if name in group.members else -1
    places = sorted(group.members[name].assigned) if name in group.members else []
    commits = tuple(
        Commit(topic=_NAMES[topic], partition=number, offset=clients.now % 1_000) for topic, number in places
    ) or (Commit(topic="t", partition=who % 3, offset=clients.now % 1_000),)
    member_id = "" if name == "nobody" else name
    clients.ask(OffsetCommit(member_id=member_id, generation=epoch - who % 2, commits=commits))


def _mixed_joins(clients: ConsumerClients, who: int) -> None:
    """A new classic member joins a consumer group."""
    group = clients.coordinator.group
    if isinstance(group, ConsumerGroup) and 0 < len(group.members) < _MOST_MEMBERS:
        instance_id = f"i{who % 2}" if who % 3 == 0 else None
        session_ms = (6_000, 45_000)[who % 2]
        clients.join(
            f"c{who}", instance_id=instance_id, session_timeout_ms=session_ms, rebalance_timeout_ms=60_000
        )


def _natives_leave(clients: ConsumerClients, who: int) -> None:
    while (name := _native(clients, who)) != "nobody":
        clients.beat(name, member_epoch=-1, instance_id=None, owned=None)


def _all_leave(clients: ConsumerClients, who: int) -> None:
    for name in clients.member_ids:
        clients.leave(name)


def _classic(name: str) -> Callable[[ConsumerClients, int], None]:
    """A happening of `classic_lives`, while the group is a classic one."""

    def happen(clients: ConsumerClients, who: int) -> None:
        if not isinstance(clients.coordinator.group, ConsumerGroup):
            CLASSIC[name](clients, who)

    return happen


def _classic_group(clients: ConsumerClients, who: int) -> None:
    """Two members form a classic group, if the group has no members."""
    if not clients.member_ids:
        for number in (1, 2):
            clients.join(f"c{number}", rebalance_timeout_ms=60_000)
        CLASSIC["settle"](clients, who)


HAPPENINGS: dict[str, Callable[[ConsumerClients, int], object]] = {
    "enter": _enter,
    "enter, too": _enter,
    "enter as a static member": lambda clients, who: _enter(clients, who, instance_id=f"i{who % 2}"),
    "prefer another assignor": lambda clients, who: _enter(
        clients, who, assignor=("range", "uniform")[who % 2]
    ),
    "heartbeats": _beats,
    "one heartbeat": lambda clients, who: clients.beat(_native(clients, who)),
    "hold on": _holds_on,
    "heartbeat again": _again,
    "settle": lambda clients, who: clients.settle_all(),
    "settle, as most do": lambda clients, who: clients.settle_all(),
    "be away": _away,
    "depart": lambda clients, who: clients.depart(_native(clients, who)),
    "change topics": _topics_change,
    "find new partitions": _grow,
    "move": lambda clients, who: clients.beat(_native(clients, who), client_host=f"/10.0.0.{who}"),
    "commit": _commit,
    "clean up": lambda clients, who: clients.clean_up(),
    "delete the group": lambda clients, who: clients.ask(DeleteGroup()),
    "delete offsets": lambda clients, who: clients.ask(OffsetDelete((("t", who % 3),))),
    "a classic member joins": _mixed_joins,
    "a classic member follows": _mixed(lambda clients, name, who: clients.follow(name)),
    "a classic member joins again": _mixed(
        lambda clients, name, who: clients.rejoin_mixed(name, *(("t",), ("t", "u"))[who % 2])
    ),
    "a classic member leaves": _mixed(lambda clients, name, who: clients.leave(name)),
    "the last native leaves": _natives_leave,
    "all leave": _all_leave,
    "a classic group": _classic_group,
    "ask as a classic client": CLASSIC["ask and go away"],
    **{
        f"classic: {name}": _classic(name)
        for name in (
            "join",
            "join again",
            "join as a static member",
            "settle",
            "one syncs",
            "leave",
            "everybody joins again",
        )
    },
}
