"""Populations of groups with what happens to them, as the messages of a job: for incidents across groups."""

from __future__ import annotations

import json
import random
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

    def loses(self, group: Member, at_ms: int) -> None:
        """A member is removed that nobody had planned to stop."""
        left = MemberLeft(
            member_id="m",
            client_id=group.client,
            client_host=group.host,
            instance_id=None,
            reason="session_timeout",
            elapsed_ms=47_000,
            unplanned=True,
        )
        self.tell(group, left, at_ms)

    def deletes(self, group: Member, at_ms: int) -> None:
        """Its offsets are deleted with their topic."""
        lost = (PartitionOffset(topic=group.topic, partition=0, offset=7),)
        deleted = OffsetsDeleted(partitions=lost, partition_count=1, reason="topic_deleted", deadline_ms=None)
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

    def lives(self, seed: int = 2, every_ms: int = 20 * MINUTE) -> None:
        """What happens every day: each group rebalances now and then, and sometimes pauses."""
        draw = random.Random(seed)
        for group in self.groups:
            at_ms = BEGIN + draw.randrange(every_ms)
            while at_ms < AT + 60 * MINUTE:
                self.rebalances(group, at_ms)
                if draw.random() < 0.03:
                    self.pauses(group, at_ms + MINUTE, until_ms=at_ms + 5 * MINUTE)
                at_ms += int(draw.expovariate(1 / every_ms)) + SECOND


def _document(group: Member, at_ms: int) -> dict[str, Any]:
    member = {"client_id": group.client, "client_host": group.host, "partitions": {group.topic: "0-5"}}
    return {
        "cluster_id": "test",
        "group_id": group.group,
        "members": [member],
        "subscribed_topics": [group.topic],
        "log_position": {"partition": group.partition, "offset": 1, "timestamp_ms": at_ms},
    }
