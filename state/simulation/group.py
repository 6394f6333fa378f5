"""One simulated group: its clients, who do what their script says, and the coordinator that answers them.

Knows how a consumer behaves: it joins, comes back with its id, syncs, commits, and joins again when it hears of
a rebalance. Must not know other groups, nor where records are written. A member's heartbeats are asked for
only where they decide something: a rebalance is heard of within three seconds, the time between two of them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from typing import Final

from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.coordinator import Coordinator
from groupreplay.state.model.requests import (
    Answer,
    ClassicHeartbeat,
    Commit,
    ConsumerGroupHeartbeat,
    EndTransaction,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Outcome,
    Request,
    Settings,
    SyncGroup,
)
from groupreplay.state.simulation import assignor
from groupreplay.state.simulation.acts import Committer, Script, Verb
from groupreplay.state.simulation.client import SimulatedClient
from groupreplay.state.simulation.consumer import ConsumerSide, input_topic

_HEARTBEAT_INTERVAL_MS: Final = 3_000
#: How long a client waits before it tries again.
_RETRY_MS: Final = 1_000
#: Where commits are irregular: how many times the usual distance may be.
_LONGEST: Final = 240
#: The share of transactions that fail, and when the brokers give up one whose producer is gone.
_FAILING: Final = 0.05
_TRANSACTION_TIMEOUT_MS: Final = 60_000


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
        self._begin_ms = begin_ms
        self._clients: dict[int, SimulatedClient] = {}
        #: How far each partition was read.
        self._read: list[int] = [0] * script.partitions
        self._agenda: list[tuple[int, int, Callable[[int], None]]] = []
        self._planned = 0
        self._outcomes: list[Outcome] = []
        #: Requests without an answer yet, by identity: with the client and the number of its start.
        self._waiting: dict[int, tuple[Request, SimulatedClient, int]] = {}
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

    def move(self, now_ms: int) -> list[Outcome]:
        """Another broker becomes the coordinator."""
        self._take(self.coordinator.move(now_ms), now_ms)
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
            known_as = self._script.namesakes.get(number, number)
            client = self._clients[number] = SimulatedClient(
                name=f"{self.group_id}-{number}",
                host=f"/10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
                instance_id=f"{self.group_id}-i{known_as}" if self._script.static else None,
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

    def _hang(self, number: int, now_ms: int) -> None:
        client = self._clients[number]
        client.hangs = True
        life = client.life

        def give_up(at_ms: int) -> None:
            """What ``max.poll.interval.ms`` is for; it is also the rebalance timeout."""
            if client.life == life and client.hangs and client.modern:
                self._consumers.leave(client, at_ms)
            elif client.life == life and client.hangs and client.member_id and client.instance_id is None:
                self._ask(client, LeaveGroup(member_id=client.member_id), at_ms)
                client.member_id, client.generation, client.owned = "", -1, ()

        self._plan(now_ms + self._script.rebalance_timeout_ms, give_up)

    def _wake(self, number: int, now_ms: int) -> None:
        client = self._clients[number]
        client.hangs = False
        called = self.coordinator.state is not Phase.STABLE or not client.member_id
        if client.alive and client.modern:
            self._plan_for(client, now_ms + 1, self._consumers.wake)
        elif client.alive and called and not client.waits:
            self._plan_for(client, now_ms + 1, self._join)

    # -- what a client does

    def _ask(self, client: SimulatedClient, request: Request, now_ms: int) -> None:
        self._waiting[id(request)] = (request, client, client.starts)
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
            protocols=assignor.supported(self._topic, client.owned, cooperative=self._script.cooperative),
        )
        self._ask(client, request, now_ms)

    def _plan_tick(self, client: SimulatedClient, now_ms: int) -> None:
        life = client.life
        most_ms = self._script.session_timeout_ms * 2 // 3
        interval_ms = min(max(client.commits_at_ms - now_ms, self._script.commit_interval_ms), most_ms)

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
        if client.hangs or not owned or now_ms < client.commits_at_ms:
            if client.modern:
                return
            beat = ClassicHeartbeat(
                member_id=client.member_id, instance_id=client.instance_id, generation=client.generation
            )
            self._ask(client, beat, now_ms)
            return
        if self._script.irregular:
            times = _LONGEST ** self._numbers.random()
            client.commits_at_ms = now_ms + int(times * self._script.commit_interval_ms)
        self._commit(client, owned, now_ms)

    def _commit(self, client: SimulatedClient, owned: tuple[int, ...], now_ms: int) -> None:
        before = [self._read[partition] for partition in owned]
        if self._numbers.random() >= self._script.repeats:
            self._consume(owned, now_ms)
        producer_id = self._producer()
        commits = tuple(
            Commit(topic=self._topic, partition=partition, offset=self._read[partition])
            for partition in owned
        )
        request = OffsetCommit(
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=client.generation,
            commits=commits,
            producer_id=producer_id,
        )
        self._ask(client, request, now_ms)
        if producer_id is not None:
            self._plan_end(client, producer_id, dict(zip(owned, before, strict=True)), now_ms)

    def _consume(self, owned: tuple[int, ...], now_ms: int) -> None:
        poisoned_ms = self._script.poisoned_ms
        poisoned = poisoned_ms is not None and now_ms >= self._begin_ms + poisoned_ms
        for partition in owned:
            if partition or not poisoned:
                self._read[partition] += self._numbers.randrange(1, 500)

    def _producer(self) -> int | None:
        """The id of the producer that commits; None where the consumer does so itself."""
        committer = self._script.committer
        itself = committer is Committer.CONSUMERS or (
            committer is Committer.BOTH and self._numbers.random() < 1 / 2
        )
        return None if itself else self._numbers.getrandbits(40)

    def _plan_end(
        self, client: SimulatedClient, producer_id: int, before: Mapping[int, int], now_ms: int
    ) -> None:
        """The transaction ends soon, or, where the client is gone by then, at its timeout."""
        life = client.life
        ends = EndTransaction(producer_id=producer_id, committed=self._numbers.random() >= _FAILING)

        def end(at_ms: int) -> None:
            if client.life != life:
                aborted = EndTransaction(producer_id=producer_id, committed=False)
                self._plan(
                    now_ms + _TRANSACTION_TIMEOUT_MS, lambda late_ms: self._ask(client, aborted, late_ms)
                )
                return
            if not ends.committed:
                for partition in client.owned:
                    self._read[partition] = before.get(partition, self._read[partition])
            self._ask(client, ends, at_ms)

        self._plan(now_ms + self._numbers.randrange(10, 500), end)

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
            _, client, start = self._waiting.pop(id(reply.request))
            # An answer to the process before this one reaches nobody.
            if client.alive and client.starts == start and type(reply.request) in _ANSWERED:
                _ANSWERED[type(reply.request)](self, client, reply.answer, now_ms)
        if any(change.after is Phase.PREPARING_REBALANCE for change in outcome.changes):
            self._call_back(now_ms)
        self._consumers.hear(outcome.changes, self._clients.values(), now_ms)

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
            self._begin_again(client, answer.error, now_ms)
            return
        client.member_id, client.generation = answer.member_id, answer.generation
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        assignments = self._assigned(answer.members) if leads else ()
        takes_ms = self._numbers.randrange(20, 300) if leads else self._numbers.randrange(1, 20)
        self._plan_for(client, now_ms + takes_ms, lambda one, at_ms: self._sync(one, assignments, at_ms))

    def _assigned(self, members: assignor.Members) -> tuple[tuple[str, bytes], ...]:
        script = self._script
        return assignor.assigned(members, self._topic, script.partitions, cooperative=script.cooperative)

    def _synced(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        client.waits = False
        if answer.error is Error.REBALANCE_IN_PROGRESS:
            self._plan_for(client, now_ms + 1 + self._numbers.randrange(100), self._join)
        elif answer.error is not Error.NONE:
            self._begin_again(client, answer.error, now_ms)
        else:
            before, client.owned = client.owned, assignor.owned(answer.assignment)
            if self._script.cooperative and not set(before) <= set(client.owned):
                # What was given up can be dealt out now.
                self._plan_for(client, now_ms + 1 + self._numbers.randrange(50), self._join)
            elif self._consumers.in_charge:
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
            self._begin_again(client, answer.error, now_ms)

    def _begin_again(self, client: SimulatedClient, error: Error, now_ms: int) -> None:
        """Join again, under another id unless it was only the generation that was wrong, or the broker."""
        if error is Error.FENCED_INSTANCE_ID:
            client.alive, client.waits = False, False
            return
        if error is not Error.NOT_COORDINATOR:
            client.generation, client.owned = -1, ()
        if error not in (Error.NOT_COORDINATOR, Error.ILLEGAL_GENERATION):
            client.member_id = ""
        self._plan_for(client, now_ms + _RETRY_MS + self._numbers.randrange(_RETRY_MS), self._join)


_VERBS: Final[Mapping[Verb, Callable[[SimulatedGroup, int, int], None]]] = {
    Verb.START: SimulatedGroup._start,
    Verb.STOP: SimulatedGroup._stop,
    Verb.KILL: SimulatedGroup._kill,
    Verb.HANG: SimulatedGroup._hang,
    Verb.WAKE: SimulatedGroup._wake,
}
#: To a client that leaves, or ends a transaction, the answer means nothing.
_ANSWERED: Final[Mapping[type[Request], Callable[[SimulatedGroup, SimulatedClient, Answer, int], None]]] = {
    JoinGroup: SimulatedGroup._joined,
    SyncGroup: SimulatedGroup._synced,
    ClassicHeartbeat: SimulatedGroup._acknowledged,
    OffsetCommit: SimulatedGroup._acknowledged,
    ConsumerGroupHeartbeat: lambda group, client, answer, now_ms: group._consumers.answered(
        client, answer, now_ms
    ),
}
