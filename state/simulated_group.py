"""One simulated group: its clients, who do what their script says, and the coordinator that answers them.

Knows how a consumer behaves: it joins, comes back with its id, syncs, commits, and joins again when it hears of
a rebalance. Must not know other groups, nor where records are written. A member's heartbeats are asked for
only where they decide something: a rebalance is heard of within three seconds, the time between two of them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from groupreplay.codecs import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from groupreplay.state.client_scripts import Script, Verb
from groupreplay.state.coordinator import Coordinator
from groupreplay.state.coordinator_requests import (
    Answer,
    Commit,
    ConsumerGroupHeartbeat,
    Error,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Outcome,
    Protocol,
    Request,
    Settings,
    SyncGroup,
)
from groupreplay.state.phases import ConsumerPhase, Phase
from groupreplay.state.simulated_consumer import ConsumerSide, input_topic

_HEARTBEAT_INTERVAL_MS: Final = 3_000
#: How long a client waits before it tries again.
_RETRY_MS: Final = 1_000
_RANGE: Final = "range"
#: States that a consumer group leaves when there is something new for its members, those of the classic group too that
#: it was.
_AT_REST: Final = (ConsumerPhase.STABLE, Phase.STABLE, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)


@dataclass(slots=True, kw_only=True)
class SimulatedClient:
    """A consumer. ``turn`` counts its plans: one that was made for an earlier turn is dropped."""

    name: str
    host: str
    instance_id: str | None
    #: Whether it speaks KIP-848.
    modern: bool = False
    alive: bool = False
    hangs: bool = False
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    waits: bool = False
    turn: int = 0
    life: int = 0
    starts: int = 0


class SimulatedGroup:
    """One group and its clients, from ``begin_ms`` on."""

    def __init__(
        self, group_id: str, script: Script, settings: Settings, begin_ms: int, numbers: random.Random
    ) -> None:
        self.group_id = group_id
        topics = input_topic(f"{group_id}-input", script.partitions)
        self.coordinator = Coordinator(group_id, settings, numbers, topics)
        self._script = script
        self._numbers = numbers
        self._topic = f"{group_id}-input"
        subscription = Subscription(version=1, topics=(self._topic,))
        self._protocols = (Protocol(_RANGE, encode_subscription(subscription)),)
        self._clients: dict[int, SimulatedClient] = {}
        #: How far each partition was read.
        self._read: list[int] = [0] * script.partitions
        self._agenda: list[tuple[int, int, Callable[[int], None]]] = []
        self._planned = 0
        self._outcomes: list[Outcome] = []
        self._waiting: dict[int, tuple[Request, SimulatedClient]] = {}
        self._consumers = ConsumerSide(
            coordinator=self.coordinator,
            topic=self._topic,
            rebalance_timeout_ms=script.rebalance_timeout_ms,
            numbers=numbers,
            ask=self._ask,
            plan=self._plan_for,
        )
        for act in script.acts:
            self._plan(begin_ms + act.at_ms, self._performer(act.verb, act.client))

    def next_ms(self) -> int | None:
        """When something happens next; None for never."""
        due = self.coordinator.next_deadline_ms()
        planned = self._agenda[0][0] if self._agenda else None
        return min((at_ms for at_ms in (due, planned) if at_ms is not None), default=None)

    def run(self, now_ms: int) -> list[Outcome]:
        """Do what is due at this moment, which ``next_ms`` has named, and tell what came of it."""
        due_ms = self.coordinator.next_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._take(self.coordinator.advance(now_ms), now_ms)
        while self._agenda and self._agenda[0][0] <= now_ms:
            heapq.heappop(self._agenda)[2](now_ms)
        return self._told()

    def clean_up(self, now_ms: int) -> list[Outcome]:
        """The broker looks for offsets that have expired."""
        self._take(self.coordinator.clean_up(now_ms), now_ms)
        return self._told()

    def _told(self) -> list[Outcome]:
        told, self._outcomes = self._outcomes, []
        return told

    # -- plans

    def _plan(self, at_ms: int, action: Callable[[int], None]) -> None:
        self._planned += 1
        heapq.heappush(self._agenda, (at_ms, self._planned, action))

    def _plan_for(
        self, client: SimulatedClient, at_ms: int, action: Callable[[SimulatedClient, int], None]
    ) -> None:
        """What a client does next, unless something else comes in between."""
        client.turn += 1
        turn = client.turn

        def act(now_ms: int) -> None:
            if client.alive and client.turn == turn:
                action(client, now_ms)

        self._plan(at_ms, act)

    def _performer(self, verb: Verb, number: int) -> Callable[[int], None]:
        perform = _VERBS[verb]
        return lambda now_ms: perform(self, number, now_ms)

    # -- what happens to a client

    def _start(self, number: int, now_ms: int) -> None:
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = SimulatedClient(
                name=f"{self.group_id}-{number}",
                host=f"/10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
                instance_id=f"{self.group_id}-i{number}" if self._script.static else None,
            )
        client.alive, client.hangs, client.member_id, client.generation = True, False, "", -1
        client.owned = ()
        client.life += 1
        client.starts += 1
        client.modern = client.starts in self._script.consumer_starts
        self._plan_tick(client, now_ms)
        if not self._script.alone:
            begin = self._consumers.begin if client.modern else self._join
            self._plan_for(client, now_ms + self._numbers.randrange(50), begin)

    def _stop(self, number: int, now_ms: int) -> None:
        client = self._clients[number]
        if client.alive and client.modern:
            self._consumers.leave(client, now_ms)
        elif client.alive and client.member_id and client.instance_id is None:
            self._ask(client, LeaveGroup(member_id=client.member_id), now_ms)
        self._kill(number, now_ms)

    def _kill(self, number: int, _now_ms: int) -> None:
        client = self._clients[number]
        client.alive, client.waits = False, False
        client.life += 1

    def _hang(self, number: int, _now_ms: int) -> None:
        self._clients[number].hangs = True

    # -- what a client does

    def _ask(self, client: SimulatedClient, request: Request, now_ms: int) -> None:
        self._waiting[id(request)] = (request, client)
        self._take(self.coordinator.handle(request, now_ms), now_ms)

    def _join(self, client: SimulatedClient, now_ms: int) -> None:
        client.waits = True
        request = JoinGroup(
            member_id=client.member_id,
            instance_id=client.instance_id,
            client_id=client.name,
            client_host=client.host,
            session_timeout_ms=self._script.session_timeout_ms,
            rebalance_timeout_ms=self._script.rebalance_timeout_ms,
            protocols=self._protocols,
        )
        self._ask(client, request, now_ms)

    def _plan_tick(self, client: SimulatedClient, now_ms: int) -> None:
        life = client.life
        interval_ms = min(self._script.commit_interval_ms, self._script.session_timeout_ms * 2 // 3)

        def tick(at_ms: int) -> None:
            if client.life == life and client.alive:
                self._tick(client, at_ms)
                self._plan_tick(client, at_ms)

        self._plan(now_ms + interval_ms, tick)

    def _tick(self, client: SimulatedClient, now_ms: int) -> None:
        """A commit of what it owns; without anything, or while it hangs, a heartbeat."""
        alone = self._script.alone
        if client.waits or (client.generation < 0 and not alone):
            return
        owned = (0,) if alone else client.owned
        if client.hangs or not owned:
            if client.modern:
                return
            beat = Heartbeat(
                member_id=client.member_id, instance_id=client.instance_id, generation=client.generation
            )
            self._ask(client, beat, now_ms)
            return
        for partition in owned:
            self._read[partition] += self._numbers.randrange(1, 500)
        commits = tuple(
            Commit(topic=self._topic, partition=partition, offset=self._read[partition])
            for partition in owned
        )
        request = OffsetCommit(
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=client.generation,
            commits=commits,
        )
        self._ask(client, request, now_ms)

    def _sync(self, client: SimulatedClient, assignments: tuple[tuple[str, bytes], ...], now_ms: int) -> None:
        client.waits = True
        request = SyncGroup(
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=client.generation,
            assignments=assignments,
        )
        self._ask(client, request, now_ms)

    # -- what a client is told

    def _take(self, outcome: Outcome, now_ms: int) -> None:
        if outcome.operations or outcome.changes:
            self._outcomes.append(outcome)
        for reply in outcome.replies:
            _, client = self._waiting.pop(id(reply.request))
            if client.alive:
                _ANSWERED[type(reply.request)](self, client, reply.answer, now_ms)
        if any(change.after is Phase.PREPARING_REBALANCE for change in outcome.changes):
            self._call_back(now_ms)
        if any(change.before in _AT_REST for change in outcome.changes) and self._consumers.busy:
            for other in self._clients.values():
                if other.alive and other.generation > 0 and not other.waits:
                    self._consumers.call(other, now_ms)

    def _call_back(self, now_ms: int) -> None:
        """Members hear of the rebalance with their next heartbeat; who waits for an answer is in it already."""
        for client in self._clients.values():
            if client.alive and client.generation >= 0 and not client.waits and not client.hangs:
                self._plan_for(
                    client, now_ms + 1 + self._numbers.randrange(_HEARTBEAT_INTERVAL_MS), self._join
                )

    def _joined(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        client.waits = False
        if answer.error is Error.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self._plan_for(client, now_ms + 1 + self._numbers.randrange(20), self._join)
            return
        if answer.error is not Error.NONE:
            self._begin_again(client, now_ms)
            return
        client.member_id, client.generation = answer.member_id, answer.generation
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        assignments = self._assigned([member for member, _, _ in answer.members]) if leads else ()
        takes_ms = self._numbers.randrange(20, 300) if leads else self._numbers.randrange(1, 20)
        self._plan_for(client, now_ms + takes_ms, lambda one, at_ms: self._sync(one, assignments, at_ms))

    def _assigned(self, members: list[str]) -> tuple[tuple[str, bytes], ...]:
        """Partitions in turn, members in the order of their names."""
        return tuple(
            (member, self._assignment(range(place, self._script.partitions, len(members))))
            for place, member in enumerate(sorted(members))
        )

    def _assignment(self, partitions: range) -> bytes:
        owned = (TopicPartitions(topic=self._topic, partitions=tuple(partitions)),) if partitions else ()
        return encode_assignment(Assignment(version=1, assigned_partitions=owned))

    def _synced(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        client.waits = False
        if answer.error is Error.REBALANCE_IN_PROGRESS:
            self._plan_for(client, now_ms + 1 + self._numbers.randrange(100), self._join)
        elif answer.error is not Error.NONE:
            self._begin_again(client, now_ms)
        else:
            client.owned = _owned(answer.assignment)
            if self._consumers.in_charge:
                self._consumers.call(client, now_ms)

    def _acknowledged(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """The answer to a commit or a heartbeat."""
        known = (Error.NONE, Error.REBALANCE_IN_PROGRESS)
        if client.modern:
            # Whatever is wrong with a commit, the next heartbeat tells.
            return
        if answer.error is Error.REBALANCE_IN_PROGRESS and self._consumers.in_charge and not client.waits:
            self._plan_for(client, now_ms + 1 + self._numbers.randrange(100), self._join)
        if answer.error not in known and not client.hangs and not client.waits:
            self._begin_again(client, now_ms)

    def _told_by_heartbeat(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        self._consumers.answered(client, answer, now_ms)

    def _left(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """Nobody waits for it."""

    def _begin_again(self, client: SimulatedClient, now_ms: int) -> None:
        client.member_id, client.generation, client.owned = "", -1, ()
        self._plan_for(client, now_ms + _RETRY_MS + self._numbers.randrange(_RETRY_MS), self._join)


def _owned(assignment: bytes) -> tuple[int, ...]:
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment):
        return ()
    return tuple(number for one in decoded.assigned_partitions for number in one.partitions)


_VERBS: Final[Mapping[Verb, Callable[[SimulatedGroup, int, int], None]]] = {
    Verb.START: SimulatedGroup._start,
    Verb.STOP: SimulatedGroup._stop,
    Verb.KILL: SimulatedGroup._kill,
    Verb.HANG: SimulatedGroup._hang,
}
_ANSWERED: Final[Mapping[type[Request], Callable[[SimulatedGroup, SimulatedClient, Answer, int], None]]] = {
    JoinGroup: SimulatedGroup._joined,
    SyncGroup: SimulatedGroup._synced,
    Heartbeat: SimulatedGroup._acknowledged,
    OffsetCommit: SimulatedGroup._acknowledged,
    LeaveGroup: SimulatedGroup._left,
    ConsumerGroupHeartbeat: SimulatedGroup._told_by_heartbeat,
}
