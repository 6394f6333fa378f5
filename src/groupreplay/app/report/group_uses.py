"""What advice needs beside the history of a group: the group at the end, what it has written, who uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from groupreplay.app.inspection.group_use import CommitLoads, LoadRow, unused, unused_row
from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Replay
from groupreplay.timeline.advice.inputs import AdviceInput, GroupUse, Load, advice_input
from groupreplay.timeline.states import TimelineInput


@dataclass(frozen=True, slots=True)
class GroupUses:
    """The groups at the end, what each has written, and for how long nobody has used it."""

    described: Mapping[str, Mapping[str, Any]]
    written: Mapping[str, LoadRow] = field(default_factory=dict)
    unused_ms: Mapping[str, int] = field(default_factory=dict)
    commit_bytes: Mapping[str | None, int] = field(default_factory=dict)

    @classmethod
    def of(cls, replay: Replay, loads: CommitLoads, end_ms: int) -> GroupUses:
        """By what ``list --sort commits`` and ``list --unused`` compute."""
        groups = [group.describe() for group in replay.groups() if group.group_id is not None]
        return cls(
            {group["group_id"]: group for group in groups},
            {row.group_id: row for row in loads.rows(groups, end_ms)},
            {group["group_id"]: unused_row(group, end_ms).unused_ms for group in unused(groups, end_ms)},
            loads.commit_bytes,
        )

    def history(
        self, given: TimelineInput, context: Context, since_ms: int | None, before_ms: int | None
    ) -> AdviceInput:
        """The history of a group, from ``before_ms`` on."""
        row, load = self.written.get(given.group_id), None
        if row is not None and row.commits_per_second is not None and row.share is not None:
            load = Load(
                commits_per_second=row.commits_per_second,
                bytes=row.bytes,
                share=row.share,
                commit_bytes=self.commit_bytes.get(given.group_id, 0),
            )
        use = GroupUse(
            described=self.described.get(given.group_id, {}),
            load=load,
            unused_ms=self.unused_ms.get(given.group_id),
            retention_ms=context.assumed_retention_ms,
            is_retention_assumed=context.retention_ms is None,
        )
        return advice_input(replace(given, since_ms=before_ms), use, since_ms)
