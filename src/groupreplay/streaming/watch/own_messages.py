"""The messages that ``watch`` would write to ``group-probes`` if it wrote anything: rows for its own engine alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa

from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.probe_messages import GroupAnswer, decode_message
from groupreplay.streaming.prober.prober import IN_PROGRESS

#: Stands for a topic in the causes and ids of events that follow from the own messages.
OWN_TOPIC: Final = "group-watch"
#: Kafka's number for a timestamp that the client has set: no broker has appended these messages.
_CREATE_TIME: Final = 0


@dataclass(slots=True)
class MessageLog:
    """Numbers the messages of one partition. The numbers rise across restarts, also where nothing remembers them."""

    next_offset: int

    def batch(self, messages: Sequence[tuple[bytes, bytes]], at_ms: int) -> list[pa.RecordBatch]:
        """Keys and values as one batch of ``ROW_SCHEMA``; without messages no batch."""
        if not messages:
            return []
        # A process without a memory has the time: it writes less than one message in a millisecond.
        first = max(self.next_offset, at_ms)
        self.next_offset = first + len(messages)
        size = len(messages)
        columns = [
            [OWN_TOPIC] * size,
            [0] * size,
            list(range(first, first + size)),
            [at_ms] * size,
            [_CREATE_TIME] * size,
            [key for key, _ in messages],
            [value for _, value in messages],
        ]
        arrays = [pa.array(values, column.type) for values, column in zip(columns, ROW_SCHEMA, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)]


class OpenAnswers:
    """The answers about groups that are rebalancing, the first and the last of each: `run --adopt` takes them over."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = {group_id: open_answers(messages) for group_id, messages in answers.items()}

    def take(self, messages: Iterable[tuple[bytes, bytes]]) -> Mapping[str, bytes]:
        """The groups that the messages of a round have changed; empty: it is rebalancing no more."""
        changed = {}
        for key, value in messages:
            message = decode_message(key, value)
            if not isinstance(message, GroupAnswer):
                continue
            if message.state in IN_PROGRESS:
                before = self._answers.get(message.group_id, ())
                self._answers[message.group_id] = (*before[:1], (key, value))
                changed[message.group_id] = msgspec.msgpack.encode(self._answers[message.group_id])
            elif self._answers.pop(message.group_id, None):
                changed[message.group_id] = b""
        return changed


def open_answers(messages: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Keys and values of the answers that ``OpenAnswers`` has kept of one group."""
    return msgspec.msgpack.decode(messages, type=tuple[tuple[bytes, bytes], ...])
