"""Advice on timeouts: sessions, the time between two polls, and the time that a rebalance waits for its members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from groupreplay.codecs.kafka_terms import CONSUMER_SESSION_BOUND, LONGEST_CONSUMER_SESSION_MS, GroupType
from groupreplay.state.phrases import counted, first_of, member, milliseconds, safe_text
from groupreplay.timeline.advice.aways import Away, aways, savings, within
from groupreplay.timeline.advice.evidence import (
    begin_assumed,
    finding,
    ordering,
    saved_effects,
    sure_savings,
)
from groupreplay.timeline.advice.finding import Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.advice.rebalances import Rebalance
from groupreplay.timeline.advice.restarts import explained
from groupreplay.timeline.advice.waits import (
    BACK,
    Spans,
    left_over,
    lengths_ms,
    waiting_longer,
    waits_for_absent,
)
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.likely import HEARTBEAT_MS
from groupreplay.timeline.rolling_restarts import Restart, restarts

#: Values to choose from; the second one is Kafka's default since 3.0 (KIP-735).
_SESSIONS_MS: Final = (30_000, 45_000, 60_000, 90_000, 120_000, 180_000, 300_000)
#: A member that was away for longer did not lose its session by a small margin.
_LONGEST_AWAY_MS: Final = _SESSIONS_MS[-1]
_LEAST_EVENTS: Final = 2
#: The brokers' lower bound of a rebalance timeout that is worth its name, and Kafka's default.
_LEAST_POLL_MS: Final = 60_000
#: A process that is back later was started again.
_LONGEST_WORK_MS: Final = 3_600_000
#: How long the rebalance lasts in which a member comes back that has given up: others learn of it with a heartbeat.
_RETURN_MS: Final = 2 * HEARTBEAT_MS
#: A timeout is an outlier if it is this many times the next one.
_OUTLIER: Final = 2


_OF_SESSIONS: Final = (
    "rebalances in which nobody came or went but static members that were back within the new timeout"
)
_OF_SLOW_WORK: Final = (
    "rebalances in which nobody went but members that had given up, and nobody came but the same ones again; one that "
    "hangs for good has to go all the same"
)
_LIKELY_AGAIN: Final = "likely those of members that came back, because their work was done then"


def session_timeout(history: AdviceInput) -> Iterator[Finding]:
    """Static members whose session ended shortly before they were back.

    A dynamic member that comes back is a new member whatever its session was, so that the log does not show what a
    longer one would have saved.
    """
    static = [lane for lane in history.slots if lane.instance_id is not None]
    reasons = {
        event.text("member_id"): event
        for event in history.named("member.left")
        if event.text("reason") == "session_timeout"
    }
    absences = aways(history, within(history, restarts(static, _LONGEST_AWAY_MS)))
    expired = [away for away in absences if away.restart.before.member_id in reasons]
    if len(expired) < _LEAST_EVENTS:
        return
    longest_ms = min(max(away.most_ms for away in expired) + history.session.heartbeat_ms, _LONGEST_AWAY_MS)
    value_ms = next((value for value in _SESSIONS_MS if value >= longest_ms), _SESSIONS_MS[-1])
    known = [history.session_ms(away.restart.before.member_id) for away in expired]
    before_ms = max((value for value in known if value is not None), default=None)
    if before_ms is not None and value_ms <= before_ms:
        return
    # A session also ends of a process that is gone for good, or of a dynamic member: no session would have been enough.
    ended = [reasons[away.restart.before.member_id] for away in expired]
    yield _session_finding(history, absences, ended, value_ms, before_ms)


def _session_finding(
    history: AdviceInput,
    absences: Sequence[Away],
    events: Sequence[ReadEvent],
    value_ms: int,
    before_ms: int | None,
) -> Finding:
    surely = [away.restart for away in absences if away.most_ms + history.session.heartbeat_ms < value_ms]
    perhaps = [away.restart for away in absences if away.least_ms < value_ms]
    least = explained(history.rebalances, surely, after_ms=history.complete_ms)
    most = explained(history.rebalances, perhaps, after_ms=history.complete_ms)
    limits = {away.restart.before.member_id: value_ms for away in absences}
    saved = savings(most, least, absences, limits)
    waits = waits_for_absent(history, absences, most, limits)
    effects = waiting_longer(saved_effects(least, most, _OF_SESSIONS, saved), waits, BACK)
    names = sorted({event.text("instance_id") for event in events})
    of = "" if before_ms is None else f" of {milliseconds(before_ms)}"
    return finding(
        history,
        Kind.SESSION_TIMEOUT,
        f"the session{of} of {first_of(names, safe_text)} ended {counted(len(events), 'time')} shortly before "
        "the process was back",
        _session_setting(history, value_ms),
        effects,
        [*events, *(rebalance.event for rebalance in most)],
        order_ms=max(ordering(effects), 0),
        assumed=history.heartbeat_assumed,
    )


def _session_setting(history: AdviceInput, value_ms: int) -> tuple[str, str]:
    """Of the client, with the classic protocol; else of the group (``kafka-configs.sh --entity-type groups``)."""
    if history.group_type == GroupType.CLASSIC.value:
        return "session.timeout.ms", str(value_ms)
    is_refused = value_ms > LONGEST_CONSUMER_SESSION_MS
    return (
        "consumer.session.timeout.ms",
        f"{value_ms}{f'; {CONSUMER_SESSION_BOUND} too' if is_refused else ''}",
    )


def max_poll_interval(history: AdviceInput) -> Iterator[Finding]:
    """Members that gave up because the work on one poll took longer than ``max.poll.interval.ms``."""
    left = [event for event in history.named("member.left") if event.text("reason") == "poll_timeout"]
    if len(left) < _LEAST_EVENTS:
        return
    ids = {event.text("member_id") for event in left}
    # The process is there still, and a member again as soon as it polls.
    back = [
        restart for restart in restarts(history.slots, _LONGEST_WORK_MS) if restart.before.member_id in ids
    ]
    caused = explained(history.rebalances, back, after_ms=history.complete_ms, away=ids)
    if not caused:
        return
    timeouts = [value for event in left if (value := _timeout_ms(history, event.text("member_id")))]
    limit = f" of {milliseconds(max(timeouts))}" if timeouts else ""
    gap_ms = _usual_work_ms(history)
    # It polled again, so that it would have with a longer interval.
    saved = sure_savings(caused, explained(history.rebalances, back, after_ms=history.complete_ms))
    effects = saved_effects((), caused, _OF_SLOW_WORK, saved, _LIKELY_AGAIN)
    waits = _longer_waits(history, back, {rebalance.at_ms for rebalance in caused})
    effects = waiting_longer(effects, waits, "the member that gave up had come back")
    yield finding(
        history,
        Kind.MAX_POLL_INTERVAL,
        f"{counted(len(left), 'time')} a member gave up because it did not poll within max.poll.interval.ms{limit}; "
        f"99 of 100 gaps between two commits of a partition are at most {milliseconds(gap_ms)}",
        ("max.poll.interval.ms", "longer than the longest work on one poll; or lower max.poll.records"),
        effects,
        left,
        order_ms=max(ordering(effects), 0),
        assumed=begin_assumed(saved),
    )


def _longer_waits(history: AdviceInput, back: Sequence[Restart], caused_ms: Collection[int]) -> list[Spans]:
    """Of the rebalances that others began and that a member ended by giving up: with more time it had polled first.

    That is when it came back; ``caused_ms``: the rebalances that there would not have been.
    """
    by_time = {rebalance.at_ms: rebalance for rebalance in history.rebalances}
    returns = {restart.before.member_id: by_time.get(restart.at_ms) for restart in back}
    waits = []
    for each in history.rebalances:
        late = [came for gone, came in returns.items() if came is not None and gone in each.went]
        if each.at_ms < history.complete_ms or each.at_ms in caused_ms or not late or not each.stopped_ms[1]:
            continue
        came = max(late, key=lambda one: one.at_ms)
        waited_ms = came.at_ms - each.at_ms
        bounds, likely = (left_over((waited_ms, waited_ms), length) for length in lengths_ms(came))
        waits.append(Spans(bounds, likely))
    return waits


def _timeout_ms(history: AdviceInput, member_id: str) -> int | None:
    """The rebalance timeout of a member, which is its max.poll.interval.ms (``ConsumerCoordinator``)."""
    for rebalance in reversed(history.rebalances):
        for picture in rebalance.event.mappings("members"):
            if picture.get("member_id") == member_id:
                value = picture.get("rebalance_timeout_ms")
                return value if isinstance(value, int) and value > 0 else None
    return None


def _usual_work_ms(history: AdviceInput) -> int:
    gaps = [np.diff(times) for times in history.commit_times.of_place.values() if len(times) > 1]
    return int(np.percentile(np.concatenate(gaps), 99)) if gaps else 0


def rebalance_timeout(history: AdviceInput) -> Iterator[Finding]:
    """One member's timeout is far longer than those of the others, and the coordinator waits for the longest."""
    members = [each for each in history.members if _positive(each)]
    values = sorted({each["rebalance_timeout_ms"] for each in members})
    if len(values) < 2 or values[-1] < _OUTLIER * values[-2] or values[-1] <= _LEAST_POLL_MS:
        return
    longest, others_ms = values[-1], values[-2]
    outliers = [each for each in members if each["rebalance_timeout_ms"] == longest]
    if 2 * len(outliers) > len(members) or history.use.described.get("type") != "classic":
        return
    silences = _Silences.of(history, outliers)
    waits = [
        (rebalance, bounds)
        for rebalance in history.rebalances
        if rebalance.at_ms >= history.complete_ms
        and (bounds := _waited(rebalance, (others_ms, longest), silences))[1]
    ]
    least, most = (sum(bounds[end] for _, bounds in waits) for end in (0, 1))
    yield finding(
        history,
        Kind.REBALANCE_TIMEOUT,
        f"{first_of(outliers, member)} {'asks' if len(outliers) == 1 else 'ask'} for a rebalance timeout of "
        f"{milliseconds(longest)}, the others for {milliseconds(others_ms)} or less: the coordinator waits for the "
        "longest of the group's",
        ("max.poll.interval.ms", str(others_ms)),
        [
            Effect(
                measure="stopped_ms",
                least=least,
                most=most,
                how="what rebalances surely lasted beyond the timeout of the others, less that in which the member "
                "comes back, at least; at most what they may have lasted, less the time that it had not polled before",
            )
        ],
        (rebalance.event for rebalance, _ in waits),
        order_ms=least,
    )


def _positive(each: Mapping[str, Any]) -> bool:
    value = each.get("rebalance_timeout_ms")
    return isinstance(value, int) and value > 0


def _waited(
    rebalance: Rebalance, timeouts_ms: tuple[int, int], silences: _Silences | None
) -> tuple[int, int]:
    """What a rebalance would not have lasted if all members had the timeout of the others, at least and at most.

    The member that it waited for would have given up so long after its last poll, and come back in another rebalance.
    ``timeouts_ms``: that of the others, and the longest. ``silences`` show since when it has not polled.
    """
    others_ms, longest_ms = timeouts_ms
    if rebalance.most_ms == 0 or rebalance.flag.most_ms == 0:
        return 0, 0
    least = min(rebalance.flag.least_ms, longest_ms) - others_ms - _RETURN_MS
    bounds = [longest_ms, rebalance.flag.most_ms]
    silent_ms = None if silences is None else silences.before(rebalance)
    bounds += [] if silent_ms is None else [silent_ms - others_ms]
    return max(least, 0), max(min(bound for bound in bounds if bound is not None), 0)


@dataclass(frozen=True, slots=True)
class _Silences:
    """The commits of all partitions, and the times of all rebalances in order."""

    commits: CommitTimes
    made_ms: Sequence[int]

    @classmethod
    def of(cls, history: AdviceInput, members: Sequence[Mapping[str, Any]]) -> _Silences | None:
        """None: one of these members has no partition, or no commits of one, so that nothing shows its polls."""
        owned = [
            {
                (topic, number)
                for topic, numbers in (each.get("partitions") or {}).items()
                for number in numbers
            }
            for each in members
        ]
        if not all(owned) or not set[Place]().union(*owned) <= history.commit_times.of_place.keys():
            return None
        return cls(history.commit_times, sorted(each.at_ms for each in history.rebalances))

    def before(self, rebalance: Rebalance) -> int | None:
        """How long before its end any partition began to have no commit for the longest time; None: unknown.

        A member commits once more before it joins, so that the longest time may be over before the end.
        """
        if rebalance.flag.most_ms is None:
            return None
        earlier = bisect_left(self.made_ms, rebalance.at_ms)
        # All members that it may have waited for had joined in the rebalance before.
        joined_ms = self.made_ms[earlier - 1] if earlier else 0
        silent_ms, begin_ms = 0, rebalance.at_ms - rebalance.flag.most_ms
        for times in self.commits.of_place.values():
            until = bisect_right(times, rebalance.at_ms)
            first = bisect_left(times, begin_ms, hi=until)
            begins = [times[first - 1] if first else joined_ms, *times[first:until], rebalance.at_ms]
            longest = max(pairwise(begins), key=lambda gap: gap[1] - gap[0])
            silent_ms = max(silent_ms, rebalance.at_ms - longest[0])
        return silent_ms
