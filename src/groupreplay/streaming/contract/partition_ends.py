"""The ends of partitions in ``group-probes``: topics as a whole, what has changed, and a message for each round.

A watch keeps what has changed by topic, in ``TopicEnds.partitions``; such messages in the topic are read, too.

The ends are a series of their own, which is joined where lag is shown. They are no input of the operator: one
partition's end would go to every group that reads it.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from groupreplay.streaming.contract.end_columns import MOST_PLACES
from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.probe_base import Count, Id, Message, Moment, Offset, Span

RoundNumber: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]
#: The epoch of a leader, -1 where it is not known.
Epoch: TypeAlias = Annotated[int, Meta(ge=-1, lt=1 << 31)]
Place: TypeAlias = Annotated[int, Meta(ge=0, lt=MOST_PLACES)]

#: Key of ``EndsChanges``.
CHANGES_KEY: Final = RESERVED + b"\0ends"


class PartitionEnds(msgspec.Struct, frozen=True, array_like=True):
    """Log start offset, high watermark, last stable offset and the epoch of the leader that answered (-1: not known).

    The end is between ``end`` and ``end + more``: it may be written rounded (docs/lag.md, "what it costs").
    """

    start: Offset
    end: Offset
    stable: Offset
    epoch: Epoch = -1
    more: Offset = 0

    @property
    def most(self) -> int:
        """The end at most."""
        return self.end + self.more


class _OfRound(Message, frozen=True, kw_only=True):
    """``writer`` is one process of the prober; its rounds are numbered from 0, ``interval_ms`` apart.

    ``taken_ms`` is before the first request and ``answered_ms`` after the last answer, by the prober's clock.
    """

    writer: str
    number: RoundNumber
    taken_ms: Moment
    answered_ms: Moment
    interval_ms: Span = 30_000

    @property
    def dated_ms(self) -> int:
        """The time after the answers."""
        return self.answered_ms


class TopicEnds(_OfRound, frozen=True, kw_only=True, tag="topic_ends"):
    """The partitions of a topic whose ends are others than this writer has last written.

    ``topic_id``: in Kafka's text form, ``0`` on brokers without ids. ``unknown``: partitions without an answer, with
    the reason. ``gone``: the topic was deleted, or this login may no longer describe it. ``packed`` has all partitions
    as columns in place of ``partitions``; in the ``EndsChanges`` of the same writer that follow, partition n of the
    topic is called ``place`` + n. ``predicted``: the columns are those of ``predicted_ends``, else
    of ``unpacked_ends``.
    """

    topic: str
    topic_id: str
    partitions: dict[Id, PartitionEnds] = msgspec.field(default_factory=dict)
    unknown: dict[Id, str] = msgspec.field(default_factory=dict)
    gone: bool = False
    place: Place | None = None
    packed: bytes = b""
    predicted: bool = False

    @property
    def key(self) -> bytes:
        """The topic, so that its messages stay in order."""
        return RESERVED + self.topic.encode()


class EndsChanges(_OfRound, frozen=True, kw_only=True, tag="ends_changes"):
    """What a round has changed in partitions that this writer has stated before, as columns.

    ``after``: the round of the writer's message of this kind before it, None: all partitions were stated since. They
    are told by those of that message, unless they stand ``alone``. ``places``: how many the table has. ``part``: the
    messages of one round are numbered from 0. ``rounding``: to how many eighths of an interval of a partition's growth
    its end is rounded; None: the columns are those of ``unpacked_ends``, else of ``predicted_ends``.
    """

    after: RoundNumber | None
    alone: bool
    places: Annotated[int, Meta(ge=0, le=MOST_PLACES)]
    packed: bytes
    part: Count = 0
    rounding: Annotated[int, Meta(ge=0, le=64)] | None = None

    @property
    def key(self) -> bytes:
        """One of its own: no topic begins with a zero byte."""
        return CHANGES_KEY


class EndsRound(_OfRound, frozen=True, kw_only=True, tag="ends_round"):
    """A round is complete: partitions that its messages do not name have the ends that were last written.

    ``topics`` and ``partitions`` count those that were asked for.
    """

    topics: Count
    partitions: Count
