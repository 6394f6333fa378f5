"""The tables of ``list``: one row per group, and with ``--expiring`` groups whose offsets expire soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupreplay.app.inspection.active_conditions import risk
from groupreplay.app.inspection.groups import Description
from groupreplay.app.inspection.lag import REPLAYED, SKIPPED
from groupreplay.app.text.tables import Cell, Moment, Table, moment


def summary(group: Description) -> dict[str, Any]:
    """The JSON document of a group in ``list``."""
    return {
        "group_id": group["group_id"],
        "type": group["type"],
        "protocol_type": group["protocol_type"],
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
            *(one[name] for name in ("group_id", "type", "protocol_type", "state", "members")),
            one["group_epoch"] if one["generation"] is None else one["generation"],
            moment(one["since_ms"]),
            one["risk"],
        )
        for one in map(summary, groups)
    ]
    return Table(("GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"), rows)


def expiring(groups: Sequence[Description], until_ms: int) -> list[dict[str, Any]]:
    """The groups with offsets that expire until then, with only those offsets; the earliest expiry first."""
    chosen = []
    for group in groups:
        offsets = [
            one
            for one in group["offsets"]
            if one["expires_at_ms"] is not None and one["expires_at_ms"] <= until_ms
        ]
        if offsets:
            chosen.append({**group, "offsets": offsets})
    return sorted(chosen, key=_first_ms)


def _first_ms(group: Description) -> int:
    return min(int(one["expires_at_ms"]) for one in group["offsets"])


def expiring_summary(group: Description) -> dict[str, Any]:
    """The JSON document of a group from ``expiring``; the sums are None without ``--with-lag``."""
    return {
        "group_id": group["group_id"],
        "type": group["type"],
        "state": group["state"],
        "partitions": len(group["offsets"]),
        "expires_at_ms": _first_ms(group),
        **{name: _sum(group["offsets"], name) for name in (REPLAYED, SKIPPED)},
    }


def _sum(offsets: Sequence[Description], name: str) -> int | None:
    known = [one[name] for one in offsets if one.get(name) is not None]
    return sum(known) if known else None


def expiring_table(groups: Sequence[Description]) -> Table:
    """One row per group."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    rows: list[tuple[Cell, ...]] = []
    for one in map(expiring_summary, groups):
        head = (one["group_id"], one["type"], one["state"], one["partitions"])
        rows.append((*head, Moment(one["expires_at_ms"]), one[REPLAYED], one[SKIPPED]))
    return Table(columns, rows)
