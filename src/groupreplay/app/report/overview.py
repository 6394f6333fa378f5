"""The overview of all groups from the rows of a log."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from groupreplay.app.report.fitting import island_bytes
from groupreplay.state import Context
from groupreplay.state.display.phrases import counted
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.document import Remark, TimelineDocument, TimelineSource
from groupreplay.timeline.overview import (
    OVERVIEW_FORM,
    GroupsOverview,
    GroupStrip,
    OverviewTally,
    strip_bucket_ms,
)

#: Rows of the table; more would make the page slow.
_MOST_STRIPS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AllStrips:
    """The strips of all groups between two points in time, the worst first."""

    since_ms: int
    until_ms: int
    strips: Sequence[GroupStrip]


def all_strips(
    rows: Rows, context: Context, since_ms: int | None, until_ms: int | None, end_ms: int | None
) -> AllStrips:
    """The strips of all groups in the rows; ``end_ms`` is the time up to which a live log is complete."""
    replay, tally = Replay(context, until_ms=until_ms, now_ms=end_ms), OverviewTally()
    for row in replay.feed(rows):
        if row.output is Output.EVENTS and row.value is not None:
            tally.add(json.loads(row.value))
    ends_ms = replay.latest_ms + 1 if until_ms is None else until_ms
    begins_ms = min(tally.first_ms or ends_ms - 1, ends_ms - 1) if since_ms is None else since_ms
    others = [group.group_id for group in replay.groups()]
    return AllStrips(
        since_ms=begins_ms,
        until_ms=ends_ms,
        strips=tally.strips(begins_ms, max(ends_ms, begins_ms + 1), others),
    )


def that_fit(timelines: Sequence[TimelineDocument], most_bytes: int) -> list[TimelineDocument]:
    """The first documents, without those that do not fit into what the ones before them leave of so many bytes."""
    kept = []
    for one in timelines:
        size = island_bytes(one)
        if size <= most_bytes:
            most_bytes -= size
            kept.append(one)
    return kept


def _remarks(rows: int, full: int, too_large: int, left_out: int) -> list[Remark]:
    """What the overview leaves out, by numbers of groups."""
    summed = [
        (
            rows - full,
            f"{counted(rows - full, 'group')} have a row only: the worst {full} are shown in full.",
        ),
        (
            too_large,
            f"{counted(too_large, 'group')} did not fit in full; groupreplay report --group draws each alone.",
        ),
        (left_out, f"{counted(left_out, 'group')} without a problem are left out."),
    ]
    return [
        Remark(
            kind="strips",
            text="Strips are made from events; a group in full also has its states, owners and commits.",
        ),
        *(Remark(kind="summed_groups", text=text) for number, text in summed if number > 0),
    ]


def groups_overview(
    found: AllStrips,
    timelines: Sequence[TimelineDocument],
    source: TimelineSource,
    in_full: Collection[str] = (),
    *,
    too_large: int = 0,
) -> GroupsOverview:
    """The document of the overview; groups shown in full keep their strip, the others their numbers.

    ``in_full`` are groups that keep their strip without a timeline. ``too_large``: so many groups were meant to be
    shown in full, and do not fit.
    """
    full = {one.group_id for one in timelines} | set(in_full)
    strips = [
        replace(one, in_full=True) if one.group_id in full else replace(one, rebalances=(), spans=())
        for one in found.strips[:_MOST_STRIPS]
    ]
    return GroupsOverview(
        form=OVERVIEW_FORM,
        since_ms=found.since_ms,
        until_ms=found.until_ms,
        bucket_ms=strip_bucket_ms(found.since_ms, found.until_ms),
        source=source,
        remarks=tuple(_remarks(len(strips), len(full), too_large, len(found.strips) - len(strips))),
        strips=tuple(strips),
        timelines=tuple(timelines),
    )
