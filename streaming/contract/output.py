"""The messages that the job writes: which topic, key, value and headers; and the reserved keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    pass


#: Begins the keys of documents that are about no group; a group id cannot begin so.
RESERVED: Final = b"\0"


#: The key in ``group-job`` of the conditions of the job that hold.
CONDITIONS_KEY: Final = RESERVED + b"conditions"


class Output(str, Enum):
    """The topics that a call may write to, by their field in ``TopicNames``."""

    EVENTS = "events"
    STATES = "states"
    DEAD_LETTERS = "dead_letters"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One message for a topic; ``value`` None is a tombstone."""

    output: Output
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
