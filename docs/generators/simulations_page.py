"""Parts of ``docs/simulations.md``: the settings of simulated brokers and clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    INT_MAX,
    Setting,
    shown,
)


def settings_tables() -> str:
    """Every setting of brokers and of clients."""
    return "\n".join((*_table("broker", BROKER_SETTINGS), "", *_table("client", CLIENT_SETTINGS)))


def _table(heading: str, table: Mapping[str, Setting]) -> Iterator[str]:
    yield f"| {heading} | default | allowed | meaning |"
    yield "| --- " * 4 + "|"
    for name, setting in table.items():
        default = (
            "2³¹-1"
            if setting.default == INT_MAX
            else f"`{shown(setting.default)}`"
            if setting.default
            else "empty"
        )
        if setting.default == 0:
            default = "`0`"
        yield f"| `{name}` | {default} | {setting.allowed} | {setting.doc} |"
