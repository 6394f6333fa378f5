"""What every message in ``group-probes`` has and says, and the bounds of its numbers."""

from __future__ import annotations

import sys
from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from groupreplay.state.job.observations import JobObservation, ObservationPlace
from groupreplay.state.snapshot.observations import ProbeAnswer
from groupreplay.streaming.contract.messages import RESERVED

#: A time beyond the year 2100 would let every deadline pass.
Moment: TypeAlias = Annotated[int, Meta(ge=0, le=4_102_444_800_000)]
#: All numbers are bounded: to JSON none is too large, but to the packed rows and the sums of them.
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]
Span: TypeAlias = Annotated[int, Meta(ge=-4_102_444_800_000, le=4_102_444_800_000)]
Id: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What every message has and says; a kind of message says some of it otherwise."""

    #: A longer one is shortened, if it can be.
    MOST_BYTES: ClassVar[int] = sys.maxsize

    cluster_id: str

    @property
    def key(self) -> bytes:
        """The key of the message."""
        return RESERVED

    @property
    def dated_ms(self) -> int | None:
        """The latest time by the writer's clock that a reader goes by; None: there is none."""
        return None

    def observation(
        self, place: ObservationPlace, append_ms: int | None
    ) -> ProbeAnswer | JobObservation | None:
        """What a group or the job learns of it; None: nothing.

        ``place`` is that of the message, ``append_ms`` when the broker has appended it (None: not known).
        """
        return None

    def shortened(self) -> Message | None:
        """The message with less in it, for a topic that refuses it; None: it cannot be shorter."""
        return None
