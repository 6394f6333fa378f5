"""The groups at the end of a log, or at a time: ``list_groups`` and ``describe``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupreplay.api.sources import (
    AnySource,
    Time,
    finish,
    group_choice,
    log,
    open_log,
    point_ms,
    public,
    several_groups,
)
from groupreplay.app.inspection.groups import GroupRow, choose, group_row
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.retention import Brokers

if TYPE_CHECKING:
    from groupreplay.streaming.sources.source import Rows


#: One group, as ``groupreplay list`` shows it: docs/cli.md has the fields; times in milliseconds since 1970.
GroupSummary = GroupRow


@public
def list_groups(
    source: AnySource,
    *,
    group: str | Sequence[str] = (),
    types: Sequence[str] = (),
    states: Sequence[str] = (),
    at: Time | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> list[GroupSummary]:
    """The groups that exist at the end of a log, or ``at`` a time, by id.

    >>> import groupreplay
    >>> [(group.group_id, group.state, group.members) for group in groupreplay.list_groups("tuesday.parquet")]
    [('deployment-000000', 'Stable', 3), ('deployment-000001', 'Stable', 4), ('deployment-000002', 'Stable', 6)]

    Raises:
        GroupReplayError: the source cannot be read, or there is no such group.
    """
    descriptions = choose(_groups(source, group, at, rules, brokers)[0], types=types, states=states)
    return [*map(group_row, descriptions)]


@public
def describe(
    source: AnySource,
    group: str,
    *,
    at: Time | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> dict[str, Any]:
    """Everything that is known about one group: members, offsets, conditions; as ``groupreplay describe -o json``.

    >>> import groupreplay
    >>> group = groupreplay.describe("tuesday.parquet", "deployment-000001")
    >>> group["state"], group["generation"], len(group["offsets"])
    ('Stable', 5, 12)

    Offsets of a live cluster have the ends of their partitions and the lag, if this login may ask for them.

    Raises:
        GroupReplayError: the source cannot be read, or not exactly one group has this id or matches it as a glob.
    """
    from groupreplay.app.inspection.groups import log_bounds, with_lag

    found, rows = _groups(source, group, at, rules, brokers, with_remains=True)
    if len(found) > 1:
        ids = [description["group_id"] for description in found]
        raise several_groups(group, ids)
    if rows.connection is not None and at is None:
        try:
            found = with_lag(found, log_bounds(found, rows.connection))
        except GroupReplayError as error:
            log.warning("the ends of the partitions and the lag are not known: %s", error.what)
    # The types of JSON, as the command prints them.
    document: dict[str, Any] = json.loads(json.dumps(found[0]))
    return document


def _groups(
    source: AnySource,
    group: str | Sequence[str],
    at: Time | None,
    rules: str | Path | None,
    brokers: Brokers | None,
    *,
    with_remains: bool = False,
) -> tuple[list[dict[str, Any]], Rows]:
    """The descriptions of these groups at that time."""
    from groupreplay.app.inspection.groups import absent, live_groups
    from groupreplay.streaming.engine.replay import Replay

    choice, at_ms = group_choice(group), point_ms(at)
    opened = open_log(source, rules, brokers)
    replay = Replay(opened.context, choice, until_ms=at_ms, now_ms=opened.rows.complete_until(at_ms))
    found = live_groups(replay, opened.rows, with_remains=with_remains)
    missing = absent(choice, [description["group_id"] for description in found])
    finish(replay, choice, opened, missing)
    return found, opened.rows
