"""The ends of partitions in ``group-probes``: what has changed, by topic, and a message for each round.

The ends are a series of their own, which is joined where lag is shown. They are no input of the operator: one
partition's end would go to every group that reads it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.probe_base import Count, Id, Message, Moment, Offset, Span

RoundNumber: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]


class PartitionEnds(msgspec.Struct, frozen=True, array_like=True):
    """Log start offset, high watermark and last stable offset.

    The leader's epoch is not written: a new one alone is no cut, and a log that is cut below its last end shows it.
    """

    start: Offset
    end: Offset
    stable: Offset


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
    the reason. ``gone``: the topic was deleted, or this login may no longer describe it.
    """

    topic: str
    topic_id: str
    partitions: dict[Id, PartitionEnds] = msgspec.field(default_factory=dict)
    unknown: dict[Id, str] = msgspec.field(default_factory=dict)
    gone: bool = False

    @property
    def key(self) -> bytes:
        """The topic, so that its messages stay in order."""
        return RESERVED + self.topic.encode()


class EndsRound(_OfRound, frozen=True, kw_only=True, tag="ends_round"):
    """A round is complete: partitions that its messages do not name have the ends that were last written.

    ``topics`` and ``partitions`` count those that were asked for.
    """

    topics: Count
    partitions: Count
