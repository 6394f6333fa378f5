"""The table of ``list``: one row per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupreplay.streaming.inspection.active_conditions import risk
from groupreplay.streaming.inspection.groups import Description, time_cell
from groupreplay.streaming.text.terminal import Table


def summary(group: Description) -> dict[str, Any]:
    """The JSON document of a group in ``list``."""
    return {
        "group_id": group["group_id"],
        "type": group["type"],
        "state": group["state"],
        "members": len(group["members"]),
        "generation": group["generation"],
        "since_ms": group["since_ms"],
        "group_epoch": group["group_epoch"],
        "risk": risk(group),
    }


def list_table(groups: Sequence[Description]) -> Table:
    """One row per group; GENERATION is the group epoch for groups of the newer types."""
    rows = [
        (
            *(one[name] for name in ("group_id", "type", "state", "members")),
            one["group_epoch"] if one["generation"] is None else one["generation"],
            time_cell(one["since_ms"]),
            one["risk"],
        )
        for one in map(summary, groups)
    ]
    return Table(("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"), rows)
