"""Conditions about who owns what and what is committed of it: members without work, silence, offsets that stay.

Silence is an inference: the log shows commits, not why there are none. What is usual for a group comes from its
``rhythm``; a group that commits on change only is never called silent. Commits are read in runs, so a silence
that was over before the run was read is not noticed. Must not know records, nor the end of a partition: lag is
null until somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from groupreplay.state.conditions.conditions import (
    MemberIdle,
    OwnerSilent,
    PartitionPoison,
    RebalanceSuspected,
)
from groupreplay.state.conditions.tracker import QUIET, Detection, Evaluation, GroupView
from groupreplay.state.events.event import Evidence
from groupreplay.state.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, Phase
from groupreplay.state.replay.slot_history import timeouts
from groupreplay.state.replay.topic_names import by_name, names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.commit_intervals import usual
from groupreplay.state.snapshot.partitions import each

_MINUTE_MS: Final = 60_000
#: Where no session timeout is in the log: the broker's default.
_SESSION_TIMEOUT_MS: Final = 45_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdleDetector:
    """A member got no partition in ``rounds`` completed rounds, and for ``least_ms``.

    Workers of Kafka Connect have tasks in place of partitions: nothing is said of them, nor of assignments
    that cannot be read.
    """

    NAME: ClassVar[str] = MemberIdle.NAME
    ON_COMMITS: ClassVar[bool] = False
    rounds: int = 3
    least_ms: int = 15 * _MINUTE_MS

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        raised, later = [], []
        for name, slot in view.snapshot.slot_history.slots.items() if view.snapshot.slot_history else ():
            due_ms = slot.idle_since_ms + self.least_ms
            if slot.idle_rounds < self.rounds:
                continue
            if due_ms > view.now_ms:
                later.append(due_ms)
                continue
            details = {
                "member_id": slot.member_id,
                "client_id": slot.client_id,
                "client_host": slot.client_host,
                "instance_id": slot.instance_id,
                "rounds": slot.idle_rounds,
            }
            raised.append(
                Detection(
                    kind=MemberIdle,
                    subject=name,
                    since_ms=slot.idle_since_ms,
                    threshold_ms=self.least_ms,
                    details=details,
                )
            )
        return Evaluation(raised, min(later, default=None))


def _consuming(view: GroupView) -> bool:
    """Whether the group has consumers that commit, and no rebalance that is known to go on."""
    group = view.group
    if not len(view.offsets) or group.in_progress is not None:
        return False
    if group.modern is None:
        return group.phase is Phase.STABLE and group.classic.protocol_type == CONSUMER_PROTOCOL_TYPE
    living = modern.living(group.modern)
    return group.group_type is GroupType.CONSUMER and bool(living) and modern.settled(group.modern)


def _session_timeout_ms(view: GroupView) -> int:
    return timeouts(view.group)[1] or _SESSION_TIMEOUT_MS


def _told(view: GroupView, raised: Detection) -> bool:
    """Whether it was said already: what began while others were at work goes on when they rest."""
    return raised.key in view.snapshot.conditions.active


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSuspectedDetector:
    """Without a prober: no commit for max(``of_gap`` · usual gap, rebalance and session timeout, ``least_ms``).

    Only for groups whose commits come whether offsets have changed or not: at least the share ``repeats`` of
    ``commits`` or more repeated what was there. Rebalances of the newer kinds are in the log.
    """

    NAME: ClassVar[str] = RebalanceSuspected.NAME
    ON_COMMITS: ClassVar[bool] = True
    threshold_ms: int | None = None
    of_gap: int = 5
    least_ms: int = 2 * _MINUTE_MS
    commits: int = 5
    repeats: float = 0.05

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        if view.context.probing or view.group.modern is not None or not _consuming(view):
            return QUIET
        gap_ms = _usual_gap_ms(view, self.commits, self.repeats)
        sign_ms = max(int(view.offsets.rows["commit_timestamp_ms"].max()), view.group.since_ms or 0)
        limit_ms = self._limit_ms(view, gap_ms or 0)
        if view.now_ms <= sign_ms + limit_ms:
            return Evaluation(next_ms=sign_ms + limit_ms + 1)
        if gap_ms is None:
            return QUIET
        details = {"silent_ms": view.now_ms - sign_ms, "usual_gap_ms": gap_ms}
        return Evaluation(
            [
                Detection(
                    kind=RebalanceSuspected,
                    since_ms=sign_ms,
                    threshold_ms=limit_ms,
                    details=details,
                    evidence=Evidence.INFERRED,
                )
            ]
        )

    def _limit_ms(self, view: GroupView, gap_ms: int) -> int:
        if self.threshold_ms is not None:
            return self.threshold_ms
        rebalance_ms, session_ms = timeouts(view.group)
        return max(
            self.of_gap * gap_ms, max(rebalance_ms, 0) + (session_ms or _SESSION_TIMEOUT_MS), self.least_ms
        )


def _usual_gap_ms(view: GroupView, commits: int, repeats: float) -> int | None:
    """The usual gap of a group that commits again and again; None where the habit is not that clear."""
    found = usual(view.offsets.rhythm)
    # So many gaps have one commit more before the first of them.
    if found is None or found.gaps + 1 < commits or found.repeated < repeats:
        return None
    return found.gap_ms


@dataclass(frozen=True, slots=True)
class _Owner:
    """A member with partitions that were committed before: its newest commit, and that of all others."""

    member_id: str
    member: Any
    partitions: Mapping[str, str]
    commit_ms: int
    others_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSilentDetector:
    """A member's partitions saw no commit for max(session timeout, ``of_gap`` · usual gap), others' did.

    The habit of committing again what is there must be as clear as for ``rebalance.suspected``: else a member
    whose partitions have no new records would be taken for one that is stuck.
    """

    NAME: ClassVar[str] = OwnerSilent.NAME
    ON_COMMITS: ClassVar[bool] = True
    threshold_ms: int | None = None
    of_gap: int = 10
    commits: int = 20
    repeats: float = 0.05

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        if not _consuming(view):
            return QUIET
        gap_ms = _usual_gap_ms(view, self.commits, self.repeats)
        limit_ms = self.threshold_ms or max(_session_timeout_ms(view), self.of_gap * (gap_ms or 0))
        stable_ms = view.group.since_ms or 0
        commit_ms = view.offsets.rows["commit_timestamp_ms"].tolist()
        at_work = max(commit_ms) >= view.now_ms - limit_ms
        if gap_ms is None:
            # The habit may yet become clear.
            return Evaluation(next_ms=view.now_ms + limit_ms) if at_work else QUIET
        if not at_work and self.NAME not in _firing(view):
            return QUIET
        oldest_ms = max(min(commit_ms), stable_ms)
        if oldest_ms + limit_ms >= view.now_ms:
            return Evaluation(next_ms=oldest_ms + limit_ms + 1)
        return self._among(view, gap_ms, limit_ms, stable_ms)

    def _among(self, view: GroupView, gap_ms: int, limit_ms: int, stable_ms: int) -> Evaluation:
        """Every owner on its own: some partition has had no commit for long, but perhaps nobody owns it."""
        raised, later = [], []
        for owner in _owners(view):
            since_ms = max(owner.commit_ms, stable_ms)
            one = self._raised(view, owner, since_ms, gap_ms, limit_ms)
            if view.now_ms <= since_ms + limit_ms:
                later.append(since_ms + limit_ms + 1)
            elif _told(view, one) or owner.others_ms > view.now_ms - limit_ms // 2:
                raised.append(one)
        # While all are at work somebody may fall silent; one that others wait with may be told from them later.
        return Evaluation(raised, min(later, default=view.now_ms + limit_ms))

    def _raised(self, view: GroupView, owner: _Owner, since_ms: int, gap_ms: int, limit_ms: int) -> Detection:
        details = {
            "member_id": owner.member_id,
            "client_id": owner.member.client_id,
            "client_host": owner.member.client_host,
            "instance_id": owner.member.instance_id,
            "silent_ms": view.now_ms - since_ms,
            "usual_gap_ms": gap_ms,
            "partitions": dict(owner.partitions),
            "lag": None,
        }
        return Detection(
            kind=OwnerSilent,
            subject=owner.member_id,
            since_ms=since_ms,
            threshold_ms=limit_ms,
            details=details,
            evidence=Evidence.INFERRED,
        )


def _firing(view: GroupView) -> set[str]:
    return {key.partition(" ")[0] for key in view.snapshot.conditions.active}


def _assignments(view: GroupView) -> Iterator[tuple[str, Any, Mapping[str, str]]]:
    """(member id, member, partitions by topic name) of all members."""
    group = view.group.modern
    if group is None:
        yield from ((one.member_id, one, one.partitions or {}) for one in view.group.classic.members)
        return
    known = names(view.offsets, group, view.context.topic_names)
    for member_id, member in modern.living(group).items():
        yield member_id, member, by_name(member.assigned, known)


def _owners(view: GroupView) -> Iterator[_Owner]:
    at = view.offsets.row_of()
    times = view.offsets.rows["commit_timestamp_ms"]
    held = [
        (member_id, member, partitions, [at[one] for one in each(partitions) if one in at])
        for member_id, member, partitions in _assignments(view)
    ]
    newest = [(int(times[rows].max()), member_id) for member_id, _, _, rows in held if rows]
    first, second = [*sorted(newest, reverse=True), (-1, ""), (-1, "")][:2]
    for member_id, member, partitions, rows in held:
        if rows:
            others_ms = second[0] if first[1] == member_id else first[0]
            yield _Owner(member_id, member, partitions, int(times[rows].max()), others_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPoisonDetector:
    """An offset stays over ``generations`` and for ``least_ms``, while the other partitions of its topic move.

    At least half of them must have moved in that time: a topic with little traffic has many quiet partitions.
    """

    NAME: ClassVar[str] = PartitionPoison.NAME
    ON_COMMITS: ClassVar[bool] = True
    generations: int = 3
    least_ms: int = 15 * _MINUTE_MS

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        number = view.group.epoch
        if number is None or view.group.simple or not len(view.offsets) or not _peopled(view):
            return QUIET
        moved = view.offsets.moved
        old = (moved["generation"] >= 0) & (number - moved["generation"] >= self.generations)
        if not old.any():
            return QUIET
        due_ms = moved["since_ms"] + self.least_ms
        rest = old & (due_ms > view.now_ms)
        going = self._going(view)
        known = self.NAME in _firing(view)
        found = []
        for row in np.flatnonzero(old & ~rest & (going | known)).tolist():
            raised = self._raised(view, row, number)
            if going[row] or _told(view, raised):
                found.append(raised)
        return Evaluation(found, int(due_ms[rest].min()) if rest.any() else None)

    def _going(self, view: GroupView) -> npt.NDArray[np.bool_]:
        """For each partition that stays, whether at least half of the others of its topic have moved lately."""
        topics, moved = view.offsets.rows["topic"], view.offsets.moved
        moving = (moved["since_ms"] > view.now_ms - self.least_ms) & (moved["generation"] >= 0)
        others = np.bincount(topics) - 1
        enough = (others > 0) & (2 * np.bincount(topics[moving], minlength=len(others)) >= others)
        going: npt.NDArray[np.bool_] = enough[topics]
        return going

    def _raised(self, view: GroupView, row: int, number: int) -> Detection:
        committed, moved = view.offsets.rows[row], view.offsets.moved[row]
        topic, partition = view.offsets.topics[int(committed["topic"])], int(committed["partition"])
        details = {
            "topic": topic,
            "partition": partition,
            "offset": int(committed["offset"]),
            "generations": number - int(moved["generation"]),
            "unchanged_ms": view.now_ms - int(moved["since_ms"]),
            "lag": None,
        }
        return Detection(
            kind=PartitionPoison,
            subject=f"{topic}-{partition}",
            since_ms=int(moved["since_ms"]),
            threshold_ms=self.least_ms,
            details=details,
            evidence=Evidence.INFERRED,
        )


def _peopled(view: GroupView) -> bool:
    group = view.group.modern
    return bool(view.group.classic.members) if group is None else bool(modern.living(group))
