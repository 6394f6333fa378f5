"""``owner.silent``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions.commit_gaps import commits_expected, expected_gap_ms, usual_gap_ms
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Alert, Example, MemberCondition
from groupreplay.state.conditions.detection import (
    QUIET,
    RECORD,
    Dependency,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.events.event import Evidence, Partitions
from groupreplay.state.phrases import Data
from groupreplay.state.replay.group_summary import has_members
from groupreplay.state.replay.slot_history import timeouts
from groupreplay.state.replay.topic_names import by_name, names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.commits_between import RunAhead
from groupreplay.state.snapshot.common_pauses import working_since_ms
from groupreplay.state.snapshot.members import client_fields
from groupreplay.state.snapshot.partitions import each


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSilent(MemberCondition):
    """A member commits nothing while the others do."""

    NAME = "owner.silent"
    DOC = "The partitions of one member have no new commits while those of other members do."
    SHORT = "with a silent member"
    GROUPS_DID = "had a member that stopped committing"
    MEANING = "a member committed nothing while the others did"
    ALERTS = (
        Alert(
            fires="one member has stopped committing",
            summary="A member of {group} has stopped committing",
            description=(
                "The partitions of one member of group {group} of cluster {cluster} have records and no new "
                "commits, while other members commit. Take a thread dump of the member in `who`."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.INFERRED,
            {
                **EXAMPLE_MEMBER,
                "silent_ms": 90_000,
                "usual_gap_ms": 5_000,
                "partitions": {"orders": "0-3"},
                "lag": 12,
            },
        ),
    )
    silent_ms: int
    usual_gap_ms: int
    partitions: Partitions | None
    lag: Annotated[int | None, Meta(description="Records it has not committed; null when it is not known.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return f"{phrases.member(data)}, {phrases.silence(data)}{phrases.lag(data)}"


@dataclass(frozen=True, slots=True)
class _Owner:
    """A member with partitions that were committed before: its newest commit, and the newest of all others."""

    member_id: str
    member: Any
    partitions: Mapping[str, str]
    commit_ms: int
    others_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSilentDetector(GroupDetector):
    """A member's partitions had no commit for max(session timeout, ``of_gap`` · usual gap), while others went on.

    Others have worked all that time: without a pause of the whole group of about half of it. After such a pause the
    time counts from the first commit: whoever commits a little later than the others was not silent.
    The group must repeat offsets in its commits as for ``rebalance.suspected``: else a member whose partitions have no
    new records would look like a member that is stuck.
    """

    CONDITION = OwnerSilent
    DEPENDS_ON = RECORD | {Dependency.PROBES}
    threshold_ms: int | None = None
    of_gap: int = 10
    commits: int = 20
    repeats: float = 0.05

    def turns(self, view: GroupView, ahead: RunAhead) -> npt.NDArray[np.bool_] | None:
        """Commits after a lull: of the silent member itself, or of others who were too quiet to tell."""
        if not (has_members(view.group) and ahead.has_lulls):
            return None
        gap_ms = expected_gap_ms(ahead.usual(), self.commits, self.repeats)
        if gap_ms is None and not view.any_active(OwnerSilent):
            return None
        return ahead.returns.lull_ms > self._limit_ms(view, gap_ms) // 2

    def _limit_ms(self, view: GroupView, gap_ms: int | None) -> int:
        session_ms = timeouts(view.group)[1] or view.session.timeout_ms
        return self.threshold_ms or max(session_ms, self.of_gap * (gap_ms or 0))

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        if not commits_expected(view):
            return QUIET
        gap_ms = usual_gap_ms(view, self.commits, self.repeats)
        limit_ms = self._limit_ms(view, gap_ms)
        stable_ms = view.group.since_ms or 0
        newest_ms = view.offsets.newest_commit_ms() or 0
        at_work = newest_ms >= view.now_ms - limit_ms
        if gap_ms is None:
            # The group may yet get a usual gap.
            return Evaluation(next_ms=newest_ms + limit_ms + 1) if at_work else QUIET
        if not at_work and not view.any_active(OwnerSilent):
            return QUIET
        oldest_ms = max(view.offsets.oldest_commit_ms(), stable_ms)
        if oldest_ms + limit_ms >= view.now_ms:
            return Evaluation(next_ms=oldest_ms + limit_ms + 1)
        return self._evaluate_owners(view, gap_ms, limit_ms, stable_ms)

    def _evaluate_owners(self, view: GroupView, gap_ms: int, limit_ms: int, stable_ms: int) -> Evaluation:
        """Each owner on its own: some partition has had no commit for long, but perhaps it has no owner."""
        detections, later = [], []
        working_ms = working_since_ms(view.offsets.resumed_ms, limit_ms)
        for owner in _owners(view):
            is_active = view.is_about(OwnerSilent, owner.member_id)
            # A silence that began while others committed goes on when they stop as well.
            since_ms = max(owner.commit_ms, stable_ms, -1 if is_active else working_ms)
            if view.now_ms <= since_ms + limit_ms:
                later.append(since_ms + limit_ms + 1)
            elif is_active or owner.others_ms > view.now_ms - limit_ms // 2:
                detections.append(self._silent(view, owner, since_ms, gap_ms, limit_ms))
        # While all commit, one may stop; of several that stop, one may be detected only later.
        return Evaluation(detections, min(later, default=view.now_ms + limit_ms))

    def _silent(self, view: GroupView, owner: _Owner, since_ms: int, gap_ms: int, limit_ms: int) -> Detection:
        return self.detection(
            since_ms,
            limit_ms,
            subject=owner.member_id,
            evidence=Evidence.INFERRED,
            member_id=owner.member_id,
            **client_fields(owner.member),
            silent_ms=view.now_ms - since_ms,
            usual_gap_ms=gap_ms,
            partitions=dict(owner.partitions),
            lag=None,
        )


def _assignments(view: GroupView) -> Iterator[tuple[str, Any, Mapping[str, str]]]:
    """(member id, member, partitions by topic name) of all members."""
    group = view.group.modern
    if group is None:
        yield from (
            (member.member_id, member, member.partitions or {}) for member in view.group.classic.members
        )
        return
    topic_names = names(view.offsets, group, view.context.topic_names)
    for member_id, member in modern.living(group).items():
        yield member_id, member, by_name(member.assigned, topic_names)


def _owners(view: GroupView) -> Iterator[_Owner]:
    at = view.offsets.row_of()
    times = view.offsets.rows["commit_timestamp_ms"]
    owners = [
        (member_id, member, partitions, [at[partition] for partition in each(partitions) if partition in at])
        for member_id, member, partitions in _assignments(view)
    ]
    newest = [(int(times[rows].max()), member_id) for member_id, _, _, rows in owners if rows]
    first, second = [*sorted(newest, reverse=True), (-1, ""), (-1, "")][:2]
    for member_id, member, partitions, rows in owners:
        if rows:
            others_ms = second[0] if first[1] == member_id else first[0]
            yield _Owner(member_id, member, partitions, int(times[rows].max()), others_ms)
