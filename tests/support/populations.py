"""Populations of groups with what happens to them, as the messages of a job: for incidents across groups.

``INCIDENTS`` is the table of what is expected; it was written before the code that finds incidents.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupreplay.state import Context
from groupreplay.state.conditions.commits_paused import CommitsPaused
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuck
from groupreplay.state.events.event import Cause, Event, Fact, Severity
from groupreplay.state.events.group_events import GroupCreated, MemberLeft, RebalanceCompleted
from groupreplay.state.events.offset_events import OffsetsDeleted, OffsetsExpired, PartitionOffset
from groupreplay.state.output.envelope import cloud_event
from groupreplay.timeline.incident_signals import Item, LeaderSeen, document_items, event_items

SECOND = 1_000
MINUTE = 60 * SECOND
BEGIN = 1_767_225_600_000
#: What an incident begins at: there has been an hour of ordinary days before.
AT = BEGIN + 60 * MINUTE
CONTEXT = Context(cluster_id="test", era="e")


@dataclass(frozen=True, slots=True)
class Member:
    """A group with one member, and what it may share with others."""

    group: str
    partition: int
    topic: str
    host: str
    client: str


@dataclass
class Population:
    """Groups, and everything that was said of them so far."""

    groups: list[Member]
    items: list[Item] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    _count: int = 0

    @classmethod
    def of(cls, count: int, seed: int = 1, **same: Any) -> Population:
        """Groups that have been there for long, each with a client of its own on one of 20 hosts."""
        groups = [
            replace(
                Member(f"group-{i:04}", i % 50, f"topic-{i % 40}", f"/10.0.0.{i % 20}", f"app-{i}"), **same
            )
            for i in range(count)
        ]
        random.Random(seed).shuffle(groups)
        population = cls(groups)
        for group in groups:
            population.knows(group, BEGIN)
        for partition in range(50):
            population.leads(partition, 1 + partition % 3, BEGIN)
        return population

    def change(self, count: int, **fields: Any) -> list[Member]:
        """Gives so many groups something in common; returns them."""
        chosen = [replace(group, **fields) for group in self.groups[:count]]
        self.groups = [*self.groups[count:], *chosen]
        for group in chosen:
            self.knows(group, BEGIN + SECOND)
        return chosen

    def knows(self, group: Member, at_ms: int) -> None:
        """The document of a group."""
        document = _document(group, at_ms)
        self.documents.append(document)
        self.items += document_items(document)

    def leads(self, partition: int, broker: int, at_ms: int, error: str | None = None) -> None:
        """A round of the prober shows who leads a partition of the offsets topic."""
        self.items.append(
            LeaderSeen(
                at_ms=at_ms, earliest_ms=at_ms - 10 * SECOND, partition=partition, broker=broker, error=error
            )
        )

    def tell(self, group: Member, fact: Fact, at_ms: int, severity: Severity | None = None) -> None:
        """An event of the group."""
        self._count += 1
        cause = Cause(
            topic="__consumer_offsets", partition=group.partition, offset=self._count, timestamp_ms=at_ms
        )
        event = Event(
            fact=fact,
            group_id=group.group,
            time_ms=at_ms,
            cause=cause,
            place=(group.partition, self._count),
            severity=severity,
        )
        body = json.loads(cloud_event(event, CONTEXT, at_ms).value)
        self.bodies.append(body)
        self.items += event_items(body)

    def pauses(
        self, group: Member, since_ms: int, after_ms: int = 2 * MINUTE, until_ms: int | None = None
    ) -> None:
        """Its commits stop; that is told later, and also when they go on."""
        paused = CommitsPaused(
            status="firing",
            condition_id=f"{group.group}-commits.paused-{since_ms}",
            since_ms=since_ms,
            threshold_ms=after_ms,
            runbook="docs/runbook.md#commits-paused",
            until_ms=None,
            elapsed_ms=after_ms,
            usual_gap_ms=5_000,
            partitions={group.topic: "0-5"},
            partition_count=6,
        )
        self.tell(group, paused, since_ms + after_ms)
        if until_ms is not None:
            self.tell(group, replace(paused, status="resolved", until_ms=until_ms), until_ms)

    def sticks(self, group: Member, since_ms: int, until_ms: int) -> None:
        """A rebalance that does not end for long."""
        example = RebalanceStuck.EXAMPLES[0].fields
        stuck = RebalanceStuck(
            status="firing",
            condition_id=f"{group.group}-rebalance.stuck-{since_ms}",
            since_ms=since_ms,
            threshold_ms=30 * SECOND,
            runbook="docs/runbook.md#rebalance-stuck",
            **example,
        )
        self.tell(group, stuck, since_ms + 30 * SECOND)
        self.tell(group, replace(stuck, status="resolved"), until_ms)

    def rebalances(self, group: Member, at_ms: int, trigger: Any = "members_changed") -> None:
        """A rebalance is completed."""
        member = {
            "member_id": f"{group.client}-x",
            "client_id": group.client,
            "client_host": group.host,
            "instance_id": None,
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "topics": (group.topic,),
            "partitions": {group.topic: "0-5"},
        }
        nothing = dict.fromkeys(
            (
                *("skipped_generations", "protocol_type", "protocol", "previous_protocol", "leader"),
                *("previous_leader", "rebalance_timeout_ms", "rebalance_timeout_member", "joined", "left"),
                *("kept", "sync_ms", "join_ms_min", "join_ms_max", "duration_ms", "duration_upper_bound_ms"),
                *("silent_ms", "partitions_moved", "partitions_unassigned"),
            )
        )
        fact: Any = RebalanceCompleted(
            rebalance_id=f"e-{group.partition}-{self._count}",
            generation=2,
            previous_generation=1,
            members=(member,),  # type: ignore[arg-type]
            member_count=1,
            gone=(),
            trigger=trigger,
            **nothing,  # type: ignore[arg-type]
        )
        self.tell(group, fact, at_ms)

    def loses(self, group: Member, at_ms: int, host: str | None = None) -> None:
        """A member is removed that nobody had planned to stop."""
        left = MemberLeft(
            member_id="m",
            client_id=group.client,
            client_host=host or group.host,
            instance_id=None,
            reason="session_timeout",
            elapsed_ms=47_000,
            unplanned=True,
        )
        self.tell(group, left, at_ms)

    def deletes(self, group: Member, at_ms: int, reason: Any = "topic_deleted") -> None:
        """Its offsets are deleted."""
        lost = (PartitionOffset(topic=group.topic, partition=0, offset=7),)
        deleted = OffsetsDeleted(partitions=lost, partition_count=1, reason=reason, deadline_ms=None)
        self.tell(group, deleted, at_ms, Severity.WARN)

    def expires(self, group: Member, at_ms: int) -> None:
        """Its offsets expire."""
        lost = (PartitionOffset(topic=group.topic, partition=0, offset=7),)
        expired = OffsetsExpired(
            partitions=lost,
            partition_count=1,
            reason="retention",
            deadline_ms=at_ms,
            late_ms=0,
            check_interval_ms=600_000,
        )
        self.tell(group, expired, at_ms, Severity.WARN)

    def creates(self, group: Member, at_ms: int) -> None:
        """It is new."""
        self.tell(group, GroupCreated(generation=1, since_ms=at_ms), at_ms)

    def lives(self, seed: int = 2, every_ms: int = 20 * MINUTE, until_ms: int = AT + 60 * MINUTE) -> None:
        """What happens every day: each group rebalances now and then, and sometimes pauses."""
        draw = random.Random(seed)
        for group in self.groups:
            at_ms = BEGIN + draw.randrange(every_ms)
            while at_ms < until_ms:
                self.rebalances(group, at_ms)
                if draw.random() < 0.03:
                    self.pauses(group, at_ms + MINUTE, until_ms=at_ms + 5 * MINUTE)
                at_ms += int(draw.expovariate(1 / every_ms)) + SECOND


def _document(group: Member, at_ms: int) -> dict[str, Any]:
    member = {
        "client_id": group.client,
        "client_host": group.host,
        "partitions": {group.topic: "0-5"},
    }
    return {
        "cluster_id": "test",
        "group_id": group.group,
        "members": [member],
        "subscribed_topics": [group.topic],
        "log_position": {"partition": group.partition, "offset": 1, "timestamp_ms": at_ms},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An incident as a reader would name it: how many groups, what they share, what happened to most, and its proof."""

    groups: int
    shared: str
    kind: str
    severity: str
    certainty: str


@dataclass(frozen=True, slots=True)
class Story:
    """What happens, and the incidents that it is."""

    name: str
    tell: Callable[[], Population]
    expected: tuple[Expected, ...] = ()


def _story(*expected: Expected) -> Callable[[Callable[[], Population]], Story]:
    def make(tell: Callable[[], Population]) -> Story:
        return Story(tell.__name__.replace("_", " "), tell, expected)

    return make


def _spread(groups: Sequence[Member], over_ms: int, at_ms: int = AT) -> Iterable[tuple[Member, int]]:
    """Each group with a time, all within ``over_ms``."""
    return [(group, at_ms + i * over_ms // max(len(groups) - 1, 1)) for i, group in enumerate(groups)]


@_story(
    Expected(
        groups=30, shared="partition 12", kind="rebalance.completed", severity="INFO", certainty="proven"
    )
)
def a_coordinator_moves() -> Population:
    """A coordinator moves."""
    population = Population.of(600)
    chosen = population.change(30, partition=12)
    rest = [group for group in population.groups if group.partition == 12 and group not in chosen]
    population.groups = [group for group in population.groups if group not in rest]
    population.lives()
    for group in rest:  # they belong to other partitions, so that the count is exact
        population.knows(replace(group, partition=13), BEGIN + 2 * SECOND)
    for group, at_ms in _spread(chosen, 20 * SECOND):
        population.rebalances(group, at_ms)
    population.leads(12, 3, AT + 5 * SECOND)
    return population


@_story(
    Expected(
        groups=30, shared="partition 12", kind="rebalance.completed", severity="INFO", certainty="inferred"
    )
)
def a_coordinator_moves_and_nobody_asked_the_brokers() -> Population:
    """A coordinator moves and nobody asked the brokers."""
    population = a_coordinator_moves.tell()
    population.items = [item for item in population.items if not isinstance(item, LeaderSeen)]
    return population


@_story(Expected(groups=80, shared="broker 2", kind="commits.paused", severity="INFO", certainty="proven"))
def a_broker_is_gone() -> Population:
    """A broker is gone."""
    population = Population.of(240)
    population.lives()
    hit = [group for group in population.groups if group.partition % 3 == 1]
    for group, at_ms in _spread(hit[:80], 2 * SECOND):
        population.pauses(group, at_ms, until_ms=AT + 10 * MINUTE)
    for partition in range(1, 50, 3):
        population.leads(partition, 2, AT + 4 * SECOND, error="no answer")
    return population


@_story(
    Expected(groups=8, shared="topic orders", kind="offsets.deleted", severity="WARN", certainty="proven")
)
def a_topic_is_deleted() -> Population:
    """A topic is deleted."""
    population = Population.of(200)
    chosen = population.change(8, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 9 * SECOND):
        population.deletes(group, at_ms)
    return population


@_story(
    Expected(
        groups=6, shared="client billing", kind="rebalance.completed", severity="INFO", certainty="inferred"
    )
)
def one_client_is_deployed() -> Population:
    """One client is deployed."""
    population = Population.of(200)
    chosen = [
        replace(group, client=f"billing-{i}")
        for i, group in enumerate(population.change(6, client="billing"))
    ]
    population.lives()
    for group, at_ms in _spread(chosen, 4 * SECOND):
        population.rebalances(group, at_ms)
    return population


@_story(Expected(groups=9, shared="host 10.9.9.9", kind="member.left", severity="WARN", certainty="inferred"))
def a_host_dies() -> Population:
    """A host dies."""
    population = Population.of(200)
    chosen = population.change(9, host="/10.9.9.9")
    population.lives()
    for group, at_ms in _spread(chosen, 3 * SECOND):
        population.loses(group, at_ms)
        population.rebalances(group, at_ms)
    return population


@_story(
    Expected(groups=120, shared="topic orders", kind="commits.paused", severity="INFO", certainty="inferred")
)
def all_readers_of_a_topic_stop() -> Population:
    """All readers of a topic stop."""
    population = Population.of(400)
    chosen = population.change(120, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 2 * SECOND):
        population.pauses(group, at_ms, until_ms=AT + 20 * MINUTE)
    return population


@_story(
    Expected(groups=12, shared="topic orders", kind="offsets.deleted", severity="WARN", certainty="proven"),
    Expected(groups=15, shared="host 10.9.9.9", kind="member.left", severity="WARN", certainty="inferred"),
)
def two_at_once() -> Population:
    """Two at once."""
    population = Population.of(300)
    host = population.change(15, host="/10.9.9.9")
    topic = population.change(12, topic="orders")
    population.lives()
    for group, at_ms in _spread(host, 4 * SECOND):
        population.loses(group, at_ms)
    for group, at_ms in _spread(topic, 4 * SECOND):
        population.deletes(group, at_ms)
    return population


@_story(Expected(groups=40, shared="", kind="commits.paused", severity="INFO", certainty="inferred"))
def all_groups_stop_and_all_read_one_topic() -> Population:
    """All groups stop and all read one topic."""
    population = Population.of(40, topic="orders")
    population.lives()
    for group, at_ms in _spread(population.groups, 2 * SECOND):
        population.pauses(group, at_ms, until_ms=AT + 20 * MINUTE)
    return population


@_story(
    Expected(groups=21, shared="topic orders", kind="commits.paused", severity="INFO", certainty="inferred")
)
def one_group_is_told_of_ten_minutes_later() -> Population:
    """One group is told of ten minutes later."""
    population = Population.of(200)
    chosen = population.change(21, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 2 * SECOND):
        population.pauses(
            group, at_ms, 10 * MINUTE if group is chosen[7] else 2 * MINUTE, until_ms=AT + 20 * MINUTE
        )
    return population


@_story(
    Expected(groups=10, shared="topic orders", kind="rebalance.stuck", severity="ERROR", certainty="inferred")
)
def readers_of_a_topic_are_stuck_and_then_rebalance() -> Population:
    """Readers of a topic are stuck and then rebalance."""
    population = Population.of(200)
    chosen = population.change(10, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 5 * SECOND):
        population.sticks(group, at_ms, AT + 4 * MINUTE)
        population.rebalances(group, AT + 4 * MINUTE)
    return population


@_story(
    Expected(groups=5, shared="topic orders", kind="commits.paused", severity="INFO", certainty="inferred")
)
def a_small_cluster_whose_topic_stands_still() -> Population:
    """A small cluster whose topic stands still."""
    population = Population.of(12)
    chosen = population.change(5, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, SECOND):
        population.pauses(group, at_ms, until_ms=AT + 10 * MINUTE)
    return population


@_story()
def an_ordinary_day() -> Population:
    """An ordinary day."""
    population = Population.of(500)
    population.lives()
    return population


@_story()
def a_busy_day() -> Population:
    """A busy day."""
    population = Population.of(500)
    population.lives(every_ms=2 * MINUTE)
    return population


@_story()
def three_conditions_in_one_minute_by_chance() -> Population:
    """Three conditions in one minute by chance."""
    population = Population.of(200)
    population.lives()
    for group, at_ms in _spread(population.groups[:3], 50 * SECOND):
        population.pauses(group, at_ms, until_ms=at_ms + 5 * MINUTE)
    return population


@_story()
def a_rolling_restart_across_the_groups_of_a_client() -> Population:
    """A rolling restart across the groups of a client."""
    population = Population.of(200)
    chosen = population.change(20, client="billing")
    population.lives()
    for group, at_ms in _spread(chosen, 19 * 30 * SECOND):
        population.rebalances(group, at_ms)
    return population


@_story()
def one_slow_group() -> Population:
    """One slow group."""
    population = Population.of(200)
    population.lives()
    for i in range(10):
        population.sticks(population.groups[0], AT + i * SECOND, AT + MINUTE)
        population.rebalances(population.groups[0], AT + i * SECOND)
    return population


@_story()
def two_groups_lose_members_on_a_host_that_all_share() -> Population:
    """Two groups lose members on a host that all share."""
    population = Population.of(200, host="/10.0.0.1")
    population.lives()
    for group in population.groups[:2]:
        population.loses(group, AT)
    return population


@_story()
def offsets_of_many_groups_expire_in_one_check() -> Population:
    """Offsets of many groups expire in one check."""
    population = Population.of(200)
    chosen = population.change(20, topic="orders")
    population.lives()
    for group in chosen:
        population.expires(group, AT)
    return population


@_story()
def a_cluster_starts() -> Population:
    """A cluster starts."""
    population = Population.of(100, topic="orders")
    for group, at_ms in _spread(population.groups, 30 * SECOND):
        population.creates(group, at_ms)
        population.rebalances(group, at_ms, "first_join")
        population.rebalances(group, at_ms + 3 * SECOND, "member_joined")
    return population


INCIDENTS: tuple[Story, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Story))
