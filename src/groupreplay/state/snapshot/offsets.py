"""The committed offsets of one group: a table with 48 bytes for each partition, and the topic names.

It has the last commit of each topic partition in log order, the time of the last change of the offset, and how often
the group commits. Applying commits makes no Python object per partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from groupreplay.state.snapshot import commit_intervals, common_pauses
from groupreplay.state.snapshot.commit_steps import STEPS, first_steps
from groupreplay.state.snapshot.observations import NO_EXPIRY, CommitRun
from groupreplay.state.snapshot.partitions import keys_of
from groupreplay.state.stored_form import DamagedStateError

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
#: For each row of COMMITTED the commit that set the present offset. ``generation`` is that of the group at
#: that time; -1 where no other offset is known before it, or the group had none.
MOVED = np.dtype([("since_ms", "<i8"), ("generation", "<i4")])
#: Up to so many pairs are compared one by one: ``isin`` takes many times as long for a few.
_FEW = 10_000
_SHARED_WITH_RUN = ("partition", "offset", "leader_epoch", "commit_timestamp_ms", "log_offset")


class OffsetsSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot; the sparse maps are by key, topic ids by topic index."""

    topics: list[str]
    rows: bytes
    metadata: dict[int, str]
    expire_timestamps_ms: dict[int, int]
    topic_ids: dict[int, bytes]
    moved: bytes = b""
    rhythm: bytes = b""
    resumed_ms: tuple[int, ...] = ()


class Applied(msgspec.Struct, frozen=True):
    """What a run of commits changed, beside progress.

    ``fallen`` are rows of the run whose first commit was below the known offset (``old_offsets``), ``recreated``
    topics with another id than before; ``new_rows`` are rows of partitions that had no offset before. ``steps`` are
    the first commits of the run that are steps from the known offset, if they were asked for. ``dated_back``: the
    last commit of a partition has an earlier time than the known one.
    """

    fallen: list[int]
    old_offsets: list[int]
    recreated: frozenset[str]
    new_rows: list[int]
    steps: npt.NDArray[np.void] = msgspec.field(default_factory=lambda: np.zeros(0, STEPS))
    dated_back: bool = False

    @property
    def nearer(self) -> bool:
        """Whether the first deadline of an offset may be earlier than before: of a new one, or one dated back."""
        return bool(self.new_rows) or self.dated_back


@dataclass(slots=True)
class Offsets:
    """The table; ``metadata`` and ``expire_timestamps_ms`` hold only partitions that have such a value.

    ``moved`` has one row for each of ``rows``; ``rhythm`` counts the gaps of all partitions together;
    ``resumed_ms`` has the last pauses of the whole group.
    """

    topics: list[str] = field(default_factory=list)
    rows: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, COMMITTED))
    metadata: dict[int, str] = field(default_factory=dict)
    expire_timestamps_ms: dict[int, int] = field(default_factory=dict)
    topic_ids: dict[int, bytes] = field(default_factory=dict)
    moved: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, MOVED))
    rhythm: npt.NDArray[np.void] = field(default_factory=commit_intervals.nothing)
    resumed_ms: common_pauses.Resumed = ()
    #: Times of the oldest and the newest commit, which are asked for often; None when the rows have changed since.
    _times_ms: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    #: ``moves``, in the same way.
    _moves: tuple[int, int | None] | None = field(default=None, init=False, repr=False, compare=False)
    #: Of the rows, in their order; None when rows were added or removed since.
    _row_keys: npt.NDArray[np.int64] | None = field(default=None, init=False, repr=False, compare=False)
    _usual: commit_intervals.UsualGaps = field(
        default_factory=commit_intervals.UsualGaps, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.rows)

    def apply(
        self, run: CommitRun, generation: int | None = None, *, steps_from: int | None = None
    ) -> Applied:
        """Apply the last commit of each topic partition of the run, unless a later one is known.

        ``generation`` is that of the group at the time of these commits. With ``steps_from`` there are
        ``Applied.steps``: every change of an offset whose record lies before that place in the log is one.
        """
        recreated = self._recreated(run)
        paused = common_pauses.pauses(run, self.newest_commit_ms())
        self.resumed_ms = common_pauses.noted(self.resumed_ms, paused)
        self._times_ms = self._moves = None
        places = self._topic_places(run)
        keys = keys_of(places[run.rows["topic"]], run.rows["partition"])
        order = keys.argsort()
        keys = keys[order]
        number = -1 if generation is None else generation
        self.rhythm = commit_intervals.added(self.rhythm, run.rhythm)
        if not len(self.rows):
            self._insert(keys, run, order, number)
            self._take_sparse(run, keys, order)
            return Applied([], [], recreated, order.tolist())
        at, found, newer = self._find(keys, run.rows["log_offset"][order])
        fallen: list[int] = []
        old_offsets: list[int] = []
        steps: npt.NDArray[np.void] = np.zeros(0, STEPS)
        dated_back = False
        if steps_from is not None:
            steps = first_steps(self.rows[at[newer]], run, order[newer], steps_from)
        if newer.any():
            committed_ms = run.rows["commit_timestamp_ms"][order[newer]]
            dated_back = bool((committed_ms < self.rows["commit_timestamp_ms"][at[newer]]).any())
            fallen, old_offsets = self._move_on(run, at[newer], order[newer], number)
        missing = ~found
        new_rows: list[int] = order[missing].tolist()
        if new_rows:
            self._insert(keys[missing], run, order[missing], number)
        taken = newer | missing
        self._take_sparse(run, keys[taken], order[taken])
        return Applied(fallen, old_offsets, recreated, new_rows, steps, dated_back)

    def _find(
        self, keys: npt.NDArray[np.int64], log_offset: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """(place of each key, whether it is in the table, whether its last commit is before ``log_offset``)."""
        known = self.keys()
        at = known.searchsorted(keys)
        found = known.take(at, mode="clip") == keys
        newer = found & (log_offset > self.rows["log_offset"].take(at, mode="clip"))
        return at, found, newer

    def _recreated(self, run: CommitRun) -> frozenset[str]:
        if not run.topic_ids:
            return frozenset()
        known = {self.topics[place]: topic_id for place, topic_id in self.topic_ids.items()}
        in_run = {run.topics[place]: topic_id for place, topic_id in run.topic_ids.items()}
        return frozenset(
            topic for topic, topic_id in in_run.items() if known.get(topic, topic_id) != topic_id
        )

    def _move_on(
        self, run: CommitRun, at: npt.NDArray[np.intp], source: npt.NDArray[np.intp], generation: int
    ) -> tuple[list[int], list[int]]:
        """Update rows of the table: (rows of the run that began below the known offset, those known offsets).

        The gap between the last known commit and the run's first one is added to the rhythm.
        """
        first_offset, known_offset = run.rows["first_offset"][source], self.rows["offset"][at]
        fresh, fallen = first_offset != known_offset, first_offset < known_offset
        first_ms = run.rows["first_commit_timestamp_ms"][source]
        gaps = commit_intervals.gaps_ms(self.rows["commit_timestamp_ms"][at], first_ms)
        between = commit_intervals.counted_together(run.rows["first_timestamp_ms"][source], gaps, ~fresh)
        self.rhythm = commit_intervals.added(self.rhythm, between)
        changed_ms = run.rows["changed_ms"][source]
        inside = changed_ms >= 0
        moved = inside | fresh
        since_ms = np.where(inside, changed_ms, first_ms)
        self.moved["since_ms"][at[moved]] = since_ms[moved]
        self.moved["generation"][at[moved]] = generation
        # Column by column: copying whole rows takes several times as long.
        for name in _SHARED_WITH_RUN:
            self.rows[name][at] = run.rows[name][source]
        return source[fallen].tolist(), known_offset[fallen].tolist()

    def _insert(
        self, keys: npt.NDArray[np.int64], run: CommitRun, source: npt.NDArray[np.intp], generation: int
    ) -> None:
        """Add rows for topic partitions that have none."""
        self._row_keys = None
        fresh, moved = np.zeros(len(keys), COMMITTED), np.zeros(len(keys), MOVED)
        # Column by column, as in ``_move_on``.
        for name in _SHARED_WITH_RUN:
            fresh[name] = run.rows[name][source]
        fresh["topic"] = keys >> 32
        changed_ms = run.rows["changed_ms"][source]
        inside = changed_ms >= 0
        moved["since_ms"] = np.where(inside, changed_ms, run.rows["first_commit_timestamp_ms"][source])
        moved["generation"] = np.where(inside, generation, -1)
        if not len(self.rows):  # The keys are sorted already.
            self.rows, self.moved = fresh, moved
            return
        rows = np.concatenate([self.rows, fresh])
        order = np.argsort(keys_of(rows["topic"], rows["partition"]))
        self.rows, self.moved = rows[order], np.concatenate([self.moved, moved])[order]

    def _topic_places(self, run: CommitRun) -> npt.NDArray[np.int32]:
        index = {topic: place for place, topic in enumerate(self.topics)}
        for topic in run.topics:
            if topic not in index:
                index[topic] = len(self.topics)
                self.topics.append(topic)
        for place, topic_id in run.topic_ids.items():
            self.topic_ids[index[run.topics[place]]] = topic_id
        return np.array([index[topic] for topic in run.topics], np.int32)

    def _take_sparse(self, run: CommitRun, keys: npt.NDArray[np.int64], source: npt.NDArray[np.intp]) -> None:
        """Update metadata and expiries, which few offsets have; ``source`` are the applied rows of the run."""
        if self.metadata or self.expire_timestamps_ms:
            for key in keys.tolist():
                self.metadata.pop(key, None)
                self.expire_timestamps_ms.pop(key, None)
        if run.extent.expires:
            expires = run.rows["expire_timestamp_ms"][source]
            has_expiry = expires != NO_EXPIRY
            self.expire_timestamps_ms.update(
                zip(keys[has_expiry].tolist(), expires[has_expiry].tolist(), strict=True)
            )
        if run.metadata:
            for place, key in zip(source.tolist(), keys.tolist(), strict=True):
                if text := run.metadata.get(place):
                    self.metadata[key] = text

    def _known_keys(self, wanted: Iterable[tuple[str, int]]) -> list[int]:
        """The keys of topic partitions whose topic is in the table."""
        index = {topic: place for place, topic in enumerate(self.topics)}
        return [(index[topic] << 32) | partition for topic, partition in wanted if topic in index]

    def set_back(self, at_ms: int) -> None:
        """Cut every time after this moment to it: the clock that wrote it is back."""
        self._times_ms = self._moves = None
        for times_ms in (self.rows["commit_timestamp_ms"], self.moved["since_ms"]):
            np.minimum(times_ms, at_ms, out=times_ms)
        self.rhythm = commit_intervals.ended_by(self.rhythm, at_ms)
        self.resumed_ms = common_pauses.ended_by(self.resumed_ms, at_ms)

    def remove(self, removed: Iterable[tuple[str, int]]) -> None:
        """Remove topic partitions; unknown ones are ignored (compaction may have removed the value of a tombstone)."""
        keys = self._known_keys(removed)
        if not keys:
            return
        self._times_ms = self._moves = None
        keep = ~np.isin(self.keys(), np.array(keys, np.int64))
        self._row_keys = None
        self.rows, self.moved = self.rows[keep], self.moved[keep]
        for key in keys:
            self.metadata.pop(key, None)
            self.expire_timestamps_ms.pop(key, None)
        if not len(self.rows):
            self.topics, self.topic_ids, self.rhythm = [], {}, commit_intervals.nothing()
            self.resumed_ms = ()

    def last_commit_ms(self, owned: Iterable[tuple[str, int]]) -> int | None:
        """Time of the newest commit of these topic partitions; None when there is none."""
        times = self.rows["commit_timestamp_ms"][self.places(owned)]
        return int(times.max()) if len(times) else None

    def newest_commit_ms(self) -> int | None:
        """Time of the newest commit; None without any."""
        return self._extremes_ms()[1] if len(self.rows) else None

    def usual_gap_ms(self) -> int | None:
        """95 % of the times between two commits of a partition are shorter; None without any."""
        return None if (known := self.usual()) is None else known.gap_ms

    def usual(self, share: float = 0.95, least: int = 1) -> commit_intervals.Usual | None:
        """The usual gap between commits; None if fewer than ``least`` gaps were counted lately."""
        return self._usual.of(self.rhythm, share, least)

    def copy(self) -> Offsets:
        """Topics, rows, moves and pauses, which are not changed with those of this table."""
        rows, moved = self.rows.copy(), self.moved.copy()
        return Offsets([*self.topics], rows, moved=moved, resumed_ms=self.resumed_ms)

    def keys(self) -> npt.NDArray[np.int64]:
        """Of topic and partition of each row, in order (``keys_of``)."""
        if self._row_keys is None:
            self._row_keys = keys_of(self.rows["topic"], self.rows["partition"])
        return self._row_keys

    def row_of(self) -> dict[tuple[str, int], int]:
        """The row of each topic partition."""
        topics, partitions = self.rows["topic"].tolist(), self.rows["partition"].tolist()
        return {
            (self.topics[topic], partition): row
            for row, (topic, partition) in enumerate(zip(topics, partitions, strict=True))
        }

    def moves(self) -> tuple[int, int | None] | None:
        """(when an offset last moved, the first generation with a move that stands, if known); None without offsets."""
        if self._moves is None and len(self.moved):
            numbers = self.moved["generation"]
            known = numbers[numbers >= 0]
            first = int(np.minimum.reduce(known)) if len(known) else None
            self._moves = int(np.maximum.reduce(self.moved["since_ms"])), first
        return self._moves

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
        """Places of the rows that have their own expiry, and these times."""
        if not self.expire_timestamps_ms:
            return [], []
        keys = np.array(list(self.expire_timestamps_ms), np.int64)
        places: list[int] = np.searchsorted(self.keys(), keys).tolist()
        return places, list(self.expire_timestamps_ms.values())

    def places(self, wanted: Iterable[tuple[str, int]]) -> npt.NDArray[np.intp]:
        """The rows of these topic partitions, in the table's order, without unknown ones."""
        known, keys = self.keys(), np.array(self._known_keys(wanted), np.int64)
        if len(known) * len(keys) > _FEW:
            return np.flatnonzero(np.isin(known, keys))
        return np.flatnonzero((known[:, None] == keys).any(axis=1))

    def names(self, places: npt.NDArray[np.intp]) -> list[tuple[str, int]]:
        """Topic and partition of some rows."""
        rows = self.rows[places]
        pairs = zip(rows["topic"].tolist(), rows["partition"].tolist(), strict=True)
        return [(self.topics[topic], partition) for topic, partition in pairs]

    def oldest_commit_ms(self) -> int:
        """The time of the oldest commit in a table that is not empty."""
        return self._extremes_ms()[0]

    def _extremes_ms(self) -> tuple[int, int]:
        if self._times_ms is None:
            times_ms = self.rows["commit_timestamp_ms"]
            self._times_ms = int(np.minimum.reduce(times_ms)), int(np.maximum.reduce(times_ms))
        return self._times_ms

    def summary(self) -> dict[str, Any]:
        """The offsets in the document in ``group-states``."""
        return {
            "partitions": len(self.rows),
            "oldest_commit_ms": self.oldest_commit_ms() if len(self.rows) else None,
            "newest_commit_ms": self.newest_commit_ms(),
        }

    def snapshot(self) -> OffsetsSnapshot:
        """The table for ``from_snapshot``."""
        return OffsetsSnapshot(
            self.topics,
            self.rows.tobytes(),
            self.metadata,
            self.expire_timestamps_ms,
            self.topic_ids,
            self.moved.tobytes(),
            self.rhythm.tobytes(),
            self.resumed_ms,
        )

    @classmethod
    def from_snapshot(cls, snapshot: OffsetsSnapshot) -> Offsets:
        """The table of a snapshot.

        Raises:
            DamagedStateError: a column has a length that no number of rows has.
        """
        try:
            rows = np.frombuffer(snapshot.rows, COMMITTED).copy()
            moved = np.frombuffer(snapshot.moved, MOVED).copy()
            rhythm = np.frombuffer(snapshot.rhythm, commit_intervals.RHYTHM)
        except ValueError as error:
            raise DamagedStateError(f"snapshot with a damaged table of offsets: {error}") from error
        if len(moved) != len(rows):
            raise DamagedStateError(
                f"snapshot with a damaged table of offsets: {len(moved)} moves, {len(rows)} rows"
            )
        sparse = (snapshot.metadata, snapshot.expire_timestamps_ms, snapshot.topic_ids)
        return cls(snapshot.topics, rows, *sparse, moved, rhythm, snapshot.resumed_ms)
