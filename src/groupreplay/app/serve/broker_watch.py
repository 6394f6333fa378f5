"""Whether the brokers of a cluster answer: asked every few seconds, by a thread of its own.

A reader of topics cannot tell: to it, brokers that are gone and topics that nobody writes to look the same for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Annotated, Final

from msgspec import Meta

from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)

#: Between two questions, and for an answer: together less than a page waits between two looks (5 s).
_PAUSE_SECONDS: Final = 1.5
_ANSWER_SECONDS: Final = 3.0

#: Topic and partition.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Answers:
    """Whether the brokers answer, asked every few seconds; answered_ms null: they never did."""

    answered_ms: Annotated[
        int | None, Meta(description="When everything that is read could be read last (ms since 1970, UTC).")
    ] = None
    since_ms: Annotated[int | None, Meta(description="Since when without a gap, up to answered_ms.")] = None
    error: Annotated[str | None, Meta(description="Why not now; null: it can.")] = None


class BrokerWatch:
    """Asks for the end of some partitions; without any, whether a broker answers."""

    def __init__(
        self, cluster: Cluster, places: Callable[[], Collection[Place]], clock: Callable[[], int]
    ) -> None:
        self.answers = Answers()
        self._connection = Connection(cluster)
        self._places = places
        self._clock = clock
        self._thread = Background(name="watch", tick=self._ask, pause_seconds=_PAUSE_SECONDS)

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start(at_once=True)

    def close(self) -> None:
        """Stops asking; a question on its way is not waited for."""
        self._thread.close(0)

    def _ask(self) -> None:
        asked_ms = self._clock()
        try:
            error = self._connection.unanswered(self._places(), _ANSWER_SECONDS)
        except Exception as failure:  # whatever it is, the next question may be answered
            error = GroupReplayError(str(failure))
        self._take(asked_ms, None if error is None else str(error))

    def _take(self, asked_ms: int, error: str | None) -> None:
        before = self.answers
        if error is not None:
            if before.error is None:
                log.warning("a cluster cannot be read now: %s", error)
            self.answers = replace(before, error=error)
        elif before.since_ms is None or before.error is not None:
            self.answers = Answers(asked_ms, asked_ms)
        else:
            self.answers = replace(before, answered_ms=asked_ms)
