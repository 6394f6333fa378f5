"""Who commits most: the commits of the last minutes, counted in the offsets topic where this login may read it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from groupreplay.app.serve.history.rows import CommitCounts
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.sinks.known_groups import group_label

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

#: The time of which commits are counted: compaction does not touch the newest segment of a partition.
SAMPLE_MS: Final = 5 * 60_000
#: A sample is used for this long.
_FRESH_SECONDS: Final = 60.0
#: More records are not read; the sample then has the part of the time that was read.
_MOST_RECORDS: Final = 1_000_000
_MOST_SECONDS: Final = 15.0


class CommitSample:
    """The last sample of one cluster. It is renewed when somebody asks, by one thread at a time."""

    def __init__(
        self, cluster: Cluster, now_ms: Callable[[], int], on_counts: Callable[[CommitCounts], None]
    ) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._on_counts = on_counts
        self._lock = threading.Lock()
        self._last: CommitCounts | None = None
        self._taken = 0.0

    def counts(self) -> CommitCounts:
        """The sample; the one before, while another thread takes a new one."""
        if self._last is not None and time.monotonic() - self._taken < _FRESH_SECONDS:
            return self._last
        if not self._lock.acquire(blocking=self._last is None):
            assert self._last is not None
            return self._last
        try:
            if self._last is None or time.monotonic() - self._taken >= _FRESH_SECONDS:
                self._last, self._taken = self._take(), time.monotonic()
                if self._last.error is None:
                    self._on_counts(self._last)
            return self._last
        finally:
            self._lock.release()

    def _take(self) -> CommitCounts:
        until_ms = self._now_ms()
        since_ms = until_ms - SAMPLE_MS
        try:
            commits, complete = count_commits(Connection(self._cluster), since_ms)
        except GroupReplayError as error:
            log.debug("commits cannot be counted: %s", error)
            return CommitCounts(since_ms, until_ms, {}, complete=False, error=str(error))
        return CommitCounts(since_ms, until_ms, commits, complete)


def count_commits(connection: Connection, since_ms: int) -> tuple[dict[str, int], bool]:
    """Offset commits by the label of the group since a time, and whether all of them were read.

    Of a partition that was not read to its end nothing counts: the numbers of its groups would be too small.

    Raises:
        GroupReplayError: this login may not read the offsets topic, or no broker answers.
    """
    partitions = connection.identify(OFFSETS_TOPIC).partitions
    ends = connection.end_offsets(OFFSETS_TOPIC, partitions)
    starts = connection.offsets_since(OFFSETS_TOPIC, partitions, since_ms)
    by_partition, records, began = dict[int, Counter[str]](), 0, time.monotonic()
    complete = True
    for batch in read_messages(connection, OFFSETS_TOPIC, starts, ends):
        number = batch.column("partition")[0].as_py()
        by_partition.setdefault(number, Counter()).update(batch_commits(batch))
        records += batch.num_rows
        if records > _MOST_RECORDS or time.monotonic() - began > _MOST_SECONDS:
            if batch.column("offset")[-1].as_py() + 1 < ends[number]:
                del by_partition[number]
            complete = False
            break
    # All commits of a group are in one partition.
    return {label: count for counts in by_partition.values() for label, count in counts.items()}, complete


def batch_commits(batch: pa.RecordBatch) -> Counter[str]:
    """The offset commits of a batch with the columns of ``ROW_SCHEMA``, without tombstones, by label of the group."""
    import numpy as np
    import pyarrow.compute as pc

    from groupreplay.streaming.engine.packing.key_columns import keys_of_rows

    kept = batch.filter(pc.is_valid(batch["value"]))
    keys, row_key = keys_of_rows(kept["key"])
    rows = row_key[keys.slot[row_key] >= 0]
    commits = Counter[str]()
    for number, count in zip(*np.unique(keys.group[rows], return_counts=True), strict=True):
        commits[group_label(keys.groups[int(number)])] += int(count)
    return commits
