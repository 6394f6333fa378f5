"""How the members of classic groups left, and which departures somebody had planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from groupreplay.codecs.kafka_terms import DEFAULT_HEARTBEAT_INTERVAL_MS
from groupreplay.state.events.event import LeaveReason
from groupreplay.state.policy.context import SessionSettings
from groupreplay.state.replay.departure_reasons import Finding, JoinTimer, Leaving
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import BeginBounds, Missed
from groupreplay.state.snapshot.members import Member, MemberCount, SlotHistory, rebalance_timeout_ms
from groupreplay.state.snapshot.offsets import Offsets
from groupreplay.state.snapshot.partitions import each

#: So long before the end of a rebalance the members commit nothing more: they have given up their partitions.
_SILENCE_MS: Final = 5_000
#: A rebalance that a departure begins ends when the others have rejoined, which each does with its next heartbeat
#: (``heartbeat.interval.ms``, 3 s by default): the usual time, not the longest.
_REJOIN_MS: Final = 2_000


class JoinPhase(msgspec.Struct, frozen=True):
    """The join phase that ended at ``ended_ms`` with these ``members``; without any the group became Empty then.

    ``snapshot`` and ``offsets`` are what is known before the record is applied.
    """

    snapshot: GroupSnapshot
    offsets: Offsets
    members: Sequence[Member]
    ended_ms: int

    def leaving(self, member: Member) -> Leaving:
        """What is known about the departure of a member of the generation before."""
        commit_ms = self.offsets.last_commit_ms(each(member.partitions))
        signs = [time for time in (self.snapshot.group.record_timestamp_ms, commit_ms) if time is not None]
        heard_ms = max(signs, default=None)
        others_ms = self._others_ms(member)
        earliest_ms, latest_ms = self._gone_ms(member, others_ms)
        return Leaving(
            earliest_ms=max(earliest_ms, heard_ms or 0),
            latest_ms=max(latest_ms, heard_ms or 0),
            heard_ms=heard_ms,
            committed_ms=commit_ms,
            heartbeat_ms=self._heartbeat_ms(commit_ms),
            usual_gap_ms=None if commit_ms is None else self.offsets.usual_gap_ms(),
            session=SessionSettings(member.session_timeout_ms, member.session_timeout_ms, 0),
            poll_ms=member.rebalance_timeout_ms,
            is_static=member.instance_id is not None,
            gives_up_silently=member.instance_id is not None,
            join=self._join_timer(member, others_ms),
        )

    def _heartbeat_ms(self, commit_ms: int | None) -> int | None:
        """When its session was last renewed for certain: at the end of the join phase before, or with its last commit.

        The record is written later, when the leader has sent the assignment; the member may be dead by then. Records
        before Kafka 2.1 do not have the end of the join phase.
        """
        joined_ms = self.snapshot.group.classic.joined_ms
        return max((at_ms for at_ms in (joined_ms, commit_ms) if at_ms is not None), default=None)

    def _gone_ms(self, member: Member, others_ms: int | None) -> tuple[int, int]:
        """When the member was gone, at the earliest and at the latest.

        Its departure began the rebalance, which lasts until the others have rejoined, or it was the last one for whom
        the others waited. The last answer shows whether it was still a member.
        """
        rebalance = self.snapshot.group.in_progress
        soon_ms = self.ended_ms if self._is_alone else self.ended_ms - _REJOIN_MS
        if rebalance is None or not rebalance.phases:
            # The others may have waited for somebody else since then.
            return min(soon_ms, self._silent_since_ms(others_ms)), self.ended_ms
        if not self._is_gone(member):
            return max(soon_ms, rebalance.phases[-1].last_asked_ms), self.ended_ms
        missed = rebalance.missed.get(member.member_id, Missed(None, self.ended_ms))
        latest_ms = min(self.ended_ms, missed.answered_ms)
        earliest_ms = rebalance.earliest_ms if missed.asked_ms is None else missed.asked_ms
        return min(soon_ms if earliest_ms is None else earliest_ms, latest_ms), latest_ms

    @property
    def _is_alone(self) -> bool:
        """Whether it was the only member, so that nobody had to rejoin."""
        return not self.members and len(self.snapshot.group.classic.members) == 1

    def _others_ms(self, member: Member) -> int | None:
        """The last commit of a partition of another member; None: there is none."""
        others = [one for one in self.snapshot.group.classic.members if one.member_id != member.member_id]
        return self.offsets.last_commit_ms(place for other in others for place in each(other.partitions))

    def _silent_since_ms(self, others_ms: int | None) -> int:
        """When the others had stopped to commit, if that is long before the end; else the end."""
        if self._is_alone or others_ms is None or others_ms >= self.ended_ms - _SILENCE_MS:
            return self.ended_ms
        # Members learn of a rebalance with their next heartbeat.
        return others_ms - DEFAULT_HEARTBEAT_INTERVAL_MS

    def is_awaited(self, member: Member) -> bool:
        """Whether the last answer about the rebalance shows the member: it was waited for."""
        rebalance = self.snapshot.group.in_progress
        return rebalance is not None and bool(rebalance.seen) and not self._is_gone(member)

    def _is_gone(self, member: Member) -> bool:
        """Whether the last answer about the rebalance in progress shows members, and not this one."""
        rebalance = self.snapshot.group.in_progress
        if rebalance is None or not rebalance.seen:
            return False
        return member.member_id not in rebalance.seen and (member.instance_id or "") not in rebalance.seen

    def _join_timer(self, member: Member, others_ms: int | None) -> JoinTimer | None:
        """The coordinator's timer: at its end it removes who has not rejoined, but no static members."""
        before, began = self.snapshot.group.classic.members, self._began()
        timeout_ms = rebalance_timeout_ms(before)
        if not self.members or member.instance_id is not None or self._is_gone(member):
            return None
        if timeout_ms is None or began.earliest_ms is None:
            return None
        is_silent = others_ms is not None and others_ms < self.ended_ms - _SILENCE_MS
        return JoinTimer(
            earliest_ms=began.earliest_ms,
            latest_ms=self.ended_ms if began.latest_ms is None else began.latest_ms,
            others_ms=others_ms if is_silent else None,
            usual_gap_ms=self.offsets.usual_gap_ms() or 0,
            timeout_ms=timeout_ms,
            most_ms=rebalance_timeout_ms((*before, *self.members)) or timeout_ms,
            is_probed=self.snapshot.group.in_progress is not None,
        )

    def _began(self) -> BeginBounds:
        """When it began: after the record before, and as the answers show it."""
        group = self.snapshot.group
        if group.in_progress is None:
            return BeginBounds(group.record_timestamp_ms)
        earliest_ms = group.in_progress.earliest_ms
        known_ms = group.record_timestamp_ms if earliest_ms is None else earliest_ms
        return BeginBounds(known_ms, group.in_progress.since_ms)


#: What happens to a process that hangs; a deployment does not do that.
TOO_SLOW: Final[frozenset[LeaveReason]] = frozenset({"poll_timeout", "rebalance_timeout"})
#: What the broker or the client does by itself, also to a process that was killed.
BY_ITSELF: Final[frozenset[LeaveReason]] = TOO_SLOW | {"session_timeout"}
#: Members of a deployment stop and start within this time of each other.
_DEPLOYMENT_MS: Final = 120_000
#: Numbers of members that are remembered.
_MOST_COUNTS: Final = 32


def unplanned(
    findings: Sequence[tuple[Finding, int | None]],
    history: SlotHistory | None,
    at_ms: int,
    members: tuple[int, int],
) -> Iterator[bool]:
    """For each departure of one operation, with the time since its last sign of life: whether nobody planned it.

    ``members``: how many there were before and are now. A deployment may kill members, too. It is one if others stopped
    on purpose about when this one fell silent, or if the group has as many members as before that.
    """
    before, now = members
    stopping = any(finding.reason == "left" for finding, _ in findings)
    for finding, elapsed_ms in findings:
        if finding.reason in TOO_SLOW:
            yield True
            continue
        if stopping or not _is_by_itself(finding):
            yield False
            continue
        silent_ms = at_ms - (elapsed_ms or 0)
        since_ms = silent_ms - _DEPLOYMENT_MS
        if history is None:
            yield now < before
        else:
            # Of a group that is younger than that: who took the place of a killed member may have joined beside it.
            usual = _count_at(history, since_ms, _count_at(history, silent_ms, before))
            yield history.stopped_ms < since_ms and now < usual


def remember(history: SlotHistory, at_ms: int, members: int, *, stopped: bool) -> None:
    """Note how many members there are, and whether one stopped on purpose or was started again."""
    if not history.counts or history.counts[-1].members != members:
        history.counts = (*history.counts, MemberCount(at_ms, members))[-_MOST_COUNTS:]
    if stopped:
        history.stopped_ms = at_ms


def _is_by_itself(finding: Finding) -> bool:
    if finding.reason != "unknown":
        return finding.reason in BY_ITSELF
    likely = {candidate.reason for candidate in finding.candidates if candidate.likely}
    return bool(likely) and likely <= BY_ITSELF


def _count_at(history: SlotHistory, at_ms: int, otherwise: int) -> int:
    """The number of members at that time, if it is known."""
    known = [count.members for count in history.counts if count.at_ms <= at_ms]
    return known[-1] if known else otherwise
