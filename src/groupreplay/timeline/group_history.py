"""All that was read of one group, whether it was recorded or played: what sums over a history begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.event_reading import ReadEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """The events of a group in order, its commits, and the time up to which the log is known."""

    group_id: str
    events: Sequence[ReadEvent]
    commits: CommitLog
    end_ms: int
