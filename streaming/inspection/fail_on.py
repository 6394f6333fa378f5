"""What is wrong with groups at this moment, as ``list`` shows it and ``--fail-on`` asks for it.

Knows the names of conditions and the pictures of groups; must not know how a condition is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.display.phrases import timestamp
from groupreplay.state.events.event import Severity
from groupreplay.state.events.offset_events import OffsetsExpired, OffsetsReset
from groupreplay.state.output.envelope import event_type
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.engine.replay import Replay

Picture = Mapping[str, Any]

#: What may be asked for: conditions that hold, and offsets that are lost, which is no condition.
_NAMES: Final = (*(kind.NAME for kind in CONDITIONS), OffsetsExpired.NAME)
_EXPIRED: Final = event_type(OffsetsExpired.NAME)
_RESET: Final = event_type(OffsetsReset.NAME)


class _Data(msgspec.Struct):
    group_id: str | None = None


class _Event(msgspec.Struct):
    type: str
    time: str
    data: _Data


_event: Final = msgspec.json.Decoder(_Event)


def wanted_names(asked: Collection[str]) -> frozenset[str]:
    """Full names for ``stuck`` and ``rebalance.stuck`` alike.

    Raises:
        GroupReplayError: there is no such condition.
    """
    known = {name: name for name in _NAMES} | {_short(name): name for name in _NAMES}
    for name in asked:
        if name not in known:
            raise GroupReplayError(
                f"{name!r} is nothing that can be found",
                where="--fail-on",
                fix=f"known: {', '.join(map(_short, _NAMES))}; or their full names, rebalance.stuck and so on",
                exit_code=ExitCode.USAGE,
            )
    return frozenset(known[name] for name in asked)


def risk(picture: Picture) -> str | None:
    """The worst condition that holds, by the last word of its name."""
    return next((_short(one["condition"]) for one in _worst_first(picture)), None)


def conditions_text(picture: Picture) -> str | None:
    """All conditions that hold: ``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z; …``."""
    return "; ".join(map(_told, _worst_first(picture))) or None


class Findings:
    """What was found of ``names`` (of ``wanted_names``): by group, in words.

    Lost offsets are no condition that holds: they count as long as the log still shows that they expired and
    not that the group has committed since.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._expired: dict[str, str] = {}

    def hear(self, rows: Iterable[OutputRow]) -> Iterator[OutputRow]:
        """The same rows, after having taken in what they say about lost offsets."""
        for row in rows:
            if row.output is Output.EVENTS and row.value is not None and OffsetsExpired.NAME in self._names:
                self._take(_event.decode(row.value))
            yield row

    def lines(self, pictures: Sequence[Picture], replay: Replay) -> dict[str, list[str]]:
        """Group -> a line for each finding, of the groups in ``pictures`` and of those that are gone."""
        found: dict[str, list[str]] = {}
        for picture in pictures:
            for one in _worst_first(picture):
                if one["condition"] in self._names:
                    found.setdefault(picture["group_id"], []).append(_told(one))
        for group_id, time in self._expired.items():
            if replay.wants(group_id):
                found.setdefault(group_id, []).append(f"{OffsetsExpired.NAME} at {time}")
        return found

    def _take(self, event: _Event) -> None:
        if event.data.group_id is None:
            return
        if event.type == _EXPIRED:
            self._expired[event.data.group_id] = event.time
        elif event.type == _RESET:
            self._expired.pop(event.data.group_id, None)


def _worst_first(picture: Picture) -> list[Mapping[str, Any]]:
    return sorted(picture["conditions"], key=lambda one: (-Severity[one["severity"]], one["since_ms"]))


def _told(condition: Mapping[str, Any]) -> str:
    return f"{condition['condition']} ({condition['severity']}) since {timestamp(condition['since_ms'])}"


def _short(name: str) -> str:
    return name.rpartition(".")[2]
