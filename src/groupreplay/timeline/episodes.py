"""What went wrong for a while, as the events of a group tell it: the signs from which causes are concluded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

from groupreplay.state.conditions.registry import kind_named
from groupreplay.state.events.lag_events import StopCost
from groupreplay.state.policy.rules import Policy
from groupreplay.timeline.commit_rates import CommitLog, usual_gap_ms
from groupreplay.timeline.diagnosis import BlamedMember, blamed_member
from groupreplay.timeline.document import ConditionBar, GenerationFlag, OffsetChange, SlotLane
from groupreplay.timeline.event_reading import ReadEvent, whole, words
from groupreplay.timeline.facts import SAME_MOMENT_MS, is_failed_sync, is_slow_leader, worst
from groupreplay.timeline.states import CoordinatorSeen, ProbedState
from groupreplay.timeline.stop_cost import Backlog

MEMBER_LEFT: Final = "member.left"
COMPLETED: Final = "rebalance.completed"
#: Signs that are no event and no condition of this name.
SLOW_LEADER: Final = "leader.slow"
FAILED_SYNCS: Final = "generations.failed"
#: Signs of a rebalance that lasted.
REBALANCES: Final = frozenset({"rebalance.stuck", "rebalance.slow", SLOW_LEADER, FAILED_SYNCS})
#: Offsets that changed by other than progress, in the order of their sentences.
OFFSET_CHANGES: Final = (
    "offsets.expired",
    "offsets.deleted",
    "offsets.reset",
    "offset.rewound",
    "offsets.set",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFacts:
    """What a verdict is made from.

    ``condition_events`` has for each condition the event that says most. ``answers`` and ``coordinators`` are those of
    a prober. ``begins_inside``: what was before ``since_ms`` is not known. ``backlog`` None: no ends were recorded.
    """

    since_ms: int
    until_ms: int
    conditions: Sequence[ConditionBar]
    generations: Sequence[GenerationFlag]
    slots: Sequence[SlotLane]
    changes: Sequence[OffsetChange]
    commits: CommitLog
    state: str | None
    members: int
    #: The events of the time.
    events: Sequence[ReadEvent] = ()
    condition_events: Sequence[ReadEvent] = ()
    group_id: str = ""
    group_type: str = "classic"
    answers: Sequence[ProbedState] = ()
    coordinators: Sequence[CoordinatorSeen] = ()
    probed: bool = True
    begins_inside: bool = False
    backlog: Backlog | None = None
    runbook: str = Policy().runbook

    @property
    def window(self) -> tuple[int, int]:
        """The time of the document."""
        return self.since_ms, self.until_ms

    def named(self, name: str, since_ms: int, until_ms: int) -> list[ReadEvent]:
        """The events of a type in this time."""
        return [
            event for event in self.events if event.name == name and since_ms <= event.time_ms <= until_ms
        ]

    def usual_gap_ms(self) -> int:
        """The usual time between two commits of a partition; 0: it is not known."""
        return usual_gap_ms(self.commits)

    def partitions_of(self, member_id: str, before_ms: int) -> Mapping[str, str]:
        """What a member held before a time, as ranges by topic; empty: not known."""
        pictures = [
            picture
            for event in self.events
            if event.name == COMPLETED and event.time_ms <= before_ms
            for picture in event.mappings("members")
            if picture.get("member_id") == member_id and isinstance(picture.get("partitions"), Mapping)
        ]
        return pictures[-1]["partitions"] if pictures else {}


#: What an episode is about: its sign, and the condition or the event, where there are several.
Subject: TypeAlias = tuple[str, str | int]


def of_condition(bar: ConditionBar) -> Subject:
    """A condition."""
    return bar.name, bar.condition_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A sign of trouble, from ``since_ms`` at the latest (``earliest_ms``: at the earliest).

    ``until_ms`` None: it holds. ``event`` says most of it, ``members`` are those that it names.
    """

    sign: str
    since_ms: int
    until_ms: int | None
    severity: str
    event: ReadEvent
    earliest_ms: int | None = None
    members: tuple[BlamedMember, ...] = ()
    bar: ConditionBar | None = None

    @property
    def subject(self) -> Subject:
        """What it is about."""
        if self.bar is not None:
            return of_condition(self.bar)
        return self.sign, "" if self.sign in OFFSET_CHANGES else self.event.index

    def end_ms(self, facts: VerdictFacts) -> int:
        """Its end, or that of what is known."""
        return facts.until_ms if self.until_ms is None else self.until_ms

    @property
    def began_ms(self) -> int:
        """Its begin at the earliest."""
        return self.since_ms if self.earliest_ms is None else self.earliest_ms

    def cost(self, facts: VerdictFacts) -> StopCost | None:
        """What it cost, if it is a stop; None: not known."""
        return facts.backlog.cost(self.began_ms, self.end_ms(facts)) if facts.backlog else None

    def meets(self, other: Episode, facts: VerdictFacts, slack_ms: int) -> bool:
        """Whether they overlap, or are at most so far apart."""
        return (
            self.began_ms - slack_ms <= other.end_ms(facts)
            and other.began_ms <= self.end_ms(facts) + slack_ms
        )


def episodes(facts: VerdictFacts) -> list[Episode]:
    """All signs of a group, in the order of the events."""
    return [
        *_conditions(facts),
        *_offset_changes(facts),
        *_lost_members(facts),
        *_slow_leaders(facts),
        *_failed_syncs(facts),
    ]


def shown_conditions(facts: VerdictFacts) -> list[tuple[int, ConditionBar]]:
    """The conditions with their numbers, without those that another one of the same time implies."""
    return [
        (number, bar)
        for number, bar in enumerate(facts.conditions)
        if not any(_implies(other, bar) for other in facts.conditions)
    ]


def _implies(other: ConditionBar, bar: ConditionBar) -> bool:
    """Of the same time; ``app/serve/history/episode_queries.py`` has the rule in SQL."""
    begins = bar.until_ms is None or other.since_ms <= bar.until_ms
    ends = other.until_ms is not None and other.until_ms < bar.since_ms
    return other.name == kind_named(bar.name).IMPLIED_BY and begins and not ends


def _conditions(facts: VerdictFacts) -> Iterator[Episode]:
    for number, bar in shown_conditions(facts):
        if number >= len(facts.condition_events):
            return
        event = facts.condition_events[number]
        yield Episode(
            sign=bar.name,
            since_ms=bar.since_ms,
            earliest_ms=_earliest_ms(event),
            until_ms=bar.until_ms,
            severity=bar.severity,
            event=event,
            members=tuple(_named(number, event, facts)),
            bar=bar,
        )


#: Fields with the times that make a condition together.
_TIMES: Final = ("dropped_ms", "returned_ms", "restarted_ms", "changed_ms")


def _earliest_ms(event: ReadEvent) -> int | None:
    times = [at_ms for field in _TIMES for one in event.items(field) if (at_ms := whole(one)) is not None]
    return min(times, default=event.number("since_ms_earliest"))


def _named(number: int, event: ReadEvent, facts: VerdictFacts) -> Iterator[BlamedMember]:
    """The members that a condition names: the same ones that the picture marks."""
    listed = [event.data, *event.mappings("blockers"), *event.mappings("suspects")]
    for lane in facts.slots:
        if any(blame.condition == number for blame in lane.blames):
            identity: Mapping[str, Any] = next(filter(lane_has(lane), listed), {})
            yield BlamedMember(
                name=lane.instance_id or lane.client_id or lane.name,
                member_id=words(identity.get("member_id")),
                client_id=lane.client_id,
                client_host=lane.client_host.removeprefix("/"),
                instance_id=lane.instance_id,
            )


def lane_has(lane: SlotLane) -> Callable[[Mapping[str, Any]], bool]:
    """Whether the identity of a member in an event is that of this slot."""
    ids = {tenure.member_id for tenure in lane.tenures}
    place = (lane.instance_id or "", lane.client_id, lane.client_host)

    def has(identity: Mapping[str, Any]) -> bool:
        own = tuple(words(identity.get(name)) for name in ("instance_id", "client_id", "client_host"))
        return words(identity.get("member_id")) in ids or own == place

    return has


def _offset_changes(facts: VerdictFacts) -> Iterator[Episode]:
    for name in OFFSET_CHANGES:
        events = [event for event in facts.events if event.name == name]
        if events:
            yield Episode(
                sign=name,
                since_ms=events[0].time_ms,
                until_ms=events[-1].time_ms,
                severity=worst([event.severity for event in events]),
                event=events[0],
            )


def _lost_members(facts: VerdictFacts) -> Iterator[Episode]:
    """Members that are gone although nobody had stopped them."""
    for event in facts.events:
        if event.name == MEMBER_LEFT and event.severity != "INFO":
            silent_ms = event.number("elapsed_ms") or 0
            member = blamed_member(event.data)
            yield Episode(
                sign=MEMBER_LEFT,
                since_ms=event.time_ms - silent_ms,
                until_ms=event.time_ms,
                severity=event.severity,
                event=event,
                members=() if member is None else (member,),
            )


def _slow_leaders(facts: VerdictFacts) -> Iterator[Episode]:
    for event in facts.events:
        if is_slow_leader(event):
            sync_ms = event.number("sync_ms") or 0
            leaders = [
                one for one in event.mappings("members") if one.get("member_id") == event.text("leader")
            ]
            yield Episode(
                sign=SLOW_LEADER,
                since_ms=event.time_ms - sync_ms,
                until_ms=event.time_ms,
                severity=event.severity,
                event=event,
                members=tuple(filter(None, map(blamed_member, leaders))),
            )


def _failed_syncs(facts: VerdictFacts) -> Iterator[Episode]:
    for event in facts.events:
        if is_failed_sync(event):
            before = [
                other.time_ms
                for other in facts.events
                if other.name == COMPLETED and other.index < event.index
            ]
            yield Episode(
                sign=FAILED_SYNCS,
                since_ms=before[-1] if before else facts.since_ms,
                until_ms=event.time_ms,
                severity=event.severity,
                event=event,
            )


def departure_at_end(
    episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts
) -> ReadEvent | None:
    """The first event that one of these members left when the episode ended."""
    if episode.until_ms is None:
        return None
    events = facts.named(MEMBER_LEFT, episode.until_ms - SAME_MOMENT_MS, episode.until_ms + SAME_MOMENT_MS)
    ids, names = {member.member_id for member in members}, {member.name for member in members}
    left = ((event, blamed_member(event.data)) for event in events)
    return next(
        (event for event, member in left if member and (member.member_id in ids or member.name in names)),
        None,
    )


def failed_generations(episode: Episode, facts: VerdictFacts) -> tuple[int, list[int]]:
    """How many generations were begun and never completed in this time, and the answers that show it.

    By the number of the generation that was completed; before that by the answers: a rebalance that goes back from its
    sync phase to its join phase has given a generation up.
    """
    end_ms = episode.end_ms(facts) + SAME_MOMENT_MS
    skipped = sum(
        event.number("skipped_generations") or 0 for event in facts.named(COMPLETED, episode.began_ms, end_ms)
    )
    inside = [one for one in facts.answers if episode.began_ms <= one.asked_ms <= end_ms]
    turns = [
        after.answered_ms
        for before, after in pairwise(inside)
        if (before.state, after.state) == ("CompletingRebalance", "PreparingRebalance")
    ]
    return max(skipped, len(turns)), turns


def completion(episode: Episode, facts: VerdictFacts) -> ReadEvent | None:
    """The rebalance that ended the episode; None: it has not ended, or not with one."""
    if episode.event.name == COMPLETED:
        return episode.event
    until_ms = episode.until_ms
    if until_ms is None:
        return None
    since_ms = episode.began_ms if episode.sign in REBALANCES else until_ms - SAME_MOMENT_MS
    events = facts.named(COMPLETED, since_ms, until_ms + SAME_MOMENT_MS)
    # A cooperative assignor lets the next rebalance follow within seconds.
    after = (event for event in events if event.time_ms >= until_ms)
    return next(after, events[-1] if events else None)


def start_of(episode: Episode, facts: VerdictFacts) -> ReadEvent | None:
    """The event that the rebalance of the episode had begun; None: there is none, as without a prober."""
    rebalance_id = episode.event.text("rebalance_id")
    near = facts.named("rebalance.started", episode.began_ms, episode.since_ms + SAME_MOMENT_MS)
    its = [
        event
        for event in facts.events
        if event.name == "rebalance.started" and rebalance_id and event.text("rebalance_id") == rebalance_id
    ]
    return next(iter(its or near), None)
