"""What the job writes, message by message, and the one place that decodes JSON which was read from a topic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from groupreplay.state.output import message_forms

_Message = TypeVar("_Message")

Integer: TypeAlias = message_forms.Integer
#: Besides msgspec's own errors: text that is not UTF-8 (a ValueError), JSON nested deeper than Python's stack, and
#: numbers that fit into no type.
_FAILURES: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


class MessageDecoder(Generic[_Message]):
    """Decodes messages that are one kind of message in JSON; other programs may write to the same topic."""

    def __init__(self, kind: Any) -> None:
        self._decoder: Final = msgspec.json.Decoder(kind)

    def decode(self, value: bytes | None) -> _Message | None:
        """The message; None if the value is missing or is no such message. Readers count what is None."""
        if value is None:
            return None
        try:
            message: _Message = self._decoder.decode(value)
        except _FAILURES:
            return None
        return message


#: Any JSON object. Unlike a struct, which skips fields that it does not know, it checks the encoding of every text.
OBJECTS: Final = MessageDecoder[dict[str, Any]](dict[str, Any])


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
