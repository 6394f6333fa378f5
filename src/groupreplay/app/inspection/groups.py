"""The groups of a replay as ``Group.describe()`` returns them, and the selection of some of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from groupreplay.app.inspection.fail_on import Findings
from groupreplay.state.display.phrases import counted
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.source import Rows

#: What ``Group.describe()`` returns.
Description = Mapping[str, Any]


def live_groups(
    replay: Replay, rows: Rows, findings: Findings | None = None, *, with_remains: bool = False
) -> list[dict[str, Any]]:
    """Feed the rows to the replay and describe every group that exists at their end, ordered by name.

    ``findings`` observes the events on the way. ``with_remains``: also deleted groups of which offsets are left.
    """
    output = replay.feed(rows)
    for _ in output if findings is None else findings.observe(output):
        pass
    return existing(replay, with_remains=with_remains)


def existing(replay: Replay, *, with_remains: bool = False) -> list[dict[str, Any]]:
    """The groups that exist after the rows fed so far."""
    descriptions = (group.describe() for group in replay.groups())
    return [
        group for group in descriptions if group["state"] != "Dead" or (with_remains and group["offsets"])
    ]


def remains(group: Description) -> str | None:
    """What each coordinator makes of the offsets of a deleted group, in one sentence; None: it is not deleted."""
    if group["state"] != "Dead":
        return None
    left = counted(len(group["offsets"]), "offset")
    return (
        f"the group {group['group_id']!r} was deleted with {left} left: since Kafka 4.0 the coordinator knows neither "
        "until the next commit of the group; the older one (in Scala) has loaded them as an Empty group"
    )


def choose(
    groups: Sequence[dict[str, Any]], *, types: Collection[str] = (), states: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The groups of these types and in these states, ignoring case; an empty filter keeps all."""
    wanted_types = set(map(_plain, types))
    wanted_states = set(map(_plain, states))
    return [
        group
        for group in groups
        if (not wanted_types or _plain(group["type"]) in wanted_types)
        and (not wanted_states or _plain(group["state"]) in wanted_states)
    ]


def _plain(name: str) -> str:
    """``NotReady``, ``notready`` and ``not_ready`` are the same."""
    return name.lower().replace("_", "")


def absent(choice: GroupChoice, present: Collection[str]) -> list[str]:
    """Those of the texts of a choice that match none of the groups that are present."""
    single = {one: GroupChoice([one]) for one in choice.patterns}
    return [text for text, one in single.items() if not any(name in one for name in present)]
