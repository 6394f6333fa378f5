"""The prober's answers of the last day, by group: read once, and then what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from groupreplay.state.snapshot.observations import Probe
from groupreplay.state.timeline.states import ProbedState
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary
from groupreplay.streaming.engine.probe_rows import ProbeFilter, group_probe, placed_messages
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.sinks.day_counts import DAY_MS

#: Answers of one group, and groups with answers; the oldest are dropped.
_MOST_ANSWERS: Final = 10_000
_MOST_GROUPS: Final = 5_000
LOOK_BACK_MS: Final = DAY_MS


@dataclass(slots=True)
class LiveAnswers:
    """The answers in one probes topic. ``probed``: a prober was active in that time."""

    cluster: Cluster
    topic: str
    probed: bool = False
    _connection: Connection | None = None
    _topic_id: str = ""
    _next: dict[int, int] = field(default_factory=dict)
    _by_group: OrderedDict[str, list[ProbedState]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_group(self, group_id: str, cluster_id: str, now_ms: int) -> list[ProbedState]:
        """The answers about a group of this cluster up to now, in order.

        Raises:
            GroupReplayError: there is no such topic, or this login may not read it.
        """
        with self._lock:
            self._read(cluster_id, now_ms)
            return sorted(self._by_group.get(group_id, ()))

    def _read(self, cluster_id: str, now_ms: int) -> None:
        connection = self._connection = self._connection or Connection(self.cluster)
        topic_id, partitions = connection.topic_id(self.topic)
        ends = connection.end_offsets(self.topic, partitions)
        if topic_id != self._topic_id:
            self._topic_id, self.probed = topic_id, False
            self._by_group.clear()
            since = connection.offsets_since(self.topic, partitions, max(now_ms - LOOK_BACK_MS, 0))
            self._next = {number: end if since[number] < 0 else since[number] for number, end in ends.items()}
        probe_filter = ProbeFilter(topic=self.topic, cluster_id=cluster_id)
        starts = {number: self._next.get(number, 0) for number in ends}
        for batch in read_messages(connection, self.topic, starts, ends):
            for message, place, append_ms in placed_messages(batch, self.topic):
                if isinstance(message, RoundSummary):
                    self.probed = self.probed or message.cluster_id == cluster_id
                elif isinstance(message, GroupAnswer):
                    self._take(message, group_probe(message, place, append_ms, probe_filter))
        self._next = dict(ends)

    def _take(self, message: GroupAnswer, probe: Probe | None) -> None:
        if probe is None:
            return
        answers = self._by_group.setdefault(message.group_id, [])
        answers.append(ProbedState(probe.asked_ms, probe.answered_ms, probe.state, message.unseen_ms))
        del answers[:-_MOST_ANSWERS]
        self._by_group.move_to_end(message.group_id)
        if len(self._by_group) > _MOST_GROUPS:
            self._by_group.popitem(last=False)
