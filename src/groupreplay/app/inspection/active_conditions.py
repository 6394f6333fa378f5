"""The active conditions of a described group: the worst one, and all of them as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupreplay.app.text.tables import Cell, Moment
from groupreplay.state.display.phrases import timestamp
from groupreplay.state.events.event import Severity


def risk(group: Mapping[str, Any]) -> str | None:
    """The last word of the name of the worst active condition, by severity, then age: ``stuck``."""
    return next((short_name(one["condition"]) for one in worst_first(group)), None)


def conditions_cell(group: Mapping[str, Any]) -> Cell:
    """All active conditions: ``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z; …``."""
    parts: list[str | Moment] = []
    for one in worst_first(group):
        separator = "; " if parts else ""
        parts += [f"{separator}{one['condition']} ({one['severity']}) since ", Moment(one["since_ms"])]
    return tuple(parts) or None


def worst_first(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The active conditions, the most severe first, among equals the oldest."""
    return sorted(group["conditions"], key=lambda one: (-Severity[one["severity"]], one["since_ms"]))


def condition_text(condition: Mapping[str, Any]) -> str:
    """``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z``."""
    return f"{condition['condition']} ({condition['severity']}) since {timestamp(condition['since_ms'])}"


def short_name(name: str) -> str:
    """The last word of a condition's name."""
    return name.rpartition(".")[2]
