"""What a group's state is fed with: records of the log in log order, and runs of folded offset commits.

Knows the shape of an observation; must not know bytes, where the records were read, or what they mean.
A run is lossless where it matters: the last value of each topic partition, the first one, how many there
were, every decrease, and how long the gaps between them were. A run never reaches over another record of its
group, so order is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from groupreplay.codecs import Key, Value
from groupreplay.state.snapshot.commit_intervals import nothing

#: One row = all commits of one topic partition inside one run. ``topic`` is an index into the run's topics.
#: ``expire_timestamp_ms`` and ``leader_epoch`` are -1 where the record has none; ``changed_ms`` is the commit
#: time of the last commit with another offset than the one before it in the run, -1 where there is none.
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
    ]
)

#: One row = one commit that went back inside a run: ``row`` indexes the run's commits.
DECREASES = np.dtype(
    [
        ("row", "<i4"),
        ("old_offset", "<i8"),
        ("new_offset", "<i8"),
        ("log_offset", "<i8"),
        ("timestamp_ms", "<i8"),
    ]
)


class Extent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a run's rows come to: place in the log and timestamp of the first and of the last commit, how many.

    ``expires``: an offset has an expiry of its own, as only old clients give them.
    """

    first_offset: int
    first_ms: int
    last_offset: int
    last_ms: int
    commits: int
    expires: bool

    @classmethod
    def of(cls, rows: npt.NDArray[np.void]) -> Extent:
        """That of rows of COMMITS; ``fold`` knows it of all its runs at once."""
        first, last = rows["first_log_offset"].argmin(), rows["log_offset"].argmax()
        return cls(
            int(rows["first_log_offset"][first]),
            int(rows["first_timestamp_ms"][first]),
            int(rows["log_offset"][last]),
            int(rows["timestamp_ms"][last]),
            int(rows["count"].sum()),
            bool(rows["expire_timestamp_ms"].max() >= 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One record of the log that is not an offset commit with a value; ``value`` None is a tombstone."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Key
    value: Value | None

    @property
    def first_offset(self) -> int:
        """Where the observation begins in the log."""
        return self.offset

    @property
    def last_ms(self) -> int:
        """When the observation ends."""
        return self.timestamp_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """Offset commits of one group with no other record of that group between them, folded.

    ``extent`` is that of the rows; ``topics`` and ``topic_ids`` (16 bytes; absent where the log has none) are
    tables for them; ``metadata`` has the rows whose last commit carried a non-empty metadata string; ``rhythm``
    counts the gaps between commits of the same topic partition inside the run.
    """

    partition: int
    topics: tuple[str, ...]
    rows: npt.NDArray[np.void]
    extent: Extent
    decreases: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, DECREASES))
    metadata: Mapping[int, str] = field(default_factory=dict)
    topic_ids: Mapping[int, bytes] = field(default_factory=dict)
    rhythm: npt.NDArray[np.void] = field(default_factory=nothing)

    @property
    def first_offset(self) -> int:
        """Where the run begins in the log."""
        return self.extent.first_offset

    @property
    def last_ms(self) -> int:
        """Timestamp of the last commit."""
        return self.extent.last_ms


class ProbedMember(msgspec.Struct, frozen=True, array_like=True):
    """A member of a classic group as DescribeGroups shows it; who has rejoined is not told."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class Probe(msgspec.Struct, frozen=True, array_like=True):
    """A live answer about one classic group, as the prober has written it down.

    ``taken_ms`` is when the broker answered, ``state`` in Kafka's spelling (``Dead``: it knows no such group).
    ``topic``, ``partition`` and ``offset`` say where the answer is recorded; the prober asks every ``interval_ms``,
    and had last asked everybody ``unseen_ms`` before.
    """

    taken_ms: int
    state: str
    topic: str
    partition: int
    offset: int
    broker: int | None = None
    members: tuple[ProbedMember, ...] = ()
    interval_ms: int = 10_000
    unseen_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What one call of a group's function was given.

    ``seen_to`` is the last offset of the group's partition that the reader has passed, whatever group it
    belonged to: a record behind a group's last one proves that the group's last operation is complete.
    """

    items: Sequence[GroupRecord | CommitRun] = ()
    seen_to: int = -1
    probes: Sequence[Probe] = ()
