"""The messages that ``watch`` would write to ``group-probes`` if it wrote anything: rows for its own engine alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa

from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.messages import MessageDecoder, Output, OutputRow
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


class _Since(msgspec.Struct):
    since_ms: int | None = None


_documents: Final = MessageDecoder[_Since](_Since)
#: An answer counts when a heartbeat has passed it: several may come before.
_LATEST: Final = 20
KeyAndValue = tuple[bytes, bytes]


class OpenAnswers:
    """The answers about groups that are rebalancing, from that which began it on: `run --adopt` takes them over.

    Of the later ones only the latest are kept.
    """

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = {group_id: open_answers(messages) for group_id, messages in answers.items()}

    def take(self, messages: Iterable[KeyAndValue], rows: Iterable[OutputRow]) -> Mapping[str, bytes]:
        """The groups that a poll has changed; empty: it is rebalancing no more."""
        changed = set[str]()
        for key, value in messages:
            message = decode_message(key, value)
            if not isinstance(message, GroupAnswer):
                continue
            before = self._answers.pop(message.group_id, ())
            if message.state in IN_PROGRESS:
                self._answers[message.group_id] = (*before[:1], *before[1:][-_LATEST:], (key, value))
            elif not before:
                continue
            changed.add(message.group_id)
        names = {group_id.encode("utf-8", "replace"): group_id for group_id in self._answers}
        for row in rows if names else ():
            if row.output is Output.STATES and (group_id := names.get(row.key)) is not None:
                document = _documents.decode(row.value)
                since_ms = None if document is None else document.since_ms
                self._answers[group_id] = tuple(_from(self._answers[group_id], since_ms or 0))
                changed.add(group_id)
        return {
            group_id: msgspec.msgpack.encode(left) if (left := self._answers.get(group_id)) else b""
            for group_id in changed
        }


def _from(answers: Iterable[KeyAndValue], since_ms: int) -> Iterator[KeyAndValue]:
    """Those that do not belong to a rebalance before the present one."""
    for key, value in answers:
        message = decode_message(key, value)
        if isinstance(message, GroupAnswer) and (message.answered_ms or message.taken_ms) >= since_ms:
            yield key, value


def open_answers(messages: bytes) -> tuple[KeyAndValue, ...]:
    """Keys and values of the answers that ``OpenAnswers`` has kept of one group."""
    return msgspec.msgpack.decode(messages, type=tuple[KeyAndValue, ...])
