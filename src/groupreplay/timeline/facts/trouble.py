"""What is wrong with a group, and how grave it is: the one source for sentences, strips, marks and the order of groups.

The severity of an event is decided where the event is made, and nowhere else. A reader sees it as a tone.
"""

from __future__ import annotations

from typing import Final

from groupreplay.state.display.rebalance_length import rebalance_length
from groupreplay.state.events.event import Severity
from groupreplay.timeline.document import Tone
from groupreplay.timeline.event_reading import ReadEvent

_TONES: Final[dict[str, Tone]] = {"INFO": "info", "WARN": "warn", "ERROR": "error"}
#: Tones, the mildest first; ``ok`` is that of a group without any trouble.
TONES: Final[tuple[Tone, ...]] = ("ok", "info", "warn", "error")
#: Committed offsets are gone.
LOSSES: Final = frozenset({"offsets.expired", "offsets.deleted"})
#: Records were skipped or are read again because of that.
_CONSEQUENCES: Final = frozenset({"offsets.reset"})


def tone_of(severity: str) -> Tone:
    """The tone of an event of this severity."""
    return _TONES[severity]


def worst(severities: list[str]) -> str:
    """The highest severity; INFO of none."""
    return max(severities, key=Severity.__getitem__, default="INFO")


def is_trouble(event: ReadEvent) -> bool:
    """Whether an event tells of something wrong, whatever its severity: such a group is never shown as healthy."""
    return (
        event.severity != "INFO"
        or bool(event.text("condition_id"))
        or event.name in LOSSES
        or event.name in _CONSEQUENCES
        or is_slow_leader(event)
    )


def is_slow_leader(event: ReadEvent) -> bool:
    """Whether a rebalance waited long for the assignment of its leader."""
    return event.name == "rebalance.completed" and rebalance_length(event.data).slow_leader is not None
