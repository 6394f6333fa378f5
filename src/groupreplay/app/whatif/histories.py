"""The histories of groups from the rows of any input: read in one way, whether they were recorded or played."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from groupreplay.state import Context
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.replay import Replay, events_by_group
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.event_reading import read_events
from groupreplay.timeline.group_history import GroupHistory


def group_histories(
    rows: Rows,
    context: Context,
    groups: Container[str] | None,
    *,
    until_ms: int | None = None,
    end_ms: int | None = None,
) -> tuple[dict[str, GroupHistory], Replay]:
    """The histories by group id, and the replay for its counts; the context must enable member events.

    ``end_ms``: the time up to which the log is complete; None: its last record.
    """
    logs = GroupLogs(groups, until_ms)
    rows = replace(rows, batches=logs.reading(rows.batches))
    replay = Replay(context, groups, until_ms=until_ms, now_ms=end_ms)
    events = events_by_group(replay, rows)
    return {
        group_id: GroupHistory(
            group_id=group_id,
            events=read_events(events.get(group_id, ())),
            commits=log.commits(),
            end_ms=replay.latest_ms,
        )
        for group_id, log in logs.logs.items()
    }, replay
