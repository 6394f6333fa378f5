"""What groups have set for themselves: which of them the prober asks about, and which answers it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from groupreplay.streaming.contract.probe_messages import GroupSettingsAnswer
from groupreplay.streaming.kafka.group_admin import GroupAdmin

#: So often all groups are asked about again; a new one is in the round that finds it.
_SETTINGS_SECONDS: Final = 60.0
#: So often an answer that is the same is written again: a topic does not keep its messages for ever.
_REPEAT_SECONDS: Final = 3_600.0


class OwnSettings:
    """What one prober remembers of the settings of groups: what was written, and when."""

    def __init__(self, queries: GroupAdmin, seconds: Callable[[], float]) -> None:
        self._queries = queries
        self._seconds = seconds
        self._asked: float | None = None
        self._written: dict[str, tuple[dict[str, int], float]] = {}

    def find(self) -> dict[str, dict[str, int]]:
        """By group, the settings that must be written: those of new groups, changed ones, and old ones again."""
        now = self._seconds()
        groups = self._queries.consumer_groups()
        if groups is None:
            return {}
        self._written = {group: last for group, last in self._written.items() if group in groups}
        asked = groups - self._written.keys()
        if self._asked is None or now - self._asked >= _SETTINGS_SECONDS:
            self._asked, asked = now, groups
        return {
            group: settings
            for group, settings in self._queries.own_settings(asked).items()
            if self._is_new(group, settings, now)
        }

    def _is_new(self, group: str, settings: dict[str, int], now: float) -> bool:
        last = self._written.get(group)
        return last is None or last[0] != settings or now - last[1] >= _REPEAT_SECONDS

    def remember(self, answers: Iterable[GroupSettingsAnswer]) -> None:
        """These were written."""
        now = self._seconds()
        self._written.update({answer.group_id: (answer.settings, now) for answer in answers})
