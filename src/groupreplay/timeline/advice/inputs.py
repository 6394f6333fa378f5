"""What advice is made from: a group's rebalances, slots, owners and commits, each as the timeline has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter
from typing import Any, Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.policy.context import ASSUMED_SESSIONS, SessionSettings
from groupreplay.timeline import findings
from groupreplay.timeline.advice.rebalances import Rebalance, rebalances_of
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.commit_times import CommitTimes
from groupreplay.timeline.document import ConditionBar, SlotLane
from groupreplay.timeline.event_reading import ReadEvent, read_events, whole, words
from groupreplay.timeline.facts import MemberEnds
from groupreplay.timeline.lanes import Lanes, lanes_of, memberships
from groupreplay.timeline.likely import HEARTBEAT_MS
from groupreplay.timeline.limits import TimelineLimits
from groupreplay.timeline.rows import Window, event_lanes, slot_lanes
from groupreplay.timeline.states import StateSpan, TimelineInput, state_spans
from groupreplay.timeline.stop_cost import Backlog

_MANY: Final = 1 << 40
#: Of classic members without a record of theirs: no broker has a say in their heartbeats.
_OF_CLIENTS: Final = SessionSettings(
    heartbeat_ms=HEARTBEAT_MS, timeout_from="default", heartbeat_from="default"
)
#: Nothing is summed up: nobody draws this.
_NO_LIMITS: Final = TimelineLimits(slots=_MANY, tenures=_MANY, marks=_MANY, holdings=_MANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the group has written to the offsets topic, as ``list --sort commits`` has it.

    ``commit_bytes``: of ``bytes``, those of its commits.
    """

    commits_per_second: float
    bytes: int
    share: float
    commit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUse:
    """What is known of a group at the end beside its history.

    ``described``: as ``Group.describe`` has it; ``unused_ms``: for how long nobody has used the group, None: somebody
    does; ``retention_ms``: how long the brokers keep offsets, None: not known. ``session``: that of a consumer group.
    """

    described: Mapping[str, Any] = field(default_factory=dict)
    load: Load | None = None
    unused_ms: int | None = None
    retention_ms: int | None = None
    is_retention_assumed: bool = False
    session: SessionSettings = ASSUMED_SESSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceInput:
    """The history of one group.

    From ``known_ms`` on no record is missing; findings are about the time from ``complete_ms`` on, deployments also
    about the one before.
    """

    group_id: str
    group_type: str
    since_ms: int
    until_ms: int
    known_ms: int
    complete_ms: int
    events: Sequence[ReadEvent]
    rebalances: Sequence[Rebalance]
    slots: Sequence[SlotLane]
    states: Sequence[StateSpan]
    conditions: Sequence[tuple[ConditionBar, ReadEvent]]
    commits: CommitLog
    commit_times: CommitTimes
    lanes: Lanes
    use: GroupUse = field(default_factory=GroupUse)
    sessions_ms: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def members(self) -> Sequence[Mapping[str, Any]]:
        """The members at the end, as ``Group.describe`` has them."""
        members: Sequence[Mapping[str, Any]] = self.use.described.get("members") or ()
        return members

    @property
    def span(self) -> tuple[int, int]:
        """The time of which everything is known."""
        return self.complete_ms, self.until_ms

    def named(self, name: str) -> list[ReadEvent]:
        """The events of a type in the time of which everything is known."""
        return [event for event in self.events if event.name == name and event.time_ms >= self.complete_ms]

    @property
    def session(self) -> SessionSettings:
        """The session and the heartbeats of members that have none of their own."""
        return _OF_CLIENTS if self.group_type == GroupType.CLASSIC.value else self.use.session

    @property
    def heartbeat_assumed(self) -> dict[str, int]:
        """What of the heartbeats is assumed, where the sessions are known or are what is asked for."""
        return {name: value for name, value in self.session.assumed.items() if name != "session_timeout_ms"}

    def session_ms(self, member_id: str) -> int | None:
        """The session timeout that a member had last, its own or that of its group; None: nobody has said it."""
        of_group = self.session.timeout_ms if self.session.timeout_from == "group" else None
        return self.sessions_ms.get(member_id) or of_group


def advice_input(
    given: TimelineInput, use: GroupUse | None = None, findings_since_ms: int | None = None
) -> AdviceInput:
    """The history in what a timeline is made from; ``findings_since_ms``: findings are about the time from then on."""
    until_ms = given.end_ms + 1 if given.until_ms is None else given.until_ms
    told = [event for event in read_events(given.events) if event.time_ms < until_ms]
    states = state_spans(given.records, given.answers) if given.records else []
    since_ms = _since_ms(given, told, states, until_ms)
    window = Window(since_ms, max(until_ms, since_ms + 1))
    lanes, slots = _slots(given, told, window)
    known_ms = _known_ms(told, window)
    here = [event for event in told if window.holds(event.time_ms)]
    commit_times = CommitTimes.of(given.commits)
    backlog = None if given.ends_of is None else Backlog(given.commits, given.ends_of) or None
    return AdviceInput(
        group_id=given.group_id,
        group_type=findings.group_type(told, states),
        since_ms=since_ms,
        until_ms=until_ms,
        known_ms=known_ms,
        complete_ms=max(known_ms, findings_since_ms or 0),
        events=here,
        rebalances=rebalances_of(here, slots, lanes, commit_times, backlog),
        slots=slots,
        states=states,
        conditions=findings.condition_bars(told, attrgetter("index"), lambda _: ""),
        commits=given.commits,
        commit_times=commit_times,
        lanes=lanes,
        use=use or GroupUse(),
        # Once: each restart asks for it, and a week has thousands of rebalances.
        sessions_ms={
            words(picture.get("member_id")): whole(picture.get("session_timeout_ms"))
            for event in here
            if event.name == "rebalance.completed"
            for picture in event.mappings("members")
        },
    )


def _slots(
    given: TimelineInput, events: Sequence[ReadEvent], window: Window
) -> tuple[Lanes, Sequence[SlotLane]]:
    lanes = event_lanes(events)
    if given.records:
        lanes = lanes_of(memberships(given.records, given.topic_names, given.redaction))
    slots, _ = slot_lanes(lanes, window, {}, {}, MemberEnds.of(events, attrgetter("index")), _NO_LIMITS)
    return lanes, slots


def _known_ms(events: Sequence[ReadEvent], window: Window) -> int:
    """The end of the last time of which compaction has removed records."""
    holes = findings.holes(events, window.since_ms)
    return max([window.since_ms, *(hole.until_ms for hole in holes if hole.until_ms < window.until_ms)])


def _since_ms(
    given: TimelineInput, events: Sequence[ReadEvent], states: Sequence[StateSpan], until_ms: int
) -> int:
    """The first moment of which anything is known, but not before the one that was asked for."""
    times = [*(event.time_ms for event in events), *(span.since_ms for span in states)]
    times += [int(given.commits.at_ms.min())] if len(given.commits.at_ms) else []
    return max(min(times, default=until_ms - 1), given.since_ms or 0)


def states_named(history: AdviceInput, state: str) -> list[tuple[StateSpan, int | None]]:
    """The times in which the group was in a state, each with its end; None: it still is."""
    ends = (span.since_ms for span in history.states[1:])
    return [(span, end) for span, end in zip_longest(history.states, ends) if span.state == state]
