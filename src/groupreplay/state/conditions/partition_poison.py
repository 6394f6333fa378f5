"""``partition.poison``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupreplay.state import phrases
from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import (
    QUIET,
    RECORD,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.conditions.windows import MINUTE_MS
from groupreplay.state.events.event import Evidence
from groupreplay.state.phrases import Data
from groupreplay.state.replay.group_summary import has_members
from groupreplay.state.snapshot.commits_between import RunAhead
from groupreplay.state.snapshot.common_pauses import is_pause, working_since_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPoison(Condition):
    """The offset of one partition stays while the others of its topic move."""

    NAME = "partition.poison"
    DOC = (
        "The committed offset of one partition stays the same over several generations while others advance. The log "
        "does not show whether the partition has new records."
    )
    SHORT = "with a blocked partition"
    GROUPS_DID = "had a partition whose offset stood still"
    MEANING = "the offset of one partition did not move while others did"
    ALERTS = (
        Alert(
            fires="a group does not get past one record",
            summary="{group} does not get past one record",
            description=(
                "The committed offset of one partition of group {group} of cluster {cluster} has not moved over "
                "several generations. The record there makes each owner fail or hang."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.INFERRED,
            {
                "topic": "orders",
                "partition": 3,
                "offset": 42,
                "generations": 4,
                "unchanged_ms": 960_000,
                "lag": None,
            },
        ),
    )
    topic: str
    partition: int
    offset: int
    generations: int
    unchanged_ms: int
    lag: int | None

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        for_ms = phrases.milliseconds(data.get("unchanged_ms"))
        return f"{phrases.subject(data)} stays at offset {data.get('offset')} for {for_ms}{phrases.lag(data)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPoisonDetector(GroupDetector):
    """An offset stays over ``generations`` and for ``least_ms``, while the other partitions of its topic move.

    At least half of them must have moved in that time: a topic with little traffic has many quiet partitions. In a
    pause of the whole group of about ``least_ms``, and after it, the time counts anew: the last to move before it and
    the first to move after it have moved while the others stayed.
    """

    CONDITION = PartitionPoison
    DEPENDS_ON = RECORD
    generations: int = 3
    least_ms: int = 15 * MINUTE_MS

    def turns(self, view: GroupView, ahead: RunAhead) -> npt.NDArray[np.bool_] | None:
        """The moves of what has stayed for long: of the partition itself, and of others beside it."""
        return ahead.returns.stay_ms >= self.least_ms if self._any_old(view) else None

    def _any_old(self, view: GroupView) -> bool:
        """Whether an offset has stayed over so many generations; of no group without members."""
        number = view.group.epoch
        if number is None or number < self.generations or view.group.simple or not has_members(view.group):
            return False
        _, first = view.offsets.moves() or (0, None)
        return first is not None and number - first >= self.generations

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        if not self._any_old(view):
            return QUIET
        moved, last = view.offsets.moved, (view.group.epoch or 0) - self.generations
        old = (moved["generation"] >= 0) & (moved["generation"] <= last)
        stays = old & (moved["since_ms"] + self.least_ms <= view.now_ms)
        # A shorter pause lets no partition that moves look as if it stayed.
        pause_ms, silent_ms = 2 * self.least_ms, view.now_ms - (view.offsets.newest_commit_ms() or 0)
        is_paused = is_pause(silent_ms, pause_ms)
        working_ms = view.now_ms if is_paused else working_since_ms(view.offsets.resumed_ms, pause_ms)
        due_ms = np.maximum(moved["since_ms"], working_ms) + self.least_ms
        rest = old & (due_ms > view.now_ms)
        begins = stays & ~rest & self._others_move(view)
        is_active = view.any_active(PartitionPoison)
        detections = []
        for row in np.flatnonzero(stays & (begins | is_active)).tolist():
            poison = self._poison(view, row)
            # What began while the other partitions moved goes on when they stop as well.
            if begins[row] or view.is_active(poison):
                detections.append(poison)
        # In a pause only a commit begins anything, and after a commit it is evaluated.
        return Evaluation(detections, int(due_ms[rest].min()) if rest.any() and not is_paused else None)

    def _others_move(self, view: GroupView) -> npt.NDArray[np.bool_]:
        """For each partition, whether at least half of the others of its topic have moved lately."""
        topics, moved = view.offsets.rows["topic"], view.offsets.moved
        moving = (moved["since_ms"] > view.now_ms - self.least_ms) & (moved["generation"] >= 0)
        others = np.bincount(topics) - 1
        enough = (others > 0) & (2 * np.bincount(topics[moving], minlength=len(others)) >= others)
        going: npt.NDArray[np.bool_] = enough[topics]
        return going

    def _poison(self, view: GroupView, row: int) -> Detection:
        committed, moved = view.offsets.rows[row], view.offsets.moved[row]
        topic, partition = view.offsets.topics[int(committed["topic"])], int(committed["partition"])
        return self.detection(
            int(moved["since_ms"]),
            self.least_ms,
            subject=f"{topic}-{partition}",
            evidence=Evidence.INFERRED,
            topic=topic,
            partition=partition,
            offset=int(committed["offset"]),
            generations=(view.group.epoch or 0) - int(moved["generation"]),
            unchanged_ms=view.now_ms - int(moved["since_ms"]),
            lag=None,
        )
