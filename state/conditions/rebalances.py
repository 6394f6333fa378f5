"""Rebalances in progress: when one began and ended, whether it takes too long, and who is in its way.

The log shows everything of the newer kinds of group. Of a classic group it shows nothing until the rebalance
is over, so what the prober was answered counts, and only what it was answered: a coordinator that moves, a
broker that is silent or a missing round neither begins nor ends anything. Must not know clocks or positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from groupreplay.state.conditions.conditions import Blocker, RebalanceSlow, RebalanceStuck
from groupreplay.state.conditions.suspects import suspects
from groupreplay.state.conditions.tracker import QUIET, Detection, Evaluation, GroupView
from groupreplay.state.events.event import Evidence
from groupreplay.state.kafka_terms import GroupType, MemberPhase, Phase
from groupreplay.state.replay.topic_names import names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.modern import Modern, ModernMember
from groupreplay.state.snapshot.partitions import each

#: Where no session timeout is in the log: the broker's default.
SESSION_TIMEOUT_MS: Final = 45_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """A rebalance in progress, of whatever kind of group."""

    rebalance_id: str | None
    since_ms: int
    state: str
    evidence: Evidence


def current(view: GroupView) -> Current | None:
    """The rebalance in progress, None when there is none that can be seen."""
    group = view.group
    if group.in_progress is not None:
        one = group.in_progress
        return Current(
            rebalance_id=one.rebalance_id,
            since_ms=one.since_ms,
            state=one.phase.value,
            evidence=Evidence.PROBE,
        )
    if group.open_rebalance is not None and group.modern is not None:
        return Current(
            rebalance_id=group.open_rebalance.rebalance_id,
            since_ms=group.open_rebalance.started_ms,
            state=modern.state_of(group.group_type, group.modern),
            evidence=Evidence.LOG,
        )
    return None


def rebalance_timeout_ms(view: GroupView) -> int:
    """The members' largest rebalance timeout."""
    group = view.group
    known = group.modern.members.values() if group.modern else group.classic.members or group.former
    return max((one.rebalance_timeout_ms for one in known), default=-1)


def session_timeout_ms(view: GroupView) -> int:
    """The largest session timeout seen."""
    group = view.group
    if group.modern is not None:
        given = [one.classic_session_timeout_ms or 0 for one in group.modern.members.values()]
    else:
        given = [one.session_timeout_ms for one in group.classic.members or group.former]
    return max(given, default=0) or SESSION_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSlowDetector:
    """In progress for longer than max(``least_ms``, session timeout + ``beyond_session_ms``)."""

    NAME: ClassVar[str] = RebalanceSlow.NAME
    ON_COMMITS: ClassVar[bool] = False
    threshold_ms: int | None = None
    least_ms: int = 60_000
    beyond_session_ms: int = 30_000

    def limit_ms(self, view: GroupView) -> int:
        """The threshold for this group."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        return max(self.least_ms, session_timeout_ms(view) + self.beyond_session_ms)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        now = current(view)
        if now is None:
            return QUIET
        limit_ms = self.limit_ms(view)
        if view.now_ms < now.since_ms + limit_ms:
            return Evaluation(next_ms=now.since_ms + limit_ms)
        details = {
            "rebalance_id": now.rebalance_id,
            "state": now.state,
            "elapsed_ms": view.now_ms - now.since_ms,
        }
        return Evaluation(
            (
                Detection(
                    kind=RebalanceSlow,
                    since_ms=now.since_ms,
                    threshold_ms=limit_ms,
                    details=details,
                    evidence=now.evidence,
                ),
            )
        )


@dataclass(frozen=True, slots=True)
class _Wait:
    """Something that keeps a rebalance from ending: since when, how long that may take, and who it is."""

    since_ms: int
    limit_ms: int
    reason: str
    blocker: Blocker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuckDetector:
    """In progress for longer than ``of_timeout`` of the rebalance timeout, within bounds.

    The lower bound is that of a slow rebalance plus ``beyond_slow_ms``, the upper one ``most_ms``. Without a
    target assignment a group of the newer kinds may be for ``assigning_ms``. Past twice the rebalance timeout,
    the session timeout and ``wedged_beyond_ms`` the protocol itself would have ended it.
    """

    NAME: ClassVar[str] = RebalanceStuck.NAME
    ON_COMMITS: ClassVar[bool] = False
    threshold_ms: int | None = None
    of_timeout: float = 0.6
    beyond_slow_ms: int = 30_000
    most_ms: int = 300_000
    assigning_ms: int = 60_000
    wedged_ms: int | None = None
    wedged_beyond_ms: int = 30_000
    slow: RebalanceSlowDetector = RebalanceSlowDetector()

    def limit_ms(self, view: GroupView, timeout_ms: int) -> int:
        """The threshold for a rebalance timeout."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        least_ms = self.slow.limit_ms(view) + self.beyond_slow_ms
        return max(least_ms, min(int(self.of_timeout * timeout_ms), self.most_ms))

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        waits = sorted(self._waits(view), key=lambda wait: wait.since_ms + wait.limit_ms)
        due = [wait for wait in waits if wait.since_ms + wait.limit_ms <= view.now_ms]
        if not due:
            return Evaluation(next_ms=waits[0].since_ms + waits[0].limit_ms) if waits else QUIET
        later = [wait.since_ms + wait.limit_ms for wait in waits[len(due) :]]
        since_ms = min(wait.since_ms for wait in due)
        wedged_at_ms = since_ms + self._wedged_ms(view)
        wedged = view.now_ms >= wedged_at_ms
        if not wedged:
            later.append(wedged_at_ms)
        return Evaluation((self._raised(view, due, since_ms, wedged),), min(later, default=None))

    def _raised(self, view: GroupView, due: list[_Wait], since_ms: int, wedged: bool) -> Detection:
        now = current(view)
        blockers = tuple(wait.blocker for wait in due if wait.blocker is not None)
        found, note = suspects(view) if view.group.modern is None else (None, None)
        details: dict[str, Any] = {
            "rebalance_id": now.rebalance_id if now else None,
            "state": now.state if now else _state(view),
            "reason": due[0].reason,
            "blockers": blockers if view.group.modern is not None else None,
            "suspects": found,
            "suspects_note": note,
            "wedged": wedged,
            "elapsed_ms": view.now_ms - since_ms,
        }
        names = sorted(blocker.member_id for blocker in blockers)
        reasons = sorted({due[0].reason, *_reasons_said(view)})
        return Detection(
            kind=RebalanceStuck,
            since_ms=since_ms,
            threshold_ms=due[0].limit_ms,
            details=details,
            evidence=now.evidence if now else Evidence.LOG,
            # Each reason is news once: a group may go from joining to syncing and back for as long as it is stuck.
            dedup_key="\0".join([",".join(reasons), "wedged" if wedged else "", *names]),
        )

    def _wedged_ms(self, view: GroupView) -> int:
        if self.wedged_ms is not None:
            return self.wedged_ms
        timeout_ms = max(rebalance_timeout_ms(view), 0)
        return 2 * timeout_ms + session_timeout_ms(view) + self.wedged_beyond_ms

    def _waits(self, view: GroupView) -> Iterator[_Wait]:
        group = view.group
        if group.in_progress is not None:
            reason = "not_synced" if group.in_progress.phase is Phase.COMPLETING_REBALANCE else "not_joined"
            limit_ms = self.limit_ms(view, rebalance_timeout_ms(view))
            yield _Wait(group.in_progress.since_ms, limit_ms, reason)
        elif group.modern is not None and modern.living(group.modern):
            if modern.assigning(group.modern):
                if group.since_ms is not None:
                    # The state of a share group is Stable all the while: then it is the round that counts.
                    began = group.open_rebalance.started_ms if group.open_rebalance else group.since_ms
                    since_ms = began if group.group_type is GroupType.SHARE else group.since_ms
                    yield _Wait(since_ms, self.threshold_ms or self.assigning_ms, "not_assigned")
            else:
                yield from self._revocations(view, group.modern)

    def _revocations(self, view: GroupView, group: Modern) -> Iterator[_Wait]:
        waiting = _wanted(group)
        started_ms = view.group.open_rebalance.started_ms if view.group.open_rebalance else None
        for member_id, member in sorted(modern.living(group).items()):
            limit_ms = self.limit_ms(view, member.rebalance_timeout_ms)
            if member.phase is MemberPhase.UNREVOKED and member.phase_since_ms is not None:
                yield _Wait(
                    member.phase_since_ms, limit_ms, "not_revoked", _blocker(view, member_id, member, group)
                )
            elif started_ms is not None and member.epoch != modern.AWAY and _holds(group, member, waiting):
                # It has not even asked for its new assignment; its session timeout will end that.
                blocker = _blocker(view, member_id, member, group, started_ms)
                yield _Wait(started_ms, limit_ms, "not_revoked", blocker)


def _reasons_said(view: GroupView) -> Sequence[str]:
    """The reasons that were given for the condition that holds, by its mark."""
    known = view.snapshot.conditions.active.get(RebalanceStuck.NAME)
    return known.dedup_key.partition("\0")[0].split(",") if known else ()


def _state(view: GroupView) -> str:
    group = view.group.modern
    return view.group.phase.value if group is None else modern.state_of(view.group.group_type, group)


def _wanted(group: Modern) -> set[tuple[str, int]]:
    """Partitions that some member shall have and waits for."""
    return {
        one
        for member in group.members.values()
        if member.phase is MemberPhase.UNRELEASED
        for one in set(each(member.target or {})) - set(each(member.assigned))
    }


def _holds(group: Modern, member: ModernMember, wanted: set[tuple[str, int]]) -> bool:
    epoch = modern.target_epoch(group)
    behind = epoch is not None and member.epoch < epoch
    return behind and not wanted.isdisjoint({*each(member.assigned), *each(member.revoking)})


def _blocker(
    view: GroupView, member_id: str, member: ModernMember, group: Modern, since_ms: int | None = None
) -> Blocker:
    known = names(view.offsets, group, view.context.topic_names)
    unrevoked = since_ms is None
    # The broker has no revocation timer for members that use the classic protocol.
    timed = unrevoked and member.phase_since_ms is not None and member.classic_session_timeout_ms is None
    return Blocker(
        member_id=member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.instance_id,
        revoking={known.get(topic, topic): ranges for topic, ranges in member.revoking.items()},
        since_ms=member.phase_since_ms if unrevoked else since_ms,
        fenced_at_ms=(member.phase_since_ms or 0) + member.rebalance_timeout_ms if timed else None,
    )
