"""What a ``run`` with a new checkpoint takes over from a ``watch``: where that has ended, and what only it was told."""

from __future__ import annotations

from dataclasses import dataclass

from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.log import IncidentState
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.run.identity import NEW_CHECKPOINT, topic_era
from groupreplay.streaming.run.standby import FormerJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """``former``: the watch, as a job that wrote to the topics is known. ``where``: its file.

    ``answers`` are keys and values of the prober's answers about groups that are rebalancing: the log does not have
    them, and a condition that they have begun has their time in its id. ``incidents`` is the finder with the incidents
    across groups that are open, None if it is not taken over; ``untold`` its events that have not reached all readers,
    which the finder does not make again.
    """

    where: str
    former: FormerJob
    answers: tuple[tuple[bytes, bytes], ...] = ()
    incidents: IncidentState | None = None
    untold: tuple[OutputRow, ...] = ()

    def give(self, topic: TopicIdentity, publisher: Publisher, topics: TopicNames) -> FormerJob:
        """Writes the answers and the untold events to their topics; the watch, after which the state begins.

        Raises:
            GroupReplayError: the file is that of another log, or the topic cannot be written.
        """
        # The topic is the same also where it has lost a part since.
        if (self.former.cluster_id, topic_era(self.former.era)) != (topic.cluster_id, topic.era):
            raise unusable(
                "the state is that of another cluster, or of an offsets topic that was created again",
                self.where,
                "leave out --adopt: the state is then built anew from the log",
            )
        publisher.publish(topics.probes, self.answers)
        publisher.publish_all(topics.events, ((row.key, row.value, row.headers) for row in self.untold))
        return self.former


def nothing_to_adopt(where: str) -> GroupReplayError:
    """The error for a file that is missing or has never read anything."""
    return unusable(
        "there is no state of a watch to take over",
        where,
        f"give --adopt the file of watch --state, or leave it out; {NEW_CHECKPOINT}",
    )
