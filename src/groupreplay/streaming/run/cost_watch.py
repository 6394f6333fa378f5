"""What rebalances cost, while the job runs: joins them with recorded ends and commits, and publishes events.

The operator has one group at a time and no ends of topics. This thread reads the job's own topics back, and of the
offsets topic the partitions of groups that have just rebalanced. It stores nothing: after a restart it reads the last
hour again, and an event that is there already is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.state.events.lag_events import RebalanceCost, StopCost
from groupreplay.state.output.envelope import event_type
from groupreplay.state.phrases import rebalance_length, timestamp_ms
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.contract.log import Places
from groupreplay.streaming.contract.messages import OBJECTS, OutputRow
from groupreplay.streaming.contract.probe_messages import decode_message
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import committed_offsets
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.run.incident_watch import Messages, WrittenTopics
from groupreplay.streaming.sources.latest_ends import LatestEnds
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.stop_cost import Backlog, Place, cost_event, rebalance_cost

_TICK_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 60.0
#: A group that has not caught up by then gets its event.
_PATIENCE_MS: Final = 3_600_000
#: A job that starts reads so far back: ends of topics that do not change are written once in two hours.
BACK_MS: Final = 3 * _PATIENCE_MS
#: Commits are read from so long before a rebalance on: most groups commit within it.
_BEFORE_MS: Final = 60_000
#: So much later a group is looked at again, by its share of the time since the rebalance.
_AGAIN: Final = 0.5
#: Rebalances that are waited for; the oldest are dropped.
_MOST_PENDING: Final = 10_000

Body: TypeAlias = Mapping[str, Any]


class CommitReader(Protocol):
    """Where commits come from. Both methods raise GroupReplayError when they cannot be read."""

    def since(self, partition: int, groups: Collection[str], since_ms: int) -> Mapping[str, CommitLog]:
        """The commits of these groups in a partition of the offsets topic, from a time on."""

    def now(self, group: str) -> Mapping[Place, int]:
        """The committed offsets of a group now."""


@dataclass(slots=True)
class _Pending:
    """A completed rebalance, and when it is looked at next."""

    completed: Body
    at_ms: int
    due_ms: int

    @property
    def begin_ms(self) -> int:
        length = rebalance_length(self.completed["data"])
        return self.at_ms - (length.least_ms if length.most_ms is None else length.most_ms)

    @property
    def group(self) -> str:
        return str(self.completed["data"]["group_id"])

    @property
    def partition(self) -> int:
        return int(self.completed["data"]["cause"]["partition"])


@dataclass(slots=True, kw_only=True)
class CostWatch:
    """``tick`` is called every few seconds; ``publish`` raises when the broker has not taken a row.

    ``context`` returns that of the present query; ``clock`` is the brokers' time.
    """

    messages: Messages
    commits: CommitReader
    context: Callable[[], Context]
    publish: Callable[[str, OutputRow], object]
    clock: Callable[[], int]
    _read_to: Places | None = field(default=None, init=False)
    _ends: LatestEnds = field(init=False)
    _pending: dict[str, _Pending] = field(default_factory=dict, init=False)
    _done: dict[str, int] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls, settings: RunSettings, partitions: int, context: Callable[[], Context], clock: Callable[[], int]
    ) -> CostWatch:
        """That of a run, with connections of its own, because it runs in another thread."""
        return cls(
            messages=WrittenTopics.of(settings.sink_cluster, settings.topics),
            commits=LogCommits(Connection(settings.source), partitions),
            context=context,
            publish=Publisher(settings.sink_cluster).publish_row,
            clock=clock,
        )

    def background(self) -> Background:
        """The thread that calls ``tick``."""
        return Background(
            name="costs",
            tick=self.tick,
            pause_seconds=_TICK_SECONDS,
            retry_seconds=_RETRY_SECONDS,
            failing="what rebalances cost is not written now",
        )

    def tick(self) -> None:
        """Reads what is new, and publishes the costs that are known."""
        now_ms = self.clock()
        if self._read_to is None:
            self._ends = LatestEnds(self.context().cluster_id)
            places = self.messages.begin(max(now_ms - BACK_MS, self.context().own_since_ms))
            self._read_to = {name: at for name, at in places.items() if name != self.messages.topics.states}
        for topic, key, value in self.messages.read(self._read_to):
            if topic == self.messages.topics.probes:
                self._ends.add(decode_message(key, value))
            elif (body := OBJECTS.decode(value)) is not None:
                self._take(body, now_ms)
        self._forget(now_ms)
        if self._ends:
            self._publish_due(now_ms)

    def _take(self, body: Body, now_ms: int) -> None:
        """A rebalance that is completed, or the cost of one."""
        data = body.get("data")
        if not isinstance(data, Mapping) or data.get("cluster_id") != self.context().cluster_id:
            return
        if body.get("type") == event_type(RebalanceCost.NAME):
            self._done[str(data.get("completed_event"))] = now_ms
            self._pending.pop(str(data.get("completed_event")), None)
        elif body.get("type") == event_type(RebalanceCompleted.NAME) and body["id"] not in self._done:
            at_ms = timestamp_ms(body.get("time"))
            if at_ms is not None and data.get("cause") and now_ms - at_ms < BACK_MS:
                # The ends of the time after it are known after a round of the prober.
                self._pending.setdefault(body["id"], _Pending(body, at_ms, at_ms + 2 * _BEFORE_MS))

    def _publish_due(self, now_ms: int) -> None:
        by_partition: dict[int, list[_Pending]] = {}
        for pending in self._pending.values():
            if pending.due_ms <= now_ms:
                by_partition.setdefault(pending.partition, []).append(pending)
        for partition, due in by_partition.items():
            groups = {pending.group for pending in due}
            since_ms = min(pending.begin_ms for pending in due) - _BEFORE_MS
            logs = self.commits.since(partition, groups, since_ms)
            for group in groups:
                commits = _with_earlier(logs.get(group, CommitLog()), self.commits.now(group), since_ms)
                backlog = Backlog(commits, self._ends.spans)
                for pending in due:
                    if pending.group == group:
                        cost = rebalance_cost(backlog, pending.at_ms, pending.completed["data"])
                        self._settle(pending, cost, now_ms)

    def _settle(self, pending: _Pending, cost: StopCost | None, now_ms: int) -> None:
        """Publish a cost that is known, or look again later."""
        last_ms = pending.at_ms + _PATIENCE_MS
        if cost is None or (cost.caught_up_ms is None and now_ms < last_ms):
            pending.due_ms = now_ms + max(_BEFORE_MS, round(_AGAIN * (now_ms - pending.at_ms)))
            return
        event = cost_event(pending.completed, cost, last_ms)
        self.publish(self.messages.topics.events, event_row(event, self.context(), now_ms))
        self._done[pending.completed["id"]] = now_ms
        del self._pending[pending.completed["id"]]

    def _forget(self, now_ms: int) -> None:
        """What is older than what a start reads again."""
        self._done = {name: at_ms for name, at_ms in self._done.items() if now_ms - at_ms < 2 * BACK_MS}
        kept = [item for item in self._pending.items() if now_ms - item[1].at_ms < BACK_MS]
        self._pending = dict(kept[-_MOST_PENDING:])


def _with_earlier(commits: CommitLog, now: Mapping[Place, int], since_ms: int) -> CommitLog:
    """The commits, and those of before: of a partition without one since, what is committed now was then, too."""
    seen = {commits.places[number] for number in np.unique(commits.moves[0]).tolist()}
    earlier = {place: offset for place, offset in now.items() if place not in seen}
    places = (*commits.places, *earlier)
    first = [
        np.arange(len(commits.places), len(places)),
        np.full(len(earlier), since_ms),
        [*earlier.values()],
    ]
    moves = [
        np.concatenate([np.asarray(new, np.int64), old])
        for new, old in zip(first, commits.moves, strict=True)
    ]
    return CommitLog(places=places, moves=(moves[0], moves[1], moves[2]))


@dataclass(frozen=True, slots=True)
class LogCommits:
    """``CommitReader`` on a cluster; with a connection of its own, because it is used in another thread."""

    connection: Connection
    partitions: int

    def since(self, partition: int, groups: Collection[str], since_ms: int) -> Mapping[str, CommitLog]:
        """See ``CommitReader``."""
        begin = self.connection.offsets_since(OFFSETS_TOPIC, self.partitions, max(since_ms, 0))[partition]
        end = self.connection.end_offsets(OFFSETS_TOPIC, self.partitions)[partition]
        logs = GroupLogs(groups)
        if 0 <= begin < end:
            _drain(
                logs.reading(
                    read_messages(self.connection, OFFSETS_TOPIC, {partition: begin}, {partition: end})
                )
            )
        return {group: log.commits() for group, log in logs.logs.items()}

    def now(self, group: str) -> Mapping[Place, int]:
        """See ``CommitReader``."""
        return committed_offsets(self.connection, group)


def _drain(batches: Iterator[object]) -> None:
    for _ in batches:
        pass
