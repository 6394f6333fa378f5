"""The ends of a topic's partitions, as far as brokers return them: one without a leader does not hide the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import IsolationLevel

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_marks import EpochEnd

log = logging.getLogger(__name__)

#: Heartbeats must not wait: a broker that answers at all answers within this time.
_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """A topic on one cluster. Not thread-safe."""

    connection: Connection
    topic: str
    partitions: int

    def stable(self) -> Mapping[int, EpochEnd]:
        """The last stable offset of each partition that answers, and the epoch of its leader."""
        return self._ends(IsolationLevel.READ_COMMITTED)

    def high_watermarks(self) -> Mapping[int, int]:
        """The ends behind the records of open transactions, of the same partitions."""
        return {number: end.offset for number, end in self._ends(IsolationLevel.READ_UNCOMMITTED).items()}

    def _ends(self, level: IsolationLevel) -> Mapping[int, EpochEnd]:
        # Leaders first: the request for a partition without one is only answered when its time is over.
        led = self._led()
        if not led:
            return {}
        places = [(self.topic, number) for number in led]
        found = self.connection.partition_ends(places, level, _SECONDS)
        if len(found) < len(led):
            # librdkafka keeps the leaders that it once found.
            self.connection.forget_admin()
        return {number: end for (_, number), end in sorted(found.items())}

    def _led(self) -> list[int]:
        """The partitions that have a leader; none when no broker answers."""
        try:
            known = self.connection.metadata(self.topic, self.topic, seconds=_SECONDS).topics[self.topic]
        except GroupReplayError as error:
            log.debug("no ends of %s for now: %s", self.topic, error)
            self.connection.forget_admin()
            return []
        return [n for n, one in sorted(known.partitions.items()) if one.leader >= 0 and n < self.partitions]
