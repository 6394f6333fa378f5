"""The lag of all groups for the metrics: their committed offsets, asked of the brokers, beside the recorded ends.

The samples are made from what was measured last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Protocol

from groupreplay.app.exporter.feed import Limits
from groupreplay.app.exporter.metric_catalog import PREFIX_GROUP, Sheet
from groupreplay.app.text.times import duration_ms
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import keys_and_values
from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.probe_messages import decode_message
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import committed_offsets, group_names
from groupreplay.streaming.kafka.topic_reader import read_messages, starts_since
from groupreplay.streaming.sinks.known_groups import group_label
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.streaming.sources.latest_ends import LatestEnds
from groupreplay.timeline.lag import OLD_ENDS_MS, Committed, EndSpan, Lag, lag_at

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 30.0
#: At the start ends are read so far back; those of topics that do not change are written once in two hours.
_BACK_MS: Final = 3 * 3_600_000

#: A group, a topic and a partition.
_Place = tuple[str, str, int]
#: The label of the rules that has the longest time lag of a group.
OBJECTIVE: Final = "lag_objective"


@dataclass(frozen=True, slots=True)
class MeasuredPartition:
    """A partition with a committed offset."""

    topic: str
    partition: int
    offset: int
    lag: Lag


@dataclass(frozen=True, slots=True)
class MeasuredLags:
    """The lags at ``at_ms``, by label of the group; ``answered_ms``: the last recorded ends."""

    at_ms: int = 0
    answered_ms: int = 0
    groups: Mapping[str, Sequence[MeasuredPartition]] = field(default_factory=dict)

    def is_fresh(self, now_ms: int) -> bool:
        """Whether they are those of now."""
        return now_ms - min(self.at_ms, self.answered_ms) < OLD_ENDS_MS


class FollowedEnds(Protocol):
    """The recorded ends up to now; false while there are none."""

    def __bool__(self) -> bool:
        """Whether there are any."""

    @property
    def answered_ms(self) -> int:
        """The time behind the last round."""

    def spans(self, topic: str, partition: int) -> Sequence[EndSpan]:
        """What is known of a partition, in the order of its times."""


@dataclass(slots=True)
class _Ends:
    """What was read of one topic of probes."""

    latest: LatestEnds
    topic_id: str
    read_to: dict[int, int]


class EndsInTopic:
    """Reads the topic of probes on, each time it is called."""

    def __init__(self, source: Cluster, sink: Cluster, probes: str, clock: Callable[[], int]) -> None:
        self._source, self._sink = Connection(source), Connection(sink)
        self._probes, self._clock = probes, clock
        self._ends: _Ends | None = None

    def __call__(self) -> LatestEnds:
        """All that was recorded up to now.

        Raises:
            GroupReplayError: the topic of probes cannot be read.
        """
        identity = self._sink.identify(self._probes)
        until = self._sink.end_offsets(self._probes, identity.partitions)
        if self._ends is None or self._ends.topic_id != identity.era:
            since_ms = max(self._clock() - _BACK_MS, 0)
            starts = starts_since(self._sink, self._probes, until, since_ms)
            # The cluster of the groups: the topic may be in another one.
            self._ends = _Ends(LatestEnds(self._source.cluster_id()), identity.era, starts)
        for batch in read_messages(self._sink, self._probes, self._ends.read_to, until):
            for key, value in keys_and_values(batch):
                if key is not None and key.startswith(RESERVED):
                    self._ends.latest.add(decode_message(key, value))
        self._ends.read_to = dict(until)
        return self._ends.latest


class LagWatch:
    """Measures twice a minute, in a thread: ``source`` has the groups, ``ends`` returns the recorded ends."""

    def __init__(
        self, source: Cluster, ends: Callable[[], FollowedEnds], clock: Callable[[], int], most_groups: int
    ) -> None:
        self.measured = MeasuredLags()
        self._source, self._read_ends = Connection(source), ends
        self._clock, self._most_groups = clock, most_groups
        #: A committed offset, and when it was seen first: it was committed by then.
        self._seen: dict[_Place, tuple[int, int]] = {}
        self._thread = Background(
            name="lag",
            tick=self.measure,
            pause_seconds=_PAUSE_SECONDS,
            failing="the lag of groups is not measured now",
        )

    def start(self) -> None:
        """Begins to measure."""
        self._thread.start(at_once=True)

    def close(self) -> None:
        """Stops; a question on its way is not waited for."""
        self._thread.close(0)

    def measure(self) -> None:
        """Measures once.

        Raises:
            GroupReplayError: the topic of probes cannot be read.
        """
        ends = self._read_ends()
        if not ends:
            return
        groups, seen = dict[str, Sequence[MeasuredPartition]](), dict[_Place, tuple[int, int]]()
        for group in group_names(self._source)[: self._most_groups]:
            try:
                committed = committed_offsets(self._source, group)
            except GroupReplayError as error:
                log.debug("no committed offsets of a group: %s", error)
                continue
            now_ms = self._clock()
            for (topic, partition), offset in committed.items():
                before = self._seen.get((group, topic, partition))
                is_same = before is not None and before[0] == offset
                seen[group, topic, partition] = before if is_same and before is not None else (offset, now_ms)
            groups[group_label(group)] = [
                MeasuredPartition(
                    *place,
                    offset,
                    lag_at(ends.spans(*place), Committed(*seen[(group, *place)]), self._clock()),
                )
                for place, offset in sorted(committed.items())
            ]
        self._seen = seen
        self.measured = MeasuredLags(self._clock(), ends.answered_ms, groups)


def measure_lags(
    sheet: Sheet, snapshot: TopicsSnapshot, lags: MeasuredLags, now_ms: int, limits: Limits
) -> None:
    """The lag of the groups that have documents; of others, and of ends that are too old, nothing is known."""
    cluster = "" if snapshot.job is None else snapshot.job.cluster_id
    sheet.add("groupreplay_ends_timestamp_seconds", lags.answered_ms / 1000, cluster=cluster)
    for group in snapshot.groups.values():
        place = {"cluster": group.cluster_id, "consumergroup": group.label}
        if (objective_ms := _objective_ms(group.labels.get(OBJECTIVE))) is not None:
            sheet.add("groupreplay_group_lag_objective_seconds", objective_ms / 1000, **place)
        partitions = lags.groups.get(group.label, ()) if lags.is_fresh(now_ms) else ()
        for topic, of_topic in groupby(partitions, key=lambda each: each.topic):
            measured = list(of_topic)
            labels = {**place, "topic": topic}
            _own_names(sheet, measured, labels, by_partition=limits.by_partition)
            if limits.kafka_exporter_names:
                _kafka_exporter_names(sheet, measured, labels)


def _own_names(
    sheet: Sheet, measured: Sequence[MeasuredPartition], labels: dict[str, str], *, by_partition: bool
) -> None:
    prefix = "groupreplay_group_"
    parts = [[each] for each in measured] if by_partition else [measured]
    for part in parts:
        named = {**labels, "partition": str(part[0].partition)} if by_partition else labels
        sheet.add(f"{prefix}committed_offset", sum(each.offset for each in part), **named)
        records = [each.lag.records.estimate for each in part if each.lag.records is not None]
        times_ms = [each.lag.time_ms.estimate for each in part if each.lag.time_ms is not None]
        sheet.add(f"{prefix}lag_unknown_partitions", len(part) - len(records), **named)
        if records:
            sheet.add(f"{prefix}lag", sum(records), **named)
        if times_ms:
            sheet.add(f"{prefix}lag_seconds", max(times_ms) / 1000, **named)


def _kafka_exporter_names(
    sheet: Sheet, measured: Sequence[MeasuredPartition], labels: dict[str, str]
) -> None:
    known = [(each, each.lag.records.estimate) for each in measured if each.lag.records is not None]
    for each in measured:
        number = str(each.partition)
        sheet.add(f"{PREFIX_GROUP}current_offset", each.offset, **labels, partition=number)
    sheet.add(f"{PREFIX_GROUP}current_offset_sum", sum(each.offset for each in measured), **labels)
    for each, records in known:
        sheet.add(f"{PREFIX_GROUP}lag", records, **labels, partition=str(each.partition))
    if known:
        sheet.add(f"{PREFIX_GROUP}lag_sum", sum(records for _, records in known), **labels)


def _objective_ms(text: str | None) -> int | None:
    """A duration such as ``5m``; None: there is none, or it is no duration."""
    try:
        return None if text is None else duration_ms(text)
    except ValueError:
        return None
