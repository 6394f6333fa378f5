"""Times of which the log has no records any more: the one source for reports and for ``describe --history``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from groupreplay.timeline.event_reading import whole

#: Before the first event of a group that had a life before it.
EVERYTHING_BEFORE: Final = "everything before"
_NEW_BEGINNING: Final = "the new beginning of the group"
_END: Final = "the end of the group, and its new beginning"


class GapFinder:
    """Finds the gaps of one group, event by event, in order."""

    def __init__(self) -> None:
        self._begun = False
        self._deleted = False
        self._generation: int | None = None

    def before(self, name: str, data: Mapping[str, Any]) -> str | None:
        """The gap that lies right before this event, in words; None: there is none.

        A condition and a record that cannot be read belong to no operation of the coordinator: they show that there is
        a life before them, and no generation. What follows the end of a group (the end of a condition, a deletion that
        waited for its reason) begins no new life.
        """
        history = data.get("history")
        if history not in ("full", "partial") or name.startswith("record."):
            return None
        generation = None if "condition_id" in data else whole(data.get("generation"))
        if not self._begun:
            begins = generation is not None or name == "group.created"
            if self._deleted and not begins:
                return None
        gap = self._gap(name, generation, is_partial=history == "partial")
        self._begun, self._deleted = name != "group.deleted", name == "group.deleted"
        self._generation = self._generation if generation is None else generation
        return gap

    def _gap(self, name: str, generation: int | None, *, is_partial: bool) -> str | None:
        known = self._generation
        if not self._begun:
            is_gap = is_partial and name != "group.created"
            return (_NEW_BEGINNING if self._deleted else EVERYTHING_BEFORE) if is_gap else None
        if known is None or generation is None or name == "group.converted":
            return None
        if generation < known:
            return _END
        if not is_partial or generation <= known + 1:
            return None
        one = generation == known + 2
        return f"generation {known + 1}" if one else f"generations {known + 1} to {generation - 1}"
