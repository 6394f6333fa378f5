"""What ``--fail-on`` looks for: active conditions, and offsets that have expired."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from groupreplay.app.inspection.active_conditions import condition_text, short_name, worst_first
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events.offset_events import OffsetsExpired, OffsetsReset
from groupreplay.state.output.envelope import event_type
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.engine.replay import Replay

#: Names that ``--fail-on`` accepts: all conditions, and expired offsets, which are an event and not a condition.
_NAMES: Final = (*(kind.NAME for kind in CONDITIONS), OffsetsExpired.NAME)
_EXPIRED: Final = event_type(OffsetsExpired.NAME)
_RESET: Final = event_type(OffsetsReset.NAME)


class Findings:
    """Finds conditions and expired offsets by last words or full names (``stuck`` or ``rebalance.stuck``).

    A last word means all conditions that end in it.

    Expired offsets count while the log still shows that they expired, and no later commit of the group.

    Raises:
        GroupReplayError: there is no condition of such a name.
    """

    def __init__(self, asked: Collection[str]) -> None:
        spellings: dict[str, set[str]] = {}
        for name in _NAMES:
            for spelling in (name, short_name(name)):
                spellings.setdefault(spelling, set()).add(name)
        for name in asked:
            if name not in spellings:
                names = ", ".join(dict.fromkeys(map(short_name, _NAMES)))
                fix = f"known: {names}; or their full names, for example rebalance.stuck"
                raise unusable(f"{name!r} is not a condition", "--fail-on", fix)
        self.names = frozenset(name for spelling in asked for name in spellings[spelling])
        self._expired: dict[str, str] = {}

    def observe(self, rows: Iterable[OutputRow]) -> Iterator[OutputRow]:
        """Pass the rows through, and remember the events about expired offsets."""
        for row in rows:
            if row.output is Output.EVENTS and row.value is not None and OffsetsExpired.NAME in self.names:
                self._take(msgspec.json.decode(row.value))
            yield row

    def lines(self, groups: Sequence[Mapping[str, Any]], replay: Replay) -> dict[str, list[str]]:
        """Group -> one line per finding; of ``groups``, and of deleted groups with expired offsets."""
        found: dict[str, list[str]] = {}
        for group in groups:
            for one in worst_first(group):
                if one["condition"] in self.names:
                    found.setdefault(group["group_id"], []).append(condition_text(one))
        for group_id, time in self._expired.items():
            if replay.wants(group_id):
                found.setdefault(group_id, []).append(f"{OffsetsExpired.NAME} at {time}")
        return found

    def _take(self, event: dict[str, Any]) -> None:
        group_id = event["data"].get("group_id")
        if group_id is not None and event["type"] == _EXPIRED:
            self._expired[group_id] = event["time"]
        elif event["type"] == _RESET:
            self._expired.pop(group_id, None)
