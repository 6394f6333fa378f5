"""The messages that the job writes: topic, key, value and headers; and the reserved keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

#: First byte of the keys of messages that are about no group; a group id cannot begin with it.
RESERVED: Final = b"\0"


class Output(str, Enum):
    """The topics that the operator writes, by their field in ``TopicNames``."""

    EVENTS = "events"
    STATES = "states"
    DEAD_LETTERS = "dead_letters"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One message for a topic; ``value`` None is a tombstone.

    ``event_type`` (as in CloudEvents) and ``severity`` (its number) are those of an event, None for other messages.
    They are not part of the message: the query counts by them.
    """

    output: Output
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    event_type: str | None = None
    severity: int | None = None
