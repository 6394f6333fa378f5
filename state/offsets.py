"""The committed offsets of one group: a table of 36 bytes a partition beside the topic names.

Knows the last commit of each topic partition, by log order; must not know why offsets vanish or when they
expire. No Python object is made per partition on the way in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from groupreplay.state.observations import CommitRun

#: ``topic`` indexes the table's topics; the rows are sorted by (topic, partition).
COMMITTED = np.dtype(
    [
        ("topic", "<i4"),
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("leader_epoch", "<i4"),
        ("commit_timestamp_ms", "<i8"),
        ("log_offset", "<i8"),
    ]
)
_SHARED_WITH_RUN = ("partition", "offset", "leader_epoch", "commit_timestamp_ms", "log_offset")


class OffsetsSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """What a table is written down as; the sparse maps are by key, topic ids by topic index."""

    topics: list[str]
    rows: bytes
    metadata: dict[int, str]
    expire_timestamps_ms: dict[int, int]
    topic_ids: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a run did to the table beside moving offsets on.

    ``fallen`` are rows of the run whose first commit was below what was known (``old_offsets``), ``recreated``
    topics that came with another id than before; ``grown``: a partition had no offset before.
    """

    fallen: list[int]
    old_offsets: list[int]
    recreated: frozenset[str]
    grown: bool


def _keys(topics: npt.NDArray[Any], partitions: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return (topics.astype(np.int64) << 32) | partitions.astype(np.int64)


@dataclass(slots=True)
class Offsets:
    """The table; ``metadata`` and ``expire_timestamps_ms`` hold only partitions that have such a value."""

    topics: list[str] = field(default_factory=list)
    rows: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, COMMITTED))
    metadata: dict[int, str] = field(default_factory=dict)
    expire_timestamps_ms: dict[int, int] = field(default_factory=dict)
    topic_ids: dict[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def apply(self, run: CommitRun) -> Applied:
        """Take over the last commit of each topic partition of the run, unless a later one is known."""
        recreated = self._recreated(run)
        places = self._topic_places(run)
        keys = _keys(places[run.rows["topic"]], run.rows["partition"])
        order = np.argsort(keys)
        keys, incoming = keys[order], run.rows[order]
        known = _keys(self.rows["topic"], self.rows["partition"])
        at = np.searchsorted(known, keys)
        found = np.zeros(len(keys), bool)
        inside = at < len(known)
        found[inside] = known[at[inside]] == keys[inside]
        newer = found.copy()
        newer[found] = incoming["log_offset"][found] > self.rows["log_offset"][at[found]]
        fallen = newer.copy()
        fallen[newer] = incoming["first_offset"][newer] < self.rows["offset"][at[newer]]
        old_offsets = self.rows["offset"][at[fallen]].tolist()
        for name in _SHARED_WITH_RUN:
            self.rows[name][at[newer]] = incoming[name][newer]
        if not found.all():
            fresh = np.zeros(int((~found).sum()), COMMITTED)
            for name in _SHARED_WITH_RUN:
                fresh[name] = incoming[name][~found]
            fresh["topic"] = keys[~found] >> 32
            rows = np.concatenate([self.rows, fresh])
            self.rows = rows[np.argsort(_keys(rows["topic"], rows["partition"]))]
        self._take_sparse(run, keys, order, newer | ~found)
        return Applied(order[fallen].tolist(), old_offsets, recreated, grown=not found.all())

    def _recreated(self, run: CommitRun) -> frozenset[str]:
        if not run.topic_ids:
            return frozenset()
        known = {self.topics[place]: topic_id for place, topic_id in self.topic_ids.items()}
        told = {run.topics[place]: topic_id for place, topic_id in run.topic_ids.items()}
        return frozenset(topic for topic, topic_id in told.items() if known.get(topic, topic_id) != topic_id)

    def _topic_places(self, run: CommitRun) -> npt.NDArray[np.int32]:
        index = {topic: place for place, topic in enumerate(self.topics)}
        for topic in run.topics:
            if topic not in index:
                index[topic] = len(self.topics)
                self.topics.append(topic)
        for place, topic_id in run.topic_ids.items():
            self.topic_ids[index[run.topics[place]]] = topic_id
        return np.array([index[topic] for topic in run.topics], np.int32)

    def _take_sparse(
        self,
        run: CommitRun,
        keys: npt.NDArray[np.int64],
        order: npt.NDArray[np.intp],
        taken: npt.NDArray[np.bool_],
    ) -> None:
        expires = run.rows["expire_timestamp_ms"][order]
        if self.metadata or self.expire_timestamps_ms:
            for key in keys[taken].tolist():
                self.metadata.pop(key, None)
                self.expire_timestamps_ms.pop(key, None)
        for place in np.flatnonzero(taken & (expires >= 0)).tolist():
            self.expire_timestamps_ms[int(keys[place])] = int(expires[place])
        if run.metadata:
            for place in np.flatnonzero(taken).tolist():
                text = run.metadata.get(int(order[place]))
                if text:
                    self.metadata[int(keys[place])] = text

    def remove(self, gone: Iterable[tuple[str, int]]) -> None:
        """Forget topic partitions; unknown ones are no error (a tombstone may outlive its value)."""
        index = {topic: place for place, topic in enumerate(self.topics)}
        keys = [(index[topic] << 32) | partition for topic, partition in gone if topic in index]
        if not keys:
            return
        keep = ~np.isin(_keys(self.rows["topic"], self.rows["partition"]), np.array(keys, np.int64))
        self.rows = self.rows[keep]
        for key in keys:
            self.metadata.pop(key, None)
            self.expire_timestamps_ms.pop(key, None)
        if not len(self.rows):
            self.topics, self.topic_ids = [], {}

    def last_commit_ms(self, owned: Iterable[tuple[str, int]]) -> int | None:
        """Time of the newest commit of these topic partitions; None when there is none."""
        index = {topic: place for place, topic in enumerate(self.topics)}
        keys = [(index[topic] << 32) | partition for topic, partition in owned if topic in index]
        mine = np.isin(_keys(self.rows["topic"], self.rows["partition"]), np.array(keys, np.int64))
        return int(self.rows["commit_timestamp_ms"][mine].max()) if mine.any() else None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every committed offset as ``describe`` shows it, by topic name and partition."""
        rows = [dict(zip(COMMITTED.names or (), row, strict=True)) for row in self.rows.tolist()]
        for row in sorted(rows, key=lambda row: (self.topics[row["topic"]], row["partition"])):
            key = (row["topic"] << 32) | row["partition"]
            yield {
                "topic": self.topics[row["topic"]],
                "partition": row["partition"],
                "offset": row["offset"],
                "metadata": self.metadata.get(key, ""),
                "leader_epoch": None if row["leader_epoch"] < 0 else row["leader_epoch"],
                "commit_timestamp_ms": row["commit_timestamp_ms"],
                "expire_timestamp_ms": self.expire_timestamps_ms.get(key),
                "log_offset": row["log_offset"],
            }

    def own_expiries(self) -> tuple[list[int], list[int]]:
        """Places of the rows with an expiry of their own, and that time."""
        if not self.expire_timestamps_ms:
            return [], []
        keys = np.array(list(self.expire_timestamps_ms), np.int64)
        places: list[int] = np.searchsorted(_keys(self.rows["topic"], self.rows["partition"]), keys).tolist()
        return places, list(self.expire_timestamps_ms.values())

    def places(self, wanted: Iterable[tuple[str, int]]) -> npt.NDArray[np.intp]:
        """Where in the table these topic partitions are, in the table's order; unknown ones are left out."""
        index = {topic: place for place, topic in enumerate(self.topics)}
        keys = [(index[topic] << 32) | partition for topic, partition in wanted if topic in index]
        known = _keys(self.rows["topic"], self.rows["partition"])
        return np.flatnonzero(np.isin(known, np.array(keys, np.int64)))

    def names(self, places: npt.NDArray[np.intp]) -> list[tuple[str, int]]:
        """Topic and partition of some rows."""
        rows = self.rows[places]
        pairs = zip(rows["topic"].tolist(), rows["partition"].tolist(), strict=True)
        return [(self.topics[topic], partition) for topic, partition in pairs]

    def summary(self) -> dict[str, Any]:
        """What the document in ``group-states`` says of offsets."""
        times = self.rows["commit_timestamp_ms"]
        return {
            "partitions": len(self.rows),
            "oldest_commit_ms": int(times.min()) if len(times) else None,
            "newest_commit_ms": int(times.max()) if len(times) else None,
        }

    def snapshot(self) -> OffsetsSnapshot:
        """What ``from_snapshot`` takes back."""
        return OffsetsSnapshot(
            self.topics, self.rows.tobytes(), self.metadata, self.expire_timestamps_ms, self.topic_ids
        )

    @classmethod
    def from_snapshot(cls, snapshot: OffsetsSnapshot) -> Offsets:
        """The table as it was."""
        rows = np.frombuffer(snapshot.rows, COMMITTED).copy()
        return cls(
            snapshot.topics, rows, snapshot.metadata, snapshot.expire_timestamps_ms, snapshot.topic_ids
        )
