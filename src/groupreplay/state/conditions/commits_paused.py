"""``commits.paused``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from groupreplay.state.conditions.commit_gaps import are_regular, known_gaps
from groupreplay.state.conditions.condition import Condition, Example
from groupreplay.state.conditions.detection import (
    QUIET,
    RECORD,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.conditions.windows import MINUTE_MS
from groupreplay.state.events.event import Evidence, Partitions, Severity
from groupreplay.state.phrases import Data, clock_time, counted, milliseconds, timestamp
from groupreplay.state.replay.group_summary import has_members
from groupreplay.state.snapshot.partitions import by_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsPaused(Condition):
    """A group that commits regularly has committed nothing for long."""

    NAME = "commits.paused"
    DOC = (
        "The group commits at regular intervals, and then nothing for much longer. It is an observation, not a "
        "fault: a topic without new records pauses a group whose clients commit only what they have read. It ends "
        "with the next commit, or when the last member leaves."
    )
    SEVERITY = Severity.INFO
    SHORT = "stopped committing"
    GROUPS_DID = "stopped committing"
    MEANING = "commits stopped"
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                "until_ms": None,
                "elapsed_ms": 120_001,
                "usual_gap_ms": 8_192,
                "partitions": {"orders": "0-5"},
                "partition_count": 6,
            },
        ),
    )
    until_ms: Annotated[int | None, Meta(description="When it ended; null while it lasts.")]
    elapsed_ms: int
    usual_gap_ms: Annotated[int, Meta(description="95 % of the group's gaps between commits are shorter.")]
    partitions: Annotated[Partitions, Meta(description="Partitions that were committed before, by topic.")]
    partition_count: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return f"no commit for {milliseconds(data.get('elapsed_ms'))}{_circumstances(data)}"

    @classmethod
    def text(cls, data: Data) -> str:
        """The pause on one line; after its end with both times, which is what one looks for in a capture."""
        since_ms, until_ms = data.get("since_ms"), data.get("until_ms")
        if data.get("status") != "resolved" or since_ms is None or until_ms is None:
            return cls.firing_text(data)
        first, last = (clock_time(timestamp(at_ms)) for at_ms in (since_ms, until_ms))
        elapsed = milliseconds(data.get("elapsed_ms"))
        return f"no commit from {first} to {last} UTC ({elapsed}){_circumstances(data)}"


def _circumstances(data: Data) -> str:
    count = counted(data.get("partition_count", 0), "partition")
    return f" on {count}, usually one every {milliseconds(data.get('usual_gap_ms'))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsPausedDetector(GroupDetector):
    """No commit for max(``of_gap`` · usual gap, ``least_ms``) in a group with members, or that never had any.

    The usual gap must be known from ``commits`` commits and be regular: half of the gaps are at least half as long. A
    capture shows only pauses of 100 s and more.
    """

    CONDITION = CommitsPaused
    DEPENDS_ON = RECORD
    ENDED_BY_ANY_COMMIT: ClassVar[bool] = True
    threshold_ms: int | None = None
    of_gap: int = 10
    least_ms: int = 2 * MINUTE_MS
    commits: int = 20

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        if not len(view.offsets) or not (view.group.simple or has_members(view.group)):
            return QUIET
        since_ms = max(view.offsets.newest_commit_ms() or 0, view.snapshot.activity.staffed_ms)
        gaps = known_gaps(view, self.commits)
        if gaps is None or not are_regular(view, gaps):
            # They may yet be known and regular: commits make no evaluation.
            first_ms = since_ms + (self.threshold_ms or self.least_ms) + 1
            return Evaluation(next_ms=first_ms) if first_ms > view.now_ms else QUIET
        limit_ms = self.threshold_ms or max(self.of_gap * gaps.gap_ms, self.least_ms)
        if view.now_ms > since_ms + limit_ms:
            return Evaluation([self._paused(view, since_ms, limit_ms, gaps.gap_ms)])
        # The limit may become shorter with the commits before the next evaluation.
        half_ms = since_ms + limit_ms // 2
        return Evaluation(next_ms=(half_ms if half_ms >= view.now_ms else since_ms + limit_ms) + 1)

    def _paused(self, view: GroupView, since_ms: int, limit_ms: int, gap_ms: int) -> Detection:
        commit_ms = view.offsets.rows["commit_timestamp_ms"]
        recent = view.offsets.names(np.flatnonzero(commit_ms >= int(commit_ms.max()) - limit_ms))
        return self.detection(
            since_ms,
            limit_ms,
            until_ms=None,
            elapsed_ms=view.now_ms - since_ms,
            usual_gap_ms=gap_ms,
            partitions=by_topic(recent),
            partition_count=len(recent),
        )
