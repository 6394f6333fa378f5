"""What a simulated client does that speaks the consumer protocol (KIP-848), or is in a group that does.

Knows one heartbeat and its answer; must not know scripts, nor when other clients do something (`simulated_group`).
Heartbeats come as often as the brokers ask for while the group is on its way to a new assignment, and now and then
while it is not: then they only keep sessions.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from groupreplay.state.kafka_terms import ConsumerPhase, Phase
from groupreplay.state.model.consumer_group import AWAY, LEFT, ConsumerGroup, Topic
from groupreplay.state.model.coordinator import Coordinator
from groupreplay.state.model.requests import (
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    Request,
    StateChange,
)
from groupreplay.state.simulation.client import SimulatedClient

#: As ``group.consumer.heartbeat.interval.ms`` has it, and half of the shortest session.
_BUSY_INTERVAL_MS: Final = 5_000
_QUIET_INTERVAL_MS: Final = 20_000
#: How long an application takes to give partitions up.
_REVOKES_MS: Final = 800
_RETRY_MS: Final = 1_000
_BEGINS_AGAIN: Final = (
    Error.FENCED_MEMBER_EPOCH,
    Error.UNKNOWN_MEMBER_ID,
    Error.GROUP_ID_NOT_FOUND,
    Error.UNKNOWN_SERVER_ERROR,
)
#: States that a consumer group leaves when there is something new for its members; also those of the classic group
#: that it was.
_AT_REST: Final = (ConsumerPhase.STABLE, Phase.STABLE, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
#: Plans what a client does at a time, unless something else comes in between.
Plan = Callable[[SimulatedClient, int, Callable[[SimulatedClient, int], None]], None]
Ask = Callable[[SimulatedClient, Request, int], None]


def topic_id(name: str) -> bytes:
    """The id of a simulated topic."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def input_topic(name: str, partitions: int) -> dict[str, Topic]:
    """The one topic of the cluster that a simulated group reads."""
    return {name: Topic(topic_id(name), partitions)}


@dataclass(slots=True, kw_only=True)
class ConsumerSide:
    """Clients of one group. ``ask`` sends a request for a client, ``plan`` lets it do something later."""

    coordinator: Coordinator
    topic: str
    rebalance_timeout_ms: int
    numbers: random.Random
    ask: Ask
    plan: Plan

    @property
    def busy(self) -> bool:
        """Whether the group is a consumer group on its way to a new assignment."""
        return self.coordinator.state in (ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING)

    @property
    def in_charge(self) -> bool:
        """Whether the group is a consumer group."""
        return isinstance(self.coordinator.group, ConsumerGroup)

    def begin(self, client: SimulatedClient, now_ms: int) -> None:
        """A first heartbeat, under an id of the client's own."""
        if not client.member_id:
            client.member_id = f"{client.name}-{client.life}-{self.numbers.getrandbits(32):08x}"
        client.generation, client.owned = 0, ()
        request = ConsumerGroupHeartbeat(
            member_id=client.member_id,
            member_epoch=0,
            instance_id=client.instance_id,
            client_id=client.name,
            client_host=client.host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topics=(self.topic,),
            owned=frozenset(),
        )
        self.ask(client, request, now_ms)

    def leave(self, client: SimulatedClient, now_ms: int) -> None:
        """A client ends in order: a static one is away for a while."""
        if client.member_id and client.generation > 0:
            self.ask(client, self._heartbeat(client, LEFT if client.instance_id is None else AWAY), now_ms)
            client.member_id, client.generation, client.owned = "", -1, ()

    def wake(self, client: SimulatedClient, now_ms: int) -> None:
        """A client polls again: it is a member still and asks for all that it has missed, or begins anew."""
        if client.generation <= 0:
            self.begin(client, now_ms)
            return
        beat = self._heartbeat(client, client.generation)
        whole = replace(beat, rebalance_timeout_ms=self.rebalance_timeout_ms, topics=(self.topic,))
        self.ask(client, whole, now_ms)

    def beat(self, client: SimulatedClient, now_ms: int) -> None:
        """A heartbeat of a client, in the protocol that it speaks."""
        if client.waits:
            self._plan_beat(client, now_ms)
        elif client.modern:
            self.ask(client, self._heartbeat(client, client.generation), now_ms)
        elif self.in_charge:
            beat = ClassicHeartbeat(
                member_id=client.member_id, instance_id=client.instance_id, generation=client.generation
            )
            self.ask(client, beat, now_ms)
            if not client.waits:
                self._plan_beat(client, now_ms)

    def _heartbeat(self, client: SimulatedClient, epoch: int) -> ConsumerGroupHeartbeat:
        topic_id = self.coordinator.topics[self.topic].topic_id
        return ConsumerGroupHeartbeat(
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
            client_id=client.name,
            client_host=client.host,
            owned=None if epoch < 0 else frozenset((topic_id, number) for number in client.owned),
        )

    def _plan_beat(self, client: SimulatedClient, now_ms: int) -> None:
        interval_ms = _BUSY_INTERVAL_MS if self.busy else _QUIET_INTERVAL_MS
        self.plan(client, now_ms + interval_ms - self.numbers.randrange(500), self.beat)

    def call(self, client: SimulatedClient, now_ms: int) -> None:
        """The group has something new: a client hears of it with its next heartbeat."""
        self.plan(client, now_ms + 1 + self.numbers.randrange(_BUSY_INTERVAL_MS), self.beat)

    def hear(self, changes: Iterable[StateChange], clients: Iterable[SimulatedClient], now_ms: int) -> None:
        """Where a consumer group has begun to change, its members hear of it."""
        if self.busy and any(change.before in _AT_REST for change in changes):
            for client in clients:
                if client.alive and client.generation > 0 and not client.waits:
                    self.call(client, now_ms)

    def answered(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """What a client does with the answer to a heartbeat of the consumer protocol."""
        if answer.error is Error.UNRELEASED_INSTANCE_ID or answer.error is Error.GROUP_MAX_SIZE_REACHED:
            self.plan(client, now_ms + _RETRY_MS, self.begin)
        elif answer.error in _BEGINS_AGAIN:
            self.plan(client, now_ms + _RETRY_MS + self.numbers.randrange(_RETRY_MS), self.begin)
        elif answer.generation >= 0:
            self._follow(client, answer, now_ms)

    def _follow(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """Take what is new, or give up what is not among it; the broker is told at once."""
        client.generation = answer.generation
        if answer.assigned is None or client.hangs:
            self._plan_beat(client, now_ms)
            return
        owned = tuple(sorted(number for _, number in answer.assigned))
        if owned == client.owned:
            self._plan_beat(client, now_ms)
            return
        gives_up = not set(client.owned) <= set(owned)
        takes_ms = 1 + self.numbers.randrange(_REVOKES_MS if gives_up else 20)

        def acknowledge(one: SimulatedClient, at_ms: int) -> None:
            if not one.hangs:
                one.owned = owned
            self.beat(one, at_ms)

        self.plan(client, now_ms + takes_ms, acknowledge)
