"""The input of a group's state: records of the log in log order, runs of folded offset commits, and probes.

A run keeps what the state needs: the first and the last value of each topic partition, the number of commits, every
step (``STEPS``), every lull (``LULLS``), and how many gaps between commits are how long. A run ends before every other
record of its group, so that the order is kept, and before a commit that comes ``SILENCE_MS`` after the one before it,
``REST_MS`` after that of its partition, or moves an offset that had stayed for ``STAY_MS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from groupreplay.codecs import GroupMetadataKey, Key, Value
from groupreplay.state.plausible_times import UNDATED_COMMIT_MS
from groupreplay.state.snapshot.commit_intervals import SPAN_MS, nothing
from groupreplay.state.snapshot.commit_steps import STEPS

#: Kafka's number for an offset without an expiry of its own. A broker expires one with a lower number at once.
NO_EXPIRY = -1
#: One row = all commits of one topic partition inside one run. ``topic`` is an index into the run's topics.
#: ``expire_timestamp_ms`` and ``leader_epoch`` are -1 where the record has none. ``changed_ms`` is the commit time of
#: the last commit with another offset than the one before it in the run, ``moved_ms`` the time of the record of the
#: first such commit; -1 where there is none.
COMMITS = np.dtype(
    [
        ("topic", "<i4"),
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("leader_epoch", "<i4"),
        ("count", "<i4"),
        ("commit_timestamp_ms", "<i8"),
        ("expire_timestamp_ms", "<i8"),
        ("log_offset", "<i8"),
        ("timestamp_ms", "<i8"),
        ("first_offset", "<i8"),
        ("first_log_offset", "<i8"),
        ("first_timestamp_ms", "<i8"),
        ("first_commit_timestamp_ms", "<i8"),
        ("changed_ms", "<i8"),
        ("moved_ms", "<i8"),
        ("first_leader_epoch", "<i4"),
    ]
)
#: One row = a time of ``LULL_MS`` or more in which ``row`` of the run's commits had none: from the commit with the
#: commit time ``before_ms`` to the record with the time ``after_ms``. Those of one row are in log order.
LULLS = np.dtype([("row", "<i4"), ("before_ms", "<i8"), ("after_ms", "<i8")])
#: Where commits are closer together, nothing is known of the time between the first and the last of a row: half of what
#: a member may be silent.
LULL_MS: Final = 20_000
#: The commits of a group before and after so long a silence are two runs.
SILENCE_MS: Final = 100_000
#: So are those before and after a commit of a partition that had none for so long: a deadline of it may have been near.
REST_MS: Final = 3_600_000
#: So are those before and after a commit that moves an offset that had stayed so long: the run has its last move alone.
STAY_MS: Final = 900_000


class Extent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sum of a run's rows: log offset and timestamp of the first and of the last commit, and their number.

    ``expires``: an offset has an expiry of its own; only old clients write such commits.
    """

    first_offset: int
    first_ms: int
    last_offset: int
    last_ms: int
    commits: int
    expires: bool

    @classmethod
    def of(cls, rows: npt.NDArray[np.void]) -> Extent:
        """The extent of rows of COMMITS; ``fold`` computes it for all its runs at once."""
        first, last = rows["first_log_offset"].argmin(), rows["log_offset"].argmax()
        return cls(
            int(rows["first_log_offset"][first]),
            int(rows["first_timestamp_ms"][first]),
            int(rows["log_offset"][last]),
            int(rows["timestamp_ms"][last]),
            int(rows["count"].sum()),
            bool((rows["expire_timestamp_ms"] != NO_EXPIRY).any()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One record of the log that is not an offset commit with a value; ``value`` None is a tombstone.

    Its timestamp is ``NO_TIMESTAMP`` if the record has none, or one that cannot be (``state.plausible_times``). ``raw``
    are the bytes of key and value, if it was read from them.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: Key
    value: Value | None
    raw: tuple[bytes, bytes | None] | None = field(default=None, compare=False, repr=False)

    @property
    def ends_operation(self) -> bool:
        """Whether it is the last record of its operation: a classic record holds the whole group."""
        return isinstance(self.key, GroupMetadataKey) and self.value is not None

    def continues(self, offset: int, timestamp_ms: int) -> bool:
        """Whether it belongs to the operation of the record there: adjacent offsets and one timestamp."""
        return self.offset == offset + 1 and self.timestamp_ms == timestamp_ms

    @property
    def first_offset(self) -> int:
        """The first log offset."""
        return self.offset

    @property
    def last_offset(self) -> int:
        """The last log offset."""
        return self.offset

    @property
    def first_ms(self) -> int:
        """The first timestamp."""
        return self.timestamp_ms

    @property
    def last_ms(self) -> int:
        """The last timestamp."""
        return self.timestamp_ms

    def dated(self, at_ms: int) -> GroupRecord:
        """The same with a time, for a record without one."""
        return replace(self, timestamp_ms=at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """Offset commits of one group with no other record of that group between them, folded.

    ``extent`` is that of the rows, which index ``topics`` and ``topic_ids`` (16 bytes; absent where the log has
    none); ``metadata`` has the rows whose last commit has a non-empty metadata string; ``rhythm`` counts the gaps
    between commits of the same topic partition inside the run. Either all timestamps of a run are ``NO_TIMESTAMP``, or
    none is.
    """

    partition: int
    topics: tuple[str, ...]
    rows: npt.NDArray[np.void]
    extent: Extent
    steps: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, STEPS))
    lulls: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, LULLS))
    metadata: Mapping[int, str] = field(default_factory=dict)
    topic_ids: Mapping[int, bytes] = field(default_factory=dict)
    rhythm: npt.NDArray[np.void] = field(default_factory=nothing)

    @property
    def first_offset(self) -> int:
        """The first log offset."""
        return self.extent.first_offset

    @property
    def last_offset(self) -> int:
        """The last log offset."""
        return self.extent.last_offset

    @property
    def first_ms(self) -> int:
        """Timestamp of the first commit."""
        return self.extent.first_ms

    @property
    def last_ms(self) -> int:
        """Timestamp of the last commit."""
        return self.extent.last_ms

    def dated(self, at_ms: int) -> CommitRun:
        """The same with a time, for a run without one; commits that have a time of their own keep it."""
        rows, steps, rhythm = self.rows.copy(), self.steps.copy(), self.rhythm.copy()
        for name in ("timestamp_ms", "first_timestamp_ms"):
            rows[name] = at_ms
        for name in ("commit_timestamp_ms", "first_commit_timestamp_ms", "changed_ms"):
            rows[name][rows[name] == UNDATED_COMMIT_MS] = at_ms
        rows["moved_ms"] = np.where(rows["changed_ms"] == -1, -1, at_ms)
        steps["timestamp_ms"] = at_ms
        rhythm["span"] = at_ms // SPAN_MS
        extent = msgspec.structs.replace(self.extent, first_ms=at_ms, last_ms=at_ms)
        return replace(self, rows=rows, steps=steps, rhythm=rhythm, extent=extent)


class ProbedMember(msgspec.Struct, frozen=True, array_like=True):
    """A member of a classic group as DescribeGroups shows it, which does not show who has rejoined."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class _Heard(msgspec.Struct, frozen=True, array_like=True):
    """What the prober has found out about a group, and the place of its record.

    The prober asks every ``interval_ms``. It knew by ``written_ms``, which is the brokers' time where the topic has it
    (None: not known).
    """

    taken_ms: int
    topic: str
    partition: int
    offset: int
    interval_ms: int = 10_000
    written_ms: int | None = None

    @property
    def heard_ms(self) -> int:
        """When it was known: a record of the log that is earlier than this was applied without it.

        A round may take seconds, and its answers are written at its end. A job that is up to date has applied the
        records of these seconds by then, so a replay must do so, too.
        """
        return max(self.taken_ms, self.written_ms or 0)

    @property
    def answer(self) -> Any:
        """What it says, without its times and its place."""
        raise NotImplementedError

    @property
    def characters(self) -> int:
        """Characters of the texts in it, which bound what may wait."""
        raise NotImplementedError


class DeletedTopics(_Heard, frozen=True, array_like=True, tag=1):
    """Topics that no broker knows any more, of which the group has lost its offsets.

    ``taken_ms`` is a time after the last of these tombstones was read.
    """

    topics: tuple[str, ...] = ()

    @property
    def answer(self) -> tuple[str, ...]:
        """The topics."""
        return self.topics

    @property
    def characters(self) -> int:
        """Of the names of the topics."""
        return sum(map(len, self.topics))


class OwnSettingsAnswer(_Heard, frozen=True, array_like=True, tag=2):
    """What a group has set for itself (``policy.context.OWN_SETTINGS``), as a broker describes it.

    ``settings`` are the names and values, in order; empty: the brokers' own hold for the group.
    """

    settings: tuple[tuple[str, int], ...] = ()

    @property
    def answer(self) -> tuple[tuple[str, int], ...]:
        """The settings."""
        return self.settings

    @property
    def characters(self) -> int:
        """Of the names of the settings."""
        return sum(len(name) for name, _ in self.settings)


class Probe(_Heard, frozen=True, array_like=True, tag=0):
    """A broker's answer about one classic group, as the prober recorded it.

    ``taken_ms`` is the time before the question, ``state`` is in Kafka's spelling (``Dead``: the broker has no such
    group). The prober's last complete round was ``unseen_ms`` earlier (below 0: not known). Its clock was ahead of the
    brokers' by ``ahead_ms`` at most, as far as it was measured.
    """

    state: str = ""
    broker: int | None = None
    members: tuple[ProbedMember, ...] = ()
    unseen_ms: int = 10_000
    ahead_ms: int = 0

    @property
    def answer(self) -> tuple[str, tuple[ProbedMember, ...]]:
        """State and members."""
        return self.state, self.members

    @property
    def characters(self) -> int:
        """Of the ids and hosts of the members."""
        return sum(
            len(member.member_id)
            + len(member.instance_id or "")
            + len(member.client_id)
            + len(member.client_host)
            for member in self.members
        )

    @property
    def asked_ms(self) -> int:
        """The question was not asked before this, by the brokers' clock."""
        return min(self.taken_ms - max(self.ahead_ms, 0), self.answered_ms)

    @property
    def answered_ms(self) -> int:
        """The answer had come by this time."""
        return self.taken_ms if self.written_ms is None else self.written_ms


class PendingTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that is open, as far as it concerns one group.

    ``first_offset`` is that of its first record in the partition of the offsets topic, written at ``since_ms``;
    ``held_from`` the last stable offset. ``partitions``: topics with ranges of the ``count`` partitions whose commit is
    pending, as many topics as ``MOST_PENDING_TOPICS``.
    """

    log_partition: int
    first_offset: int
    held_from: int
    producer_id: int
    producer_epoch: int
    since_ms: int
    partitions: tuple[tuple[str, str], ...]
    count: int


MOST_PENDING_TOPICS: Final = 50


class PendingTransactions(_Heard, frozen=True, array_like=True, tag=3):
    """All transactions with commits of a group that are known to be open, until another answer.

    A command that reads the batches behind the last stable offset knows of them from the log: ``topic`` is then that of
    the offsets.
    """

    transactions: tuple[PendingTransaction, ...] = ()

    @property
    def answer(self) -> tuple[PendingTransaction, ...]:
        """The transactions."""
        return self.transactions

    @property
    def characters(self) -> int:
        """Of the topics and ranges."""
        return sum(len(name) + len(ranges) for each in self.transactions for name, ranges in each.partitions)


#: What the prober has found out about a group; another kind is a struct here, and what applies it.
ProbeAnswer: TypeAlias = Probe | DeletedTopics | OwnSettingsAnswer | PendingTransactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The input of one call for a group.

    ``seen_to`` is the last offset that was read from the group's partition, of any group: a record behind the
    group's last one proves that the group's last operation is complete. ``caught_up_ms`` is a time by which the first
    item was written, for a group that has no time yet (0: not known). ``in_topic`` is set when the group's document is
    asked for: whether the topic of documents holds one, with unknown content. ``whole`` is what the log holds of a
    group whose state was lost, behind the offset below which that is everything.
    """

    items: Sequence[GroupRecord | CommitRun] = ()
    seen_to: int = -1
    probes: Sequence[ProbeAnswer] = ()
    caught_up_ms: int = 0
    in_topic: bool | None = None
    whole: tuple[int, Observations] | None = None
