"""The prober's answers about groups: from the topic that a prober writes, or from an engine in this process."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from groupreplay.state.snapshot.observations import Probe
from groupreplay.streaming.base.errors import GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import next_place
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary
from groupreplay.streaming.engine.probe_rows import ProbeFilter, group_probe, placed_messages
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_messages, starts_since
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.timeline.states import ProbedState

#: Answers of the prober about one group, and groups with answers; the oldest are dropped.
_MOST_ANSWERS: Final = 10_000
_MOST_GROUPS: Final = 5_000
LOOK_BACK_MS: Final = DAY_MS
#: A page waits for messages that the brokers have announced for this long.
_SILENCE_SECONDS: Final = 5.0


class GroupAnswers(NamedTuple):
    """The answers about one group, in order, up to ``known_ms`` (None: nothing was read).

    ``rounds``: when the prober's first and last round of the last day were written; None: nobody asked. ``error``: why
    later ones could not be read. ``misdated`` counts answers that are not used: they are dated ahead of their append
    time.
    """

    states: Sequence[ProbedState]
    rounds: tuple[int, int] | None
    known_ms: int | None
    error: GroupReplayError | None
    misdated: int


class AnswersOfGroups(Protocol):
    """A place that has them."""

    def of_group(self, group_id: str, cluster_id: str, now_ms: int) -> GroupAnswers:
        """The answers about a group of this cluster up to now, or as far as they could be read."""


@dataclass(slots=True)
class KeptAnswers:
    """The answers that were taken, of one prober."""

    rounds: tuple[int, int] | None = None
    known_ms: int | None = None
    _misdated: Counter[str] = field(default_factory=Counter)
    _by_group: OrderedDict[str, list[ProbedState]] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        """They were those of another topic."""
        self.rounds, self.known_ms = None, None
        self._by_group.clear()
        self._misdated.clear()

    def take(self, batch: pa.RecordBatch, probe_filter: ProbeFilter) -> None:
        """The messages of a batch with the columns of ``ROW_SCHEMA``; hold the ``lock``."""
        for message, place, append_ms in placed_messages(batch, probe_filter.topic):
            if isinstance(message, RoundSummary):
                if message.cluster_id == probe_filter.cluster_id:
                    at_ms = message.taken_ms if append_ms is None else append_ms
                    self.rounds = (self.rounds or (at_ms, 0))[0], at_ms
            elif isinstance(message, GroupAnswer):
                self._take(message, group_probe(message, place, append_ms, probe_filter), probe_filter)

    def of_group(self, group_id: str, cluster_id: str, now_ms: int) -> GroupAnswers:
        """See ``AnswersOfGroups``."""
        del cluster_id, now_ms
        with self.lock:
            return self.answers(group_id)

    def answers(self, group_id: str, error: GroupReplayError | None = None) -> GroupAnswers:
        """Those about a group; ``error``: why later ones could not be read."""
        states = tuple(sorted(self._by_group.get(group_id, ())))
        return GroupAnswers(states, self.rounds, self.known_ms, error, self._misdated[group_id])

    def _take(self, message: GroupAnswer, probe: Probe | None, probe_filter: ProbeFilter) -> None:
        if probe is None:
            self._misdated[message.group_id] += message.cluster_id == probe_filter.cluster_id
            return
        answers = self._by_group.setdefault(message.group_id, [])
        answers.append(ProbedState(probe.asked_ms, probe.answered_ms, probe.state, message.unseen_ms))
        del answers[:-_MOST_ANSWERS]
        self._by_group.move_to_end(message.group_id)
        if len(self._by_group) > _MOST_GROUPS:
            self._by_group.popitem(last=False)


@dataclass(slots=True)
class LiveAnswers:
    """The answers in one probes topic. ``trouble``: why no broker answers, None when one does."""

    cluster: Cluster
    topic: str
    trouble: Callable[[], str | None] = lambda: None
    _kept: KeptAnswers = field(default_factory=KeptAnswers)
    _connection: Connection | None = None
    _topic_id: str = ""
    _next: dict[int, int] = field(default_factory=dict)

    def of_group(self, group_id: str, cluster_id: str, now_ms: int) -> GroupAnswers:
        """See ``AnswersOfGroups``."""
        error = self._update(cluster_id, now_ms)
        return self._kept.answers(group_id, error)

    def _update(self, cluster_id: str, now_ms: int) -> GroupReplayError | None:
        # Without the lock: whoever holds it may wait for brokers that are gone.
        if (trouble := self.trouble()) is not None:
            return UnreachableError(trouble)
        with self._kept.lock:
            try:
                self._read(cluster_id, now_ms)
            except GroupReplayError as error:
                return error
            self._kept.known_ms = now_ms
            return None

    def _read(self, cluster_id: str, now_ms: int) -> None:
        connection = self._connection = self._connection or Connection(self.cluster)
        topic_id, partitions = connection.topic_id(self.topic)
        ends = connection.end_offsets(self.topic, partitions)
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            self._kept.clear()
            self._next = starts_since(connection, self.topic, ends, max(now_ms - LOOK_BACK_MS, 0))
        probe_filter = ProbeFilter(topic=self.topic, cluster_id=cluster_id)
        starts = {number: self._next.get(number, 0) for number in ends}
        for batch in read_messages(connection, self.topic, starts, ends, _SILENCE_SECONDS):
            self._kept.take(batch, probe_filter)
            # Batch by batch: after a failure nothing is taken twice.
            self._next.update([next_place(batch)])
        self._next = dict(ends)
