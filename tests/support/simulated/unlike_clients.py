"""Simulated groups whose clients differ from each other, or do what no setting of the simulation describes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec import structs

from groupreplay.codecs import Assignment, Subscription, TopicPartitions, encode_blob
from groupreplay.coordinator.consumer.assignors import AssignedMember, AssignorInput, uniform
from groupreplay.coordinator.requests import Answer, JoinGroup, Protocol, Request, Settings, SyncGroup
from groupreplay.coordinator.simulation.consumer import SimulatedClient
from groupreplay.coordinator.simulation.script import Script
from groupreplay.coordinator.simulation.simulated_group import AnswerHandler, SimulatedGroup

#: The partitions of each topic.
Topics = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """How clients differ. Clients are numbered from 0.

    ``timeouts``: fields of the JoinGroup of single clients (``session_timeout_ms``, ``rebalance_timeout_ms``).
    ``new_ids``: each start of a client has an instance id of its own. ``leader_ms``: how long a leader needs for the
    assignment, in turn. ``topics``: to which all subscribe, assigned as ``assignor`` says (``range`` or ``uniform``);
    ``more_topics``: to which single clients are subscribed beside. ``staying``: numbers of groups whose clients stop
    for nobody.
    """

    timeouts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    new_ids: bool = False
    leader_ms: Sequence[int] = ()
    topics: Topics = field(default_factory=dict)
    assignor: str = "range"
    more_topics: Mapping[int, str] = field(default_factory=dict)
    staying: frozenset[str] = frozenset()


class UnlikeGroup(SimulatedGroup):
    """A group with such clients."""

    def __init__(
        self,
        unlike: Unlike,
        group_id: str,
        script: Script,
        settings: Settings,
        begin_ms: int,
        numbers: random.Random,
    ) -> None:
        super().__init__(group_id, script, settings, begin_ms, numbers)
        self.unlike = unlike
        self._assigned_times = 0

    def _start(self, number: int, now_ms: int) -> None:
        super()._start(number, now_ms)
        client = self._clients[number]
        if self.unlike.new_ids:
            # It joins later: the new process has this id, and an address of its own.
            client.instance_id = f"{self.group_id}-{number}-{client.starts}"
            client.host = f"/10.7.{number}.{client.starts}"

    def _stop(self, number: int, now_ms: int) -> None:
        if self.group_id not in self.unlike.staying:
            super()._stop(number, now_ms)

    def _hang(self, number: int, now_ms: int) -> None:
        script = self._script
        own: Mapping[str, Any] = self.unlike.timeouts.get(number, {})
        self._script = replace(script, **own)
        super()._hang(number, now_ms)
        self._script = script

    def _send(
        self, client: SimulatedClient, request: Request, now_ms: int, then: AnswerHandler | None = None
    ) -> None:
        if isinstance(request, JoinGroup):
            request = self._own_join(client, request)
        if not isinstance(request, SyncGroup) or not request.assignments:
            super()._send(client, request, now_ms, then)
            return
        if self.unlike.topics:
            members = [member_id for member_id, _ in request.assignments]
            shares = assigned(self.unlike.assignor, members, self.unlike.topics)
            request = structs.replace(
                request, assignments=tuple((name, _blob(shares[name])) for name in members)
            )
        waits_ms = self.unlike.leader_ms
        wait_ms = waits_ms[self._assigned_times % len(waits_ms)] if waits_ms else 0
        self._assigned_times += 1
        send = partial(super()._send, client, request, then=then)
        if not wait_ms:
            send(now_ms)
            return
        start = client.incarnation
        self._schedule(now_ms + wait_ms, lambda at_ms: send(at_ms) if client.incarnation == start else None)

    def _own_join(self, client: SimulatedClient, request: JoinGroup) -> JoinGroup:
        number = next(number for number, each in self._clients.items() if each is client)
        unlike, own = self.unlike, dict[str, Any](self.unlike.timeouts.get(number, {}))
        topics = (*(unlike.topics or (self._topic,)), *filter(None, [unlike.more_topics.get(number)]))
        if unlike.topics or unlike.more_topics:
            subscription = encode_blob(Subscription(version=1, topics=topics, owned_partitions=()))
            own["protocols"] = tuple(Protocol(each.name, subscription) for each in request.protocols)
        return structs.replace(request, **own)

    def ask(self, request: Request, now_ms: int) -> Answer:
        """The coordinator's answer to somebody who is no member."""
        outcome = self.coordinator.handle(request, now_ms)
        return outcome.replies[0].answer


def assigned(assignor: str, members: Sequence[str], topics: Topics) -> dict[str, dict[str, list[int]]]:
    """By member: its partitions by topic. ``range`` as Kafka's ``RangeAssignor``, ``uniform`` as the broker's."""
    if assignor == "range":
        return _by_range(sorted(members), topics)
    ids = {name.encode().ljust(16)[:16]: name for name in topics}
    assert len(ids) == len(topics), "names of topics are at most 16 characters"
    group = AssignorInput(
        members={
            name: AssignedMember(instance_id=None, topics=frozenset(ids), target=frozenset())
            for name in sorted(members)
        },
        partitions={topic_id: topics[name] for topic_id, name in ids.items()},
        homogeneous=True,
        assigned=frozenset(),
    )
    shares: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    for member, target in uniform(group).items():
        for topic_id, number in sorted(target):
            shares[member].setdefault(ids[topic_id], []).append(number)
    return shares


def _by_range(members: Sequence[str], topics: Topics) -> dict[str, dict[str, list[int]]]:
    shares: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    for topic, partitions in topics.items():
        each, more = divmod(partitions, len(members))
        begin = 0
        for place, member in enumerate(members):
            count = each + (place < more)
            if count:
                shares[member][topic] = list(range(begin, begin + count))
            begin += count
    return shares


def _blob(share: Mapping[str, Sequence[int]]) -> bytes:
    partitions = tuple(
        TopicPartitions(topic=topic, partitions=tuple(numbers)) for topic, numbers in share.items()
    )
    return encode_blob(Assignment(version=1, assigned_partitions=partitions))
