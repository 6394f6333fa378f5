"""The commits of one simulated group: of its members, in transactions, and of a tool that mirrors it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from groupreplay.coordinator.requests import (
    RETRIABLE,
    Answer,
    Commit,
    EndTransaction,
    Error,
    OffsetCommit,
    Request,
)
from groupreplay.coordinator.simulation.consumer import SimulatedClient
from groupreplay.coordinator.simulation.script import Script

#: The share of transactions that fail, and the time after which the brokers abort one whose producer has ended.
_FAILING: Final = 0.05
_TRANSACTION_TIMEOUT_MS: Final = 60_000
#: The delay before a commit, or the end of a transaction, is tried again.
_RETRY_MS: Final = 1_000
#: Sends a client's request; the answer is handled by the last argument, now or later.
SendCommit = Callable[[SimulatedClient, Request, int, Callable[[Answer, int], None]], None]


class _Unanswered(Struct, frozen=True):
    """A commit that is repeated until it is answered, as long as its client is the same member.

    It is no pair of closures that refer to each other, which only the collector of cycles would free.
    """

    client: SimulatedClient
    request: OffsetCommit
    #: The offsets before the commit.
    before: Mapping[int, int]
    incarnation: int
    generation: int


@dataclass(slots=True, kw_only=True)
class Commits:
    """Offsets of one topic. ``send`` sends a request, ``schedule`` schedules an action at a time."""

    topic: str
    script: Script
    numbers: random.Random
    begin_ms: int
    send: SendCommit
    schedule: Callable[[int, Callable[[int], None]], None]
    #: The next offset of each partition.
    read: list[int] = field(init=False)
    #: The next offset of each second topic.
    _second: dict[str, int] = field(default_factory=dict)
    #: The newest commit of each client.
    _newest: dict[str, OffsetCommit] = field(default_factory=dict)
    #: The tool that mirrors the group; it is no member.
    tool: SimulatedClient = field(
        default_factory=lambda: SimulatedClient(name="mirror", host="/10.255.255.255", instance_id=None)
    )

    def __post_init__(self) -> None:
        self.read = [0] * self.script.partitions

    def commit(self, client: SimulatedClient, owned: Sequence[int], now_ms: int) -> bool:
        """A client, or its producer, commits the offsets of these partitions; whether it was the client.

        A client's own commit keeps its session. One in a transaction does not
        (``OffsetMetadataManager.commitTransactionalOffset``).
        """
        before = {partition: self.read[partition] for partition in owned}
        if self.numbers.random() >= self.script.repeats:
            self._consume(owned, now_ms)
        by_producer = self.script.committer.is_producer(self.numbers)
        producer_id = self.numbers.getrandbits(40) if by_producer else None
        metadata = "m" * self.script.metadata_bytes
        commits = tuple(
            [
                Commit(topic=self.topic, partition=partition, offset=self.read[partition], metadata=metadata)
                for partition in owned
            ]
        )
        if client.owns_second and client.second is not None:
            self._second[client.second] = self._second.get(client.second, 0) + self.numbers.randrange(1, 500)
            commits += (Commit(topic=client.second, partition=0, offset=self._second[client.second]),)
        request = OffsetCommit(
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=client.generation,
            commits=commits,
            producer_id=producer_id,
        )
        old = self.script.retention_time_ms >= 0 and not by_producer and not client.kip848
        if old:
            # Requests of these versions do not name the instance.
            request = replace(request, instance_id=None, retention_ms=self.script.retention_time_ms)
        self._send_until_answered(client, request, before, now_ms)
        return not by_producer

    def mirror(self, now_ms: int) -> None:
        """A tool sets all offsets without being a member, as those of the group in another cluster."""
        partitions = range(self.script.partitions)
        self._consume(partitions, now_ms)
        commits = tuple(
            Commit(topic=self.topic, partition=partition, offset=self.read[partition])
            for partition in partitions
        )
        self.send(self.tool, OffsetCommit(commits=commits), now_ms, _ignore)

    def _send_until_answered(
        self, client: SimulatedClient, request: OffsetCommit, before: Mapping[int, int], now_ms: int
    ) -> None:
        """Repeat the request until a coordinator has handled it, unless the client commits again or joins before.

        Then a producer ends its transaction.
        """
        self._newest[client.name] = request
        self._send(_Unanswered(client, request, before, client.incarnation, client.generation), now_ms)

    def _send(self, sent: _Unanswered, now_ms: int) -> None:
        self.send(sent.client, sent.request, now_ms, partial(self._handle, sent))

    def _handle(self, sent: _Unanswered, answer: Answer, now_ms: int) -> None:
        producer_id = sent.request.producer_id
        if answer.error in RETRIABLE:
            again_ms = now_ms + _RETRY_MS + self.numbers.randrange(_RETRY_MS)
            self.schedule(again_ms, partial(self._repeat, sent))
        elif producer_id is not None:
            self._schedule_transaction_end(sent.client, producer_id, sent.before, now_ms)

    def _repeat(self, sent: _Unanswered, now_ms: int) -> None:
        client = sent.client
        same_member = client.incarnation == sent.incarnation and client.generation == sent.generation
        if same_member and self._newest[client.name] is sent.request:
            self._send(sent, now_ms)

    def _consume(self, owned: Sequence[int], now_ms: int) -> None:
        poisoned_ms = self.script.poisoned_ms
        poisoned = poisoned_ms is not None and now_ms >= self.begin_ms + poisoned_ms
        for partition in owned:
            if partition or not poisoned:
                self.read[partition] += self.numbers.randrange(1, 500)

    def _schedule_transaction_end(
        self, client: SimulatedClient, producer_id: int, before: Mapping[int, int], now_ms: int
    ) -> None:
        """End the transaction soon; if the client has ended by then, at the transaction timeout."""
        incarnation = client.incarnation
        ends = EndTransaction(producer_id=producer_id, committed=self.numbers.random() >= _FAILING)

        def end(at_ms: int) -> None:
            if client.incarnation != incarnation:
                aborted = EndTransaction(producer_id=producer_id, committed=False)
                self.schedule(
                    now_ms + _TRANSACTION_TIMEOUT_MS, lambda late_ms: self._end(client, aborted, late_ms)
                )
                return
            if not ends.committed:
                for partition in client.owned:
                    self.read[partition] = before.get(partition, self.read[partition])
            self._end(client, ends, at_ms)

        self.schedule(now_ms + self.numbers.randrange(10, 500), end)

    def _end(self, client: SimulatedClient, ends: EndTransaction, now_ms: int) -> None:
        """The transaction coordinator repeats its request until the marker is written."""

        def handle(answer: Answer, at_ms: int) -> None:
            if answer.error is not Error.NONE:
                again = EndTransaction(producer_id=ends.producer_id, committed=ends.committed)
                self.schedule(at_ms + _RETRY_MS, lambda later_ms: self._end(client, again, later_ms))

        self.send(client, ends, now_ms, handle)


def _ignore(_answer: Answer, _now_ms: int) -> None:
    """Nothing follows from the answer."""
