"""Parts of ``docs/whatif.md``: the settings that can be asked about."""

from __future__ import annotations

from groupreplay.coordinator.simulation.settings_table import shown
from groupreplay.timeline.whatif.settings import ASKED, AUTO, INSTANCE, NONE


def settings_table() -> str:
    """Every setting, by Kafka's name."""
    lines = ["| setting | of | protocols | allowed | Kafka's default | what it changes |", "| --- " * 6 + "|"]
    for name, asked in ASKED.items():
        allowed = f"{AUTO} or {NONE}" if name == INSTANCE else asked.setting.allowed
        default = shown(asked.setting.default) or NONE
        protocols = " and ".join(asked.protocols)
        lines.append(f"| `{name}` | {asked.whose} | {protocols} | {allowed} | `{default}` | {asked.effect} |")
    return "\n".join(lines)
