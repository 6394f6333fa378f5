"""Records of offset commits: types 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupreplay.codecs.primitives import INT32, INT64, STRING, UUID, ZERO_UUID
from groupreplay.codecs.schema import Key, Value, quick, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyOffsetCommitKey(Key):
    """Key of an offset committed by a broker older than 0.9; no longer written.

    Its values were of version 0, for which Kafka 4.1 has a message of its own, equal to `OffsetCommitValue` v0;
    brokers up to 4.0 also read later versions under it.
    """

    KEY_TYPE: ClassVar[int] = 0

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey(Key):
    """Key of a committed offset: one per group, topic and partition."""

    KEY_TYPE: ClassVar[int] = 1

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue(Value):
    """One committed offset; written at every commit, tombstoned when it expires or is deleted.

    v1 added an explicit expiry (still written for clients that ask for a retention time), v2 dropped it; v3
    added the leader epoch; v4 is flexible and carries the topic id (written since 4.1, in transactions since 4.4).
    """

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=-1)
    metadata: str = wire(STRING)
    commit_timestamp_ms: int = wire(INT64, kafka="commitTimestamp")
    expire_timestamp_ms: int = wire(INT64, since=1, until=1, default=-1, kafka="expireTimestamp")
    topic_id: bytes = wire(UUID, since=4, tag=0, default=ZERO_UUID)
