"""Why a member left: the reasons that the recorded numbers leave, and the sum of each.

A LeaveGroup request, an expired session and a missed rebalance write the same records. What differs is the time: each
timeout can end at the earliest at a moment that follows from the records, and if it is the reason, it ends within a
window after that. A reason that cannot have come true yet is excluded. One reason is stated if all others are excluded
(proven), or if only its window contains the moment at which the member left (inferred).

Sources: ``GroupMetadataManager`` (``rescheduleClassicGroupMemberHeartbeat``, ``completeClassicGroupJoin``,
``scheduleConsumerGroupSessionTimeout``), and of the clients ``AbstractCoordinator`` and librdkafka's ``rdkafka_cgrp.c``
for ``max.poll.interval.ms``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from groupreplay.codecs.kafka_terms import DEFAULT_HEARTBEAT_INTERVAL_MS
from groupreplay.state.events.event import Evidence, LeaveCandidate, LeaveReason
from groupreplay.state.phrases import clock_time, milliseconds, timestamp
from groupreplay.state.policy.context import SessionSettings

#: The coordinator starts a timer before it stamps the records of the same request: by the timestamps it ends early, by
#: so much at most. 5 ms were measured on a loaded machine; a pause of the broker's JVM can fall between the two.
STAMP_LAG_MS: Final = 250
#: How late the broker's timer fences a member of KIP-848 that does not revoke.
FENCING_SLACK_MS: Final = 1_000
#: How much later than at its interval a busy client of KIP-848 sends a heartbeat.
LATE_HEARTBEAT_MS: Final = 1_000
#: How late a timer of the coordinator fires while the coordinator has much to do.
_TIMER_SLACK_MS: Final = 2_000
#: librdkafka looks twice a second, Java's client with each heartbeat, whether the application has polled.
_POLL_CHECK_MS: Final = 3_000
#: ``auto.commit.interval.ms`` by default, and a little: librdkafka commits so long after the last poll at most.
_COMMIT_MS: Final = 5_100
#: Members learn of a rebalance with their next heartbeat.
_NOTICE_MS: Final = DEFAULT_HEARTBEAT_INTERVAL_MS
#: The timeout of each reason, and what it does, as the sum of a candidate says it.
_TIMERS: Final[Mapping[str, tuple[str, str]]] = {
    "session_timeout": ("session_timeout_ms", "its session could end"),
    "poll_timeout": ("max.poll.interval.ms", "its client could give up"),
    "rebalance_timeout": ("rebalance_timeout_ms", "the coordinator's timer could fire"),
}
#: A rebalance timeout is told from other reasons if its window is this part of it: a coincidence is unlikely then.
_EXACT: Final = 20


class JoinTimer(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator's timer of the classic rebalance that ended without the member.

    The rebalance began at ``earliest_ms`` at the earliest and ``latest_ms`` at the latest. ``others_ms`` is the last
    commit of another member long before its end (None: there was none), and ``usual_gap_ms`` the group's. ``most_ms``
    is the timeout if members that came with the rebalance asked for a longer one than ``timeout_ms``. ``is_probed``: an
    answer of the broker shows the rebalance.
    """

    earliest_ms: int
    latest_ms: int
    others_ms: int | None
    usual_gap_ms: int
    timeout_ms: int
    most_ms: int
    is_probed: bool


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a departure.

    The member left at ``earliest_ms`` at the earliest and at ``latest_ms`` at the latest. ``heard_ms`` is its last sign
    of life, ``committed_ms`` its last commit, and ``heartbeat_ms`` the time after which its last heartbeat came (None:
    there was none), ``likely_heartbeat_ms`` that of a client which sends it in time (None: the same). 95 % of the times
    between two commits of the group are shorter than ``usual_gap_ms`` (None: not known), which is up to twice as long.
    ``poll_ms`` is the client's ``max.poll.interval.ms``: consumers ask for it as their rebalance timeout.
    ``is_static``: the client does not send LeaveGroup, also when it gives up; ``is_away``: it has said that it comes
    back (KIP-848). ``gives_up_silently``: a client that does not poll may end its heartbeats without a word, as those
    of static members do, and librdkafka with KIP-848.
    """

    earliest_ms: int
    latest_ms: int
    heard_ms: int | None
    committed_ms: int | None
    heartbeat_ms: int | None
    usual_gap_ms: int | None
    session: SessionSettings
    poll_ms: int | None
    is_static: bool
    is_away: bool = False
    gives_up_silently: bool = False
    likely_heartbeat_ms: int | None = None
    join: JoinTimer | None = None

    @property
    def silent_ms(self) -> int | None:
        """How long it gave no sign of life."""
        return None if self.heard_ms is None else max(0, self.latest_ms - self.heard_ms)

    @property
    def polled_ms(self) -> int | None:
        """When the application polled last, at the earliest: a commit may come later.

        Other records prove nothing: libraries send heartbeats, and some rejoin, while nobody polls.
        """
        return _plus(self.committed_ms, -self._commit_delay_ms)

    @property
    def likely_polled_ms(self) -> int | None:
        """The same; of a member without a commit, when it was heard of, because it has joined by polling."""
        return _plus(self.heard_ms, -self._commit_delay_ms) if self.polled_ms is None else self.polled_ms

    @property
    def _commit_delay_ms(self) -> int:
        return _COMMIT_MS if self.usual_gap_ms is None else _typical(self.usual_gap_ms)

    def noticed_ms(self, after_ms: int) -> int | None:
        """So long after a member at work would have committed again; None: that is not known."""
        return _plus(self.heard_ms, None if self.usual_gap_ms is None else self.usual_gap_ms + after_ms)


class Finding(msgspec.Struct, frozen=True):
    """The reason, as far as it can be stated, with every reason that is not excluded, likeliest first."""

    reason: LeaveReason
    candidates: tuple[LeaveCandidate, ...]
    evidence: Evidence


class _Window(msgspec.Struct, frozen=True):
    """A time in which something ends; None: it is open on that side.

    ``is_exact``: it is narrow; ``is_vague``: it only shows that another reason cannot be stated.
    """

    from_ms: int | None
    until_ms: int | None
    is_exact: bool = False
    is_vague: bool = False

    def meets(self, leaving: Leaving) -> bool:
        return _has_begun(self.from_ms, leaving, 0 if self.is_vague else STAMP_LAG_MS) and (
            self.until_ms is None or self.until_ms >= leaving.earliest_ms
        )


class _Sum(msgspec.Struct, frozen=True):
    """One reason, and when it usually comes true."""

    candidate: LeaveCandidate
    windows: tuple[_Window, ...]

    def is_possible(self, leaving: Leaving) -> bool:
        return _has_begun(self.candidate.earliest_ms, leaving, STAMP_LAG_MS)

    def fits(self, leaving: Leaving) -> bool:
        return any(window.meets(leaving) for window in self.windows)

    def is_vague(self, leaving: Leaving) -> bool:
        return all(window.is_vague for window in self.windows if window.meets(leaving))

    def is_exact(self, leaving: Leaving) -> bool:
        return any(window.is_exact and window.meets(leaving) for window in self.windows)


def _has_begun(from_ms: int | None, leaving: Leaving, lag_ms: int) -> bool:
    return from_ms is None or from_ms - lag_ms <= leaving.latest_ms


def why(leaving: Leaving) -> Finding:
    """The reason of a departure, or ``unknown`` and those that remain."""
    sums = [one for one in _sums(leaving) if one.is_possible(leaving)]
    likely = [one for one in sums if one.is_exact(leaving)] or [one for one in sums if one.fits(leaving)]
    others = [one for one in sums if one not in likely]
    candidates = (
        *(replace(one.candidate, likely=True) for one in likely),
        *(other.candidate for other in others),
    )
    if len(sums) == 1:
        (proven,) = candidates
        return Finding(proven.reason, (replace(proven, likely=True),), Evidence.LOG)
    if len(likely) == 1 and not likely[0].is_vague(leaving):
        return Finding(likely[0].candidate.reason, candidates, Evidence.INFERRED)
    return Finding("unknown", candidates, Evidence.LOG)


def fenced(since_ms: int, timeout_ms: int, at_ms: int) -> Finding:
    """The broker's timer for the revocation that began then has fenced the member, to the moment."""
    candidate = _candidate("rebalance_timeout", timeout_ms, since_ms, at_ms - since_ms)
    return Finding("rebalance_timeout", (replace(candidate, likely=True),), Evidence.LOG)


def _sums(leaving: Leaving) -> Iterator[_Sum]:
    """Every reason that a member can have."""
    yield _left(leaving)
    yield _session(leaving)
    if leaving.poll_ms is not None and not leaving.is_static:
        candidate = _candidate("poll_timeout", leaving.poll_ms, leaving.polled_ms, leaving.silent_ms)
        until_ms = leaving.noticed_ms(leaving.poll_ms + _POLL_CHECK_MS)
        yield _Sum(candidate, (_Window(_plus(leaving.likely_polled_ms, leaving.poll_ms), until_ms),))
    if leaving.join is not None:
        yield _join(leaving.join, leaving.silent_ms)


def _left(leaving: Leaving) -> _Sum:
    """On purpose: a member at work leaves before it would have committed again."""
    candidate = _candidate("left", None, None, leaving.silent_ms)
    if leaving.is_away:
        return _Sum(candidate, ())
    until_ms = (
        None if leaving.usual_gap_ms is None else _plus(leaving.heard_ms, _typical(leaving.usual_gap_ms))
    )
    return _Sum(candidate, (_Window(None, until_ms),))


def _session(leaving: Leaving) -> _Sum:
    """The session ends by itself, or after the client has given up without a word."""
    session = leaving.session
    candidate = _candidate("session_timeout", session.least_ms, leaving.heartbeat_ms, leaving.silent_ms)
    likely_ms = leaving.heartbeat_ms if leaving.likely_heartbeat_ms is None else leaving.likely_heartbeat_ms
    from_ms = _plus(likely_ms, session.timeout_ms)
    windows = [_Window(from_ms, leaving.noticed_ms(session.timeout_ms + _TIMER_SLACK_MS))]
    if session.timeout_from == "default":
        windows.append(_Window(candidate.earliest_ms, from_ms, is_vague=True))
    if leaving.poll_ms is not None and leaving.gives_up_silently:
        silent_ms = leaving.poll_ms + session.timeout_ms
        until_ms = leaving.noticed_ms(silent_ms + _POLL_CHECK_MS + _TIMER_SLACK_MS)
        # The session counts from its last heartbeat, which came before it gave up.
        from_ms = _plus(leaving.likely_polled_ms, silent_ms - session.heartbeat_ms)
        windows.append(_Window(from_ms, until_ms))
    return _Sum(candidate, tuple(windows))


def _join(join: JoinTimer, silent_ms: int | None) -> _Sum:
    """The coordinator waits no longer for those that have not rejoined."""
    candidate = _candidate("rebalance_timeout", join.timeout_ms, join.earliest_ms, silent_ms)
    if join.others_ms is None and not join.is_probed:
        # They worked on, and no answer shows that anybody waited.
        return _Sum(candidate, ())
    windows = [_join_window(join, join.earliest_ms, join.latest_ms)]
    if join.others_ms is not None:
        # The others gave up their partitions when they learned of it, and most committed then.
        from_ms = join.others_ms - _NOTICE_MS
        windows = [
            _join_window(join, max(join.earliest_ms, from_ms), min(join.latest_ms, join.others_ms + more_ms))
            for more_ms in (_NOTICE_MS, max(_NOTICE_MS, join.usual_gap_ms))
        ]
        # Members that keep their partitions meanwhile (KIP-429) may commit until its end.
        windows = [window for window in windows if window is not None] or [
            _join_window(join, join.earliest_ms, join.latest_ms)
        ]
    return _Sum(candidate, tuple(window for window in windows if window is not None))


def _join_window(join: JoinTimer, from_ms: int, until_ms: int) -> _Window | None:
    """When the timer fires of a rebalance that began between these times; None: it cannot have begun."""
    if from_ms > until_ms:
        return None
    is_exact = _EXACT * (until_ms - from_ms) <= join.timeout_ms
    return _Window(from_ms + join.timeout_ms, until_ms + join.most_ms + _TIMER_SLACK_MS, is_exact)


def _candidate(
    reason: LeaveReason, timeout_ms: int | None, since_ms: int | None, silent_ms: int | None
) -> LeaveCandidate:
    earliest_ms = None if timeout_ms is None else _plus(since_ms, timeout_ms)
    parts = [] if silent_ms is None else [f"silent {milliseconds(silent_ms)}"]
    if timeout_ms is None:
        parts.append("it, or an administrator, can send LeaveGroup at any time")
    else:
        name, timer = _TIMERS[reason]
        parts.append(f"{name}={timeout_ms}")
        at = "" if earliest_ms is None else clock_time(timestamp(earliest_ms))
        parts.append(f"{timer} at {at} UTC at the earliest" if at else "no record shows since when it counts")
    return LeaveCandidate(
        reason=reason,
        timeout_ms=timeout_ms,
        since_ms=since_ms,
        earliest_ms=earliest_ms,
        likely=False,
        words="; ".join(parts),
    )


def _typical(usual_gap_ms: int) -> int:
    """The usual gap is the upper edge of a bucket; Kafka's default of 5 s is far below that of its own."""
    return _COMMIT_MS if usual_gap_ms // 2 < _COMMIT_MS < usual_gap_ms else usual_gap_ms


def _plus(at_ms: int | None, more_ms: int | None) -> int | None:
    return None if at_ms is None or more_ms is None else at_ms + more_ms
