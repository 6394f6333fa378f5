"""Parts of ``docs/simulations.md``: the settings of simulated brokers and clients, the steps, the keys of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from groupreplay.coordinator.simulation.scenario_file import STEPS
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    INT_MAX,
    Setting,
    shown,
)

_MEMBERS = (
    '`member` is a number, `"random"` (one of those that run), `"next"` (those that run take turns) or '
    '`"all"`; for `start` they are\nthose of the beginning that do not run. A step that is impossible has no effect: '
    "the start of a client that runs, or the\nend of one that does not."
)


def settings_tables() -> str:
    """Every setting of brokers and of clients."""
    return "\n".join((*_table("broker", BROKER_SETTINGS), "", *_table("client", CLIENT_SETTINGS)))


def _table(heading: str, table: Mapping[str, Setting]) -> Iterator[str]:
    yield f"| `[{heading}]` | default | allowed | meaning |"
    yield "| --- " * 4 + "|"
    for name, one in table.items():
        default = "2³¹-1" if one.default == INT_MAX else f"`{shown(one.default)}`" if one.default else "empty"
        if one.default == 0:
            default = "`0`"
        yield f"| `{name}` | {default} | {one.allowed} | {one.doc} |"


def steps_table() -> str:
    """Every step of an event, with its keys besides ``at``."""
    rows = [_MEMBERS, "", "| `do` | keys | meaning |", "| --- " * 3 + "|"]
    for one in STEPS:
        keys = ", ".join(f"`{key}`" for key in one.__struct_encode_fields__ if key != "at")
        meaning = " ".join((one.__doc__ or "").split()).replace("``", "`")
        rows.append(f"| `{one.__struct_config__.tag}` | {keys} | {meaning} |")
    return "\n".join(rows)
