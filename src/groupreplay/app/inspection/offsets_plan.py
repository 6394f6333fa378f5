"""The offsets before an event, as the file that ``kafka-consumer-groups.sh --reset-offsets --from-file`` takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from groupreplay.state.events.event import name_of
from groupreplay.state.events.offset_events import (
    OffsetRewound,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsReset,
    OffsetsSet,
)
from groupreplay.state.output.envelope import event_type
from groupreplay.state.phrases import safe_text
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.messages import MessageDecoder

#: Event -> the field of its partitions that has the offset from before the event.
_BEFORE: Final = {
    OffsetsExpired.NAME: "offset",
    OffsetsDeleted.NAME: "offset",
    OffsetsReset.NAME: "lost_offset",
    OffsetsSet.NAME: "from_offset",
    OffsetRewound.NAME: "old_offset",
}
#: The types of these events.
TYPES: Final = frozenset(map(event_type, _BEFORE))
#: What Kafka allows in the name of a topic; a name in the file can therefore contain no comma.
_Topic = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
_Number = Annotated[int, msgspec.Meta(ge=0)]


class _PlanPartition(msgspec.Struct):
    topic: _Topic
    partition: _Number
    offset: int | None = None
    lost_offset: int | None = None
    from_offset: int | None = None
    old_offset: int | None = None


class _Data(msgspec.Struct):
    partitions: list[_PlanPartition]
    partition_count: _Number
    group_id: str
    truncated: bool = False


class _OffsetEvent(msgspec.Struct):
    id: str
    type: str
    data: _Data


class _PlanHead(msgspec.Struct):
    id: str


_ids: Final = MessageDecoder[_PlanHead](_PlanHead)
_events: Final = MessageDecoder[_OffsetEvent](_OffsetEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsPlan:
    """The lines ``topic,partition,offset`` for one group.

    ``unknown``: the partitions of the event whose offset before it is not known, as ``topic-partition``.
    """

    group_id: str
    lines: tuple[str, ...]
    unknown: tuple[str, ...]


def offsets_plan(events: Iterable[bytes], event_id: str, where: str) -> OffsetsPlan:
    """The plan of the event with this id among ``events`` (CloudEvents as JSON); ``where`` names them in an error.

    Raises:
        GroupReplayError: there is no such event, it has no offsets, or not all of them.
    """
    for value in events:
        head = _ids.decode(value)
        if head is not None and head.id == event_id:
            return _plan(value, event_id)
    raise GroupReplayError(
        f"no event about offsets has the id {safe_text(event_id)!r}",
        where=where,
        fix="groupreplay events -o jsonl, or of a capture replay --from-file FILE -o jsonl, prints ids; "
        f"events with offsets are {', '.join(_BEFORE)}",
        exit_code=ExitCode.DATA,
    )


def _plan(value: bytes, event_id: str) -> OffsetsPlan:
    event = _events.decode(value)
    name = "" if event is None else name_of(event.type)
    if event is None or name not in _BEFORE:
        raise GroupReplayError(
            "this event has no committed offsets that can be set back",
            where=safe_text(event_id),
            fix=f"events with offsets are {', '.join(_BEFORE)}",
            exit_code=ExitCode.DATA,
        )
    partitions = event.data.partitions
    if event.data.truncated or len(partitions) < event.data.partition_count:
        raise GroupReplayError(
            f"the event has {len(partitions)} of {event.data.partition_count} partitions, the rest did not fit into it",
            where=safe_text(event_id),
            fix="groupreplay describe --offsets --group GROUP --at TIME, just before the event, prints all of them",
            exit_code=ExitCode.DATA,
        )
    lines, unknown = list[str](), list[str]()
    for partition in partitions:
        offset = getattr(partition, _BEFORE[name])
        if offset is None or offset < 0:
            unknown.append(f"{partition.topic}-{partition.partition}")
        else:
            lines.append(f"{partition.topic},{partition.partition},{offset}")
    return OffsetsPlan(group_id=event.data.group_id, lines=tuple(lines), unknown=tuple(unknown))
