"""Random histories of one classic group of the coordinator model, each compared with a replay of its log.

``Life`` lists what the log cannot show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from groupreplay.codecs import (
    Assignment,
    decode_assignment,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from groupreplay.codecs.kafka_terms import REBALANCING, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.requests import (
    Commit,
    DeleteGroup,
    EndTransaction,
    JoinGroup,
    OffsetCommit,
    OffsetDelete,
)
from groupreplay.state import Context, Event, Group
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import CONTEXT, GROUP, Raw, observed
from support.model.classic_clients import Clients, joining, protocols

WAITS_MS = (1, 7, 900, 3_000, 3_000, 12_000, 50_000, 301_000, 24 * 3_600_000, 8 * 24 * 3_600_000)
_TOPICS = ("t", "u")
_MOST_MEMBERS = 5


#: The histories clean up when it happens, not at intervals: a tombstone that is missing for days proves nothing there.
SELDOM_CLEANED = replace(CONTEXT, retention_check_interval_ms=10 * 365 * 24 * 3_600_000)


def assert_equal(replayed: object, true: object) -> None:
    """Compare, with both values in the message: pytest only shows them for asserts in test modules."""
    assert replayed == true, f"\nreplayed {replayed}\ntrue     {true}"


@dataclass
class Life:
    """One group. ``probing``: after every step there is a probe of the group.

    The comparison leaves out what the log cannot show: a rebalance in progress (without probes the state before it is
    expected); the first JoinGroup for a group that committed offsets had created; the creation of a simple group by a
    transaction that is open or aborted; members that joined and left within one rebalance; a generation that the timer
    of an earlier group has raised.
    """

    clients: Clients = field(default_factory=Clients)
    probing: bool = False
    events: list[Event] = field(default_factory=list)
    #: Name, generation, time.
    truth: list[tuple[str, int | None, int]] = field(default_factory=list)
    #: Deletions of groups that an open transaction had created: only its end decides whether there was a group.
    unclear: list[tuple[str, int | None, int]] = field(default_factory=list)
    #: The group as the log shows it, without offsets; None without any record of it.
    _shown: dict[str, Any] | None = None
    #: Created by committed offsets, without a record of a generation since.
    _simple: bool = False
    _born_ms: int = 0
    _read: int = 0
    _told: int = 0
    _probed_ms: int = 0
    context: Context = SELDOM_CLEANED
    #: The events that are compared one by one.
    COMPARED: ClassVar[tuple[str, ...]] = (
        "group.created",
        "group.emptied",
        "group.deleted",
        "rebalance.completed",
    )

    def __post_init__(self) -> None:
        self.replayed = Group(GROUP, self.context)
        self.clients.listener = self.check

    def step(self, happening: str, who: int, wait_ms: int) -> None:
        """One of ``HAPPENINGS``, then a wait."""
        self.happen(happening, who)
        self.clients.wait(wait_ms)
        self.check()

    def happen(self, happening: str, who: int) -> None:
        """Run one of the ``HAPPENINGS``."""
        HAPPENINGS[happening](self.clients, who)

    def check(self) -> None:
        """Replay the new records, from bytes, and compare; an open transaction holds back the reader."""
        for change in self.clients.changes[self._told :]:
            self._note(change.before, change.after, change.generation, change.at_ms)
        self._told = len(self.clients.changes)
        self._note_rebalances()
        fresh = [_read(raw) for raw in self.clients.log[self._read :]]
        if self._simple and any(raw.value is not None and raw.at >= self._born_ms for raw in fresh):
            self._shown = dict(SIMPLE)
        expected = self._expected()
        if self.clients.in_transaction:
            return
        self._read = len(self.clients.log)
        self.events += self.replayed.apply(replace(observed(fresh), seen_to=1 << 40), 0)
        replayed = self.picture(self.replayed.describe())
        if self.probing and replayed is not None and expected is not None:
            replayed["state"], expected["state"] = self._probed(), self.clients.state
        assert_equal(replayed, expected)

    def end(self) -> None:
        """End open transactions and compare all events."""
        for producer_id in list(self.clients.coordinator.offsets.pending):
            self.clients.ask(EndTransaction(producer_id=producer_id, committed=False))
        said = [
            (event.fact.NAME, event.fact.generation, event.time_ms)  # type: ignore[attr-defined]
            for event in self.events
            if event.fact.NAME in self.COMPARED
        ]
        # The creation of simple groups has been compared after each step.
        clear = [one for one in said if one[:2] != ("group.created", None) and one not in self.unclear]
        assert_equal(clear, self.truth)

    def _note(self, before: Any, after: Any, generation: int, at_ms: int) -> None:
        shown = self._shown
        if after is Phase.STABLE:
            self._simple = False
            self.truth.append(("rebalance.completed", generation, at_ms))
        elif before is Phase.DEAD:
            self._simple, self._born_ms = not isinstance(self.clients.maker, JoinGroup), at_ms
            if not self._simple:
                self._shown = {**SIMPLE, "generation": 0}
                self.truth.append(("group.created", generation, at_ms))
        elif after is Phase.EMPTY:
            self._simple = False
            if shown is not None and shown["members"]:
                self.truth.append(("group.emptied", generation, at_ms))
        elif after is Phase.DEAD:
            end = ("group.deleted", None if shown is None else shown["generation"], at_ms)
            (self.truth if shown is not None else self.unclear).append(end)
            self._shown, self._simple = None, False

    def _note_rebalances(self) -> None:
        """Note rebalances; those of a classic group are noted with its state changes."""

    def _expected(self) -> dict[str, Any] | None:
        group = self.clients.coordinator.group
        offsets = {
            place: one.value.offset for place, one in self.clients.coordinator.offsets.committed.items()
        }
        if group is None:
            return None
        assert isinstance(group, ClassicGroup)
        if not self._simple and group.state not in REBALANCING:
            self._shown = written(group)
            newest = self.clients.coordinator.journal.written
            if group.is_empty and newest is not None:
                self._shown["generation"] = newest.generation
        return None if self._shown is None else {**self._shown, "offsets": offsets}

    @staticmethod
    def picture(described: dict[str, Any]) -> dict[str, Any] | None:
        """The compared part of a replayed group; None for a Dead group."""
        if described["state"] == Phase.DEAD.value:
            return None
        return {
            **{name: described[name] for name in SIMPLE},
            "members": {
                member["member_id"]: (
                    member["instance_id"],
                    member["client_id"],
                    {topic: tuple(numbers) for topic, numbers in member["partitions"].items()},
                )
                for member in described["members"]
            },
            "offsets": {(one["topic"], one["partition"]): one["offset"] for one in described["offsets"]},
        }

    def _probed(self) -> str:
        """The replay's state after a probe; a probe in the same millisecond as a record proves nothing."""
        now_ms, state = self.clients.now, self.clients.state
        if now_ms == self._probed_ms or any(raw.at == now_ms for raw in self.clients.log[-1:]):
            return state
        self._probed_ms = now_ms
        probe = Probe(taken_ms=now_ms, state=state, topic="group-probes", partition=0, offset=now_ms)
        self.events += self.replayed.apply(replace(observed([]), probes=[probe]), now_ms)
        return str(self.replayed.describe()["state"])


SIMPLE: dict[str, Any] = {
    "state": "Empty",
    "generation": None,
    "protocol_type": None,
    "protocol": None,
    "leader": None,
    "members": {},
}


def written(group: ClassicGroup) -> dict[str, Any]:
    """The group as its record shows it."""
    return {
        "state": (Phase.STABLE if group.members else Phase.EMPTY).value,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": {
            member.member_id: (member.instance_id, member.client_id, _partitions(member.assignment))
            for member in group.members.values()
        },
    }


def _partitions(assignment: bytes) -> dict[str, tuple[int, ...]]:
    decoded = decode_assignment(assignment)
    assert isinstance(decoded, Assignment)
    return {one.topic: one.partitions for one in decoded.assigned_partitions}


def _read(raw: Raw) -> Raw:
    """The record, encoded and decoded."""
    key = decode_key(encode_key(raw.key))
    value = None if raw.value is None else decode_value(key, encode_value(raw.value))  # type: ignore[arg-type]
    return replace(raw, key=key, value=value)


# -- happenings; one that is impossible now does nothing


def _member(clients: Clients, who: int) -> str:
    names = clients.member_ids
    return names[who % len(names)] if names else "nobody-1"


def _join(clients: Clients, who: int, **fields: Any) -> None:
    if len(clients.member_ids) < _MOST_MEMBERS:
        session_ms = (6_000, 45_000, 300_000)[who % 3]
        clients.join(f"c{who}", session_timeout_ms=session_ms, rebalance_timeout_ms=2 * session_ms, **fields)


def _static(clients: Clients, who: int) -> None:
    _join(clients, who, instance_id=f"i{who % 2}")


def _ask_only(clients: Clients, who: int) -> None:
    clients.ask(joining(f"p{who}", session_timeout_ms=6_000 + who))


def _rejoin(clients: Clients, member_id: str, topics: tuple[str, ...] = ("t",)) -> None:
    member = clients.group.members.get(member_id) if clients.coordinator.group else None
    if member is None or member.joining is None:
        clients.rejoin(
            member_id,
            instance_id=member.instance_id if member else None,
            protocols=protocols(topics=topics),
            session_timeout_ms=member.session_timeout_ms if member else 45_000,
            rebalance_timeout_ms=member.rebalance_timeout_ms if member else 300_000,
        )


def _everybody_rejoins(clients: Clients, who: int) -> None:
    for member_id in clients.member_ids:
        _rejoin(clients, member_id)


def _everybody_syncs(clients: Clients, who: int) -> None:
    for member_id in clients.member_ids:
        clients.sync(member_id)


def _settle(clients: Clients, who: int) -> None:
    """All clients rejoin and sync until the rebalance is over."""
    for _ in range(5):
        if clients.state in ("PreparingRebalance", "CompletingRebalance"):
            if clients.state == "PreparingRebalance" and clients.group.previous_state is not Phase.EMPTY:
                _everybody_rejoins(clients, who)
            clients.wait(3_000)
            _everybody_syncs(clients, who)


def _heartbeats(clients: Clients, who: int) -> None:
    for member_id in clients.member_ids:
        clients.heartbeat(member_id)


def _commit(clients: Clients, who: int, **fields: Any) -> None:
    if clients.member_ids:
        fields |= {"member_id": _member(clients, who), "generation": clients.group.generation}
    commits = tuple(
        Commit(topic=topic, partition=who % 3, offset=clients.now % 1_000) for topic in _TOPICS[: 1 + who % 2]
    )
    clients.ask(OffsetCommit(commits=commits, **fields))


def _end_transaction(clients: Clients, who: int) -> None:
    pending = list(clients.coordinator.offsets.pending)
    if pending:
        clients.ask(EndTransaction(producer_id=pending[0], committed=who % 3 > 0))


HAPPENINGS: dict[str, Callable[[Clients, int], object]] = {
    "join": _join,
    "join as an old client": lambda clients, who: _join(clients, who, require_known_member_id=False),
    "join as a static member": _static,
    "ask and go away": _ask_only,
    "join again": lambda clients, who: _rejoin(clients, _member(clients, who)),
    "join again otherwise": lambda clients, who: _rejoin(clients, _member(clients, who), _TOPICS),
    "everybody joins again": _everybody_rejoins,
    "sync": lambda clients, who: _everybody_syncs(clients, who),
    "one syncs": lambda clients, who: (
        clients.group.members and clients.sync(_member(clients, who)) if clients.coordinator.group else None
    ),
    "settle": _settle,
    "settle, as most do": _settle,
    "settle, as nearly all do": _settle,
    "heartbeats": _heartbeats,
    "leave": lambda clients, who: clients.leave(_member(clients, who)),
    "an administrator removes": lambda clients, who: clients.leave(instance_id=f"i{who % 2}"),
    "commit": _commit,
    "commit with a retention": lambda clients, who: _commit(clients, who, retention_ms=10_000),
    "commit in a transaction": lambda clients, who: _commit(clients, who, producer_id=who % 2),
    "end a transaction": _end_transaction,
    "clean up": lambda clients, who: clients.clean_up(),
    "delete the group": lambda clients, who: clients.ask(DeleteGroup()),
    "delete offsets": lambda clients, who: clients.ask(OffsetDelete((("t", who % 3),))),
    "delete a topic": lambda clients, who: clients.take(
        clients.coordinator.delete_topic(_TOPICS[who % 2], clients.now)
    ),
}
