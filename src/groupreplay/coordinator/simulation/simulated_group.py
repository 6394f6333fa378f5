"""One simulated group: its coordinator, and clients that follow a script.

A client joins, syncs, commits, and rejoins when it notices a rebalance. Heartbeats that change nothing are not
simulated: a client notices a rebalance within ``heartbeat.interval.ms``.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import (
    RETRIABLE,
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Outcome,
    PartitionState,
    Request,
    Settings,
    SyncGroup,
)
from groupreplay.coordinator.simulation import consumer
from groupreplay.coordinator.simulation.commits import Commits
from groupreplay.coordinator.simulation.consumer import ConsumerProtocolClients, SimulatedClient, topic_id
from groupreplay.coordinator.simulation.pace import notice_delay_ms, sync_delay_ms
from groupreplay.coordinator.simulation.script import DEFAULT_CLOSE, REMAIN_IN_GROUP, ClientAction, Script

#: The delay before a client tries again.
_RETRY_MS: Final = 1_000
#: The longest time between irregular commits, in commit intervals.
_LONGEST: Final = 240

#: What follows from an answer, whatever has become of the client.
AnswerHandler = Callable[[Answer, int], None]


class SimulatedGroup:
    """One group and its clients, from ``begin_ms`` on."""

    def __init__(
        self, group_id: str, script: Script, settings: Settings, begin_ms: int, numbers: random.Random
    ) -> None:
        self.group_id = group_id
        self._topic = f"{group_id}-input"
        topics = {self._topic: Topic(topic_id(self._topic), script.partitions)}
        topics |= {name: Topic(topic_id(name), 1) for name in script.second_topics(group_id)}
        self.coordinator = Coordinator(group_id, settings, numbers, topics)
        self._script = script
        self._numbers = numbers
        self._begin_ms = begin_ms
        self._clients: dict[int, SimulatedClient] = {}
        self._agenda: list[tuple[int, int, Callable[[int], None]]] = []
        self._scheduled = 0
        self._outcomes: list[Outcome] = []
        #: Requests without an answer, by identity, with the client and the number of its start.
        self._waiting: dict[int, tuple[Request, SimulatedClient, int, AnswerHandler | None]] = {}
        self._consumers = ConsumerProtocolClients(
            coordinator=self.coordinator,
            topic=self._topic,
            script=script,
            numbers=numbers,
            send=self._send,
            schedule=self._schedule_client,
        )
        self._commits = Commits(
            topic=self._topic,
            script=script,
            numbers=numbers,
            begin_ms=begin_ms,
            send=self._send,
            schedule=self._schedule,
        )
        for step in script.steps:
            action = partial(getattr(self, _ACTIONS[step.action]), step.client)
            self._schedule(begin_ms + step.at_ms, action)
        if script.mirror_interval_ms is not None:
            self._schedule(begin_ms + numbers.randrange(script.mirror_interval_ms), self._mirror)

    def next_ms(self) -> int | None:
        """The time of the next action or timer; None when there is none."""
        due_ms = self.coordinator.timers.next_deadline_ms()
        scheduled_ms = self._agenda[0][0] if self._agenda else due_ms
        return scheduled_ms if due_ms is None or scheduled_ms is None else min(due_ms, scheduled_ms)

    def run(self, now_ms: int) -> list[Outcome]:
        """Run everything that is due at this time, which ``next_ms`` has returned, and return the outcomes."""
        due_ms = self.coordinator.timers.next_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._handle_outcome(self.coordinator.advance(now_ms), now_ms)
        while self._agenda and self._agenda[0][0] <= now_ms:
            heapq.heappop(self._agenda)[2](now_ms)
        return self._take_outcomes()

    def move(self, now_ms: int) -> list[Outcome]:
        """Another broker becomes the coordinator at once."""
        return [*self.unload(now_ms), *self.begin_loading(now_ms), *self.load(now_ms)]

    def unload(self, now_ms: int) -> list[Outcome]:
        """The broker leads the group's partition no more."""
        self._handle_outcome(self.coordinator.unload(now_ms), now_ms)
        return self._take_outcomes()

    def begin_loading(self, now_ms: int) -> list[Outcome]:
        """Another broker leads the group's partition and begins to load it."""
        self._handle_outcome(self.coordinator.begin_loading(now_ms), now_ms)
        return self._take_outcomes()

    def load(self, now_ms: int) -> list[Outcome]:
        """The broker has loaded the group's partition."""
        self._handle_outcome(self.coordinator.load(now_ms), now_ms)
        return self._take_outcomes()

    def fail_appends(self, error: Error | None, now_ms: int) -> list[Outcome]:
        """From now on appends fail with this error; None: they succeed again."""
        self._handle_outcome(self.coordinator.advance(now_ms), now_ms)
        self.coordinator.fail_appends(error)
        return self._take_outcomes()

    def clean_up(self, now_ms: int) -> list[Outcome]:
        """The broker checks for expired offsets."""
        self._handle_outcome(self.coordinator.clean_up(now_ms), now_ms)
        return self._take_outcomes()

    def _take_outcomes(self) -> list[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    # -- the agenda

    def _schedule(self, at_ms: int, action: Callable[[int], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._agenda, (at_ms, self._scheduled, action))

    def _schedule_client(
        self, client: SimulatedClient, at_ms: int, action: Callable[[SimulatedClient, int], None]
    ) -> None:
        """Schedule a client's next action; it replaces one that was scheduled before."""
        client.schedule_number += 1
        number = client.schedule_number

        def act(now_ms: int) -> None:
            if client.running and client.schedule_number == number:
                action(client, now_ms)

        self._schedule(at_ms, act)

    # -- the actions of the script

    def _start(self, number: int, now_ms: int) -> None:
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = SimulatedClient.of(self.group_id, number, self._script)
        client.begin(self._script)
        client.second = self._script.second_topic(self.group_id, number, client.starts)
        self._schedule_tick(client, now_ms)
        if not self._script.simple:
            begin = self._consumers.join if client.kip848 else self._join
            self._schedule_client(client, now_ms + self._numbers.randrange(50), begin)

    def _stop(self, number: int, now_ms: int) -> None:
        client = self._clients[number]
        if client.running:
            if client.owned and not client.hanging and self._script.commits_on_close:
                self._commits.commit(client, client.owned, now_ms)
            self._leave(client, now_ms, self._script.close)
        self._crash(number, now_ms)

    def _leave(self, client: SimulatedClient, now_ms: int, close: str = DEFAULT_CLOSE) -> None:
        stays = client.instance_id is not None if close == DEFAULT_CLOSE else close == REMAIN_IN_GROUP
        if client.kip848:
            self._consumers.leave(client, now_ms, close)
        elif client.member_id and not stays:
            leave = LeaveGroup.of(member_id=client.member_id, instance_id=client.instance_id)
            self._send(client, leave, now_ms)
            client.forget_membership()

    def _crash(self, number: int, _now_ms: int) -> None:
        client = self._clients[number]
        client.running, client.waiting = False, False
        client.incarnation += 1

    def _hang(self, number: int, now_ms: int) -> None:
        client = self._clients[number]
        hang = client.hang()

        def give_up(at_ms: int) -> None:
            """Leave after ``max.poll.interval.ms``, which is also the rebalance timeout."""
            if client.hanging and hang == (client.incarnation, client.hangs):
                self._leave(client, at_ms)

        self._schedule(now_ms + self._script.rebalance_timeout_ms, give_up)

    def _resume(self, number: int, now_ms: int) -> None:
        client = self._clients[number]
        client.hanging = False
        must_join = self.coordinator.state is not Phase.STABLE or not client.member_id
        if client.running and client.kip848:
            self._schedule_client(client, now_ms + 1, self._consumers.resume)
        elif client.running and must_join and not client.waiting:
            self._schedule_client(client, now_ms + 1, self._join)

    # -- requests

    def _send(
        self, client: SimulatedClient, request: Request, now_ms: int, then: AnswerHandler | None = None
    ) -> None:
        self._waiting[id(request)] = (request, client, client.starts, then)
        self._handle_outcome(self.coordinator.handle(request, now_ms), now_ms)

    def _join(self, client: SimulatedClient, now_ms: int) -> None:
        client.waiting = True
        request = JoinGroup(
            member_id=client.member_id,
            instance_id=client.instance_id,
            client_id=client.name,
            client_host=client.host,
            session_timeout_ms=self._script.session_timeout_ms,
            rebalance_timeout_ms=self._script.rebalance_timeout_ms,
            protocols=consumer.supported(self._topic, client.owned, self._script.strategies, client.second),
        )
        self._send(client, request, now_ms)

    def _rejoin(self, client: SimulatedClient, now_ms: int) -> None:
        """Commit, if the client does that by itself, and join again."""
        if client.owned and self._script.commits_before_joining:
            client.waiting = True
            self._commits.commit(client, client.owned, now_ms)
        self._join(client, now_ms)

    def _schedule_tick(self, client: SimulatedClient, now_ms: int) -> None:
        incarnation = client.incarnation
        # Heartbeats are not simulated one by one, but a session must not end between two commits.
        most_ms = max(self._script.session_timeout_ms * 2 // 3, self._script.heartbeat_interval_ms)
        interval_ms = min(max(client.next_commit_ms - now_ms, self._script.commit_interval_ms), most_ms)

        def tick(at_ms: int) -> None:
            if client.incarnation == incarnation and client.running:
                self._tick(client, at_ms)
                self._schedule_tick(client, at_ms)

        self._schedule(now_ms + interval_ms, tick)

    def _tick(self, client: SimulatedClient, now_ms: int) -> None:
        """Commit the owned partitions; send a heartbeat where no commit keeps the session."""
        simple = self._script.simple
        if client.waiting or (client.generation < 0 and not simple):
            return
        owned = (0,) if simple else client.owned
        keeps_session = False
        if owned and not client.hanging and now_ms >= client.next_commit_ms:
            if self._script.irregular:
                times = _LONGEST ** self._numbers.random()
                client.next_commit_ms = now_ms + int(times * self._script.commit_interval_ms)
            keeps_session = self._commits.commit(client, owned, now_ms)
        if not (keeps_session or simple or client.kip848 or client.waiting):
            self._send(client, client.classic_heartbeat(), now_ms)

    def _mirror(self, now_ms: int) -> None:
        """A tool sets the offsets while the group has no members."""
        assert self._script.mirror_interval_ms is not None
        self._schedule(now_ms + self._script.mirror_interval_ms, self._mirror)
        group = self.coordinator.group
        if group is None or group.is_empty:
            self._commits.mirror(now_ms)

    def _sync(self, client: SimulatedClient, assignments: tuple[tuple[str, bytes], ...], now_ms: int) -> None:
        client.waiting = True
        request = SyncGroup(
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=client.generation,
            assignments=assignments,
        )
        self._send(client, request, now_ms)

    # -- answers

    def _handle_outcome(self, outcome: Outcome, now_ms: int) -> None:
        if outcome.operations or outcome.changes or outcome.trace:
            self._outcomes.append(outcome)
        for reply in outcome.replies:
            _, client, start, then = self._waiting.pop(id(reply.request))
            # An answer to a request of an earlier process is lost.
            if client.running and client.starts == start and type(reply.request) in _ANSWER_HANDLERS:
                _ANSWER_HANDLERS[type(reply.request)](self, client, reply.answer, now_ms)
            if then is not None:
                then(reply.answer, now_ms)
        if outcome.changes:
            if any(change.after is Phase.PREPARING_REBALANCE for change in outcome.changes):
                self._schedule_rejoins(now_ms)
            self._consumers.notify(outcome.changes, self._clients.values(), now_ms)

    def _schedule_rejoins(self, now_ms: int) -> None:
        """Members notice the rebalance with their next heartbeat; members with an open request already take part."""
        for client in self._clients.values():
            if client.running and client.generation >= 0 and not client.waiting and not client.hanging:
                after_ms = notice_delay_ms(self._script, self._numbers, now_ms - client.assigned_ms)
                self._schedule_client(client, now_ms + after_ms, self._notice_rebalance)

    def _notice_rebalance(self, client: SimulatedClient, now_ms: int) -> None:
        """The answer to a heartbeat: rejoin, unless the coordinator has moved and lost the rebalance."""
        if self.coordinator.partition is not PartitionState.ACTIVE:
            self._schedule_client(client, now_ms + _RETRY_MS, self._notice_rebalance)
            return
        group = self.coordinator.group
        stable = isinstance(group, ClassicGroup) and group.state is Phase.STABLE
        if group is None or not stable or client.member_id not in group.members:
            self._rejoin(client, now_ms)

    def _on_join_answer(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        client.waiting = False
        if answer.error is Error.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self._schedule_client(client, now_ms + 1 + self._numbers.randrange(20), self._join)
            return
        if answer.error is not Error.NONE:
            self._rejoin_after(client, answer.error, now_ms)
            return
        client.member_id, client.generation = answer.member_id, answer.generation
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        assignments = self._assigned(answer) if leads else ()
        sync_ms = now_ms + sync_delay_ms(self._script, self._numbers, leads=leads)
        self._schedule_client(client, sync_ms, lambda member, at_ms: self._sync(member, assignments, at_ms))

    def _assigned(self, answer: Answer) -> tuple[tuple[str, bytes], ...]:
        return consumer.assigned(answer.members, self._topic, self._script.partitions, answer.protocol)

    def _on_sync_answer(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        client.waiting, client.assigned_ms = False, now_ms
        if answer.error is Error.REBALANCE_IN_PROGRESS:
            self._schedule_client(client, now_ms + 1 + self._numbers.randrange(100), self._join)
        elif answer.error is not Error.NONE:
            self._rejoin_after(client, answer.error, now_ms)
        else:
            before, client.owned = client.owned, consumer.owned(answer.assignment, self._topic)
            client.owns_second = bool(client.second and consumer.owned(answer.assignment, client.second))
            # The revoked partitions can be assigned in a second rebalance.
            if consumer.is_cooperative(self._script.strategies) and not set(before) <= set(client.owned):
                self._schedule_client(client, now_ms + 1 + self._numbers.randrange(50), self._join)
            elif self._consumers.is_consumer_group:
                self._consumers.schedule_next_heartbeat(client, now_ms)

    def _on_acknowledgement(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """The answer to a commit or a heartbeat."""
        # A KIP-848 client gets the same error with its next heartbeat.
        if client.kip848 or client.waiting or answer.error in (Error.NONE, *RETRIABLE):
            return
        if answer.error is not Error.REBALANCE_IN_PROGRESS:
            if not client.hanging:
                self._rejoin_after(client, answer.error, now_ms)
        elif self._consumers.is_consumer_group:
            self._schedule_client(client, now_ms + 1 + self._numbers.randrange(100), self._join)

    def _rejoin_after(self, client: SimulatedClient, error: Error, now_ms: int) -> None:
        """Rejoin after an error, with a new member id unless only the generation or the coordinator was wrong."""
        if error is Error.FENCED_INSTANCE_ID:
            client.running, client.waiting = False, False
            return
        if error in RETRIABLE:
            # The client is still a member, and commits nothing before it has joined again.
            client.waiting = True
        else:
            client.generation, client.owned = -1, ()
        if error not in (*RETRIABLE, Error.ILLEGAL_GENERATION):
            client.member_id = ""
        self._schedule_client(client, now_ms + _RETRY_MS + self._numbers.randrange(_RETRY_MS), self._join)


#: What each action does, by its name, so that a subclass may do it in its own way.
_ACTIONS: Final = {
    ClientAction.START: "_start",
    ClientAction.STOP: "_stop",
    ClientAction.CRASH: "_crash",
    ClientAction.HANG: "_hang",
    ClientAction.RESUME: "_resume",
}
#: Answers to other requests are ignored.
_ANSWER_HANDLERS: Final[
    Mapping[type[Request], Callable[[SimulatedGroup, SimulatedClient, Answer, int], None]]
] = {
    JoinGroup: SimulatedGroup._on_join_answer,
    SyncGroup: SimulatedGroup._on_sync_answer,
    ClassicHeartbeat: SimulatedGroup._on_acknowledgement,
    OffsetCommit: SimulatedGroup._on_acknowledgement,
    ConsumerGroupHeartbeat: lambda group, client, answer, now_ms: group._consumers.handle_answer(
        client, answer, now_ms
    ),
}
