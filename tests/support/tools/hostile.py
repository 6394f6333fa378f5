"""Random histories of a few groups, as hostile as bytes allow: extreme numbers, times, partitions, ids and orders.

A history is a list of batches; a batch holds raw records of the offsets topic and messages of the probes topic.
Half of the records are made from the declarations with random fields, the others are real ones with a few bytes
changed. Nothing in here knows what a record means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from groupreplay.codecs import (
    Assignment,
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    Subscription,
    Value,
    encode_blob,
    encode_key,
    encode_value,
)
from groupreplay.codecs.classic import MemberMetadata
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    HeartbeatMessage,
    MemberAnswer,
    ProbeMessage,
    RoundSummary,
)
from support.histories.raw_records import Raw
from support.histories.record_samples import random_blob, random_record
from support.paths import ROOT

CLUSTER_ID = "c"
START_MS = 1_700_000_000_000
_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS
_GROUPS = ("g", "payments", "", "é\x00\u2028")
_MEMBERS = ("m-1", "m-2", "m-3", "", "\x1b[2J")
_TOPICS = ("t", "orders", "", "\x00")
_NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 5, 1_000, 45_000, 300_000, 2**31 - 1)
_PARTITIONS = (-(2**31), -2, -1, 0, 0, 0, 1, 1, 2, 3, 7, 1_000_000, 2**31 - 1)
_OFFSETS = (-(2**63), -2, -1, 0, 1, 5, 10, 100, 501, 10_000, 2**63 - 1)
_STEPS_MS = (0, 0, 1, 5, 200, 1_000, 10_000, _MINUTE_MS, 10 * _MINUTE_MS, 3_600_000)
_EXTREME_MS = (
    -(2**63),
    -1,
    0,
    1,
    2**31,
    2**41,
    2**46,
    2**53,
    2**60,
    2**62,
    2**63 - 1,
    START_MS - _DAY_MS,
    START_MS + 400 * _DAY_MS,
)
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Assigning", "", "what?")


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch of the job reads, and the moment up to which the log is known after it (0: not told)."""

    log: Sequence[Raw]
    probes: Sequence[ProbeMessage]
    caught_up_ms: int


def history(seed: int, *, brief: bool = False) -> list[Batch]:
    """The history of this seed; a brief one has few records, and days pass only in records."""
    return list(_Writer(Random(seed), brief).batches())


class _Writer:
    def __init__(self, random: Random, brief: bool) -> None:
        self._random = random
        self._brief = brief
        self._groups = random.sample(_GROUPS, random.randint(1, 2))
        self._now_ms = START_MS
        self._extreme = random.choice((0.0, 0.02, 0.2))
        self._offsets = [random.choice((0, 0, 5, 2**40)) for _ in range(2)]
        self._generation = 0

    def batches(self) -> Iterator[Batch]:
        sizes = (1, 2, 5, 8) if self._brief else (0, 1, 2, 5, 20, 40)
        pauses = _STEPS_MS if self._brief else (*_STEPS_MS, _DAY_MS, 8 * _DAY_MS, 400 * _DAY_MS)
        for _ in range(self._random.randint(1, 3 if self._brief else 6)):
            log = [self._record() for _ in range(self._random.choice(sizes))]
            probes = [self._probe() for _ in range(self._random.choice((0, 0, 1, 3, 8)))]
            self._now_ms += self._random.choice(pauses)
            told = self._random.random() < 0.8
            yield Batch(log, probes, self._now_ms if told else 0)

    def _record(self) -> Raw:
        random = self._random
        self._now_ms += random.choice(_STEPS_MS)
        partition = random.choice((0, 0, 0, 1))
        self._offsets[partition] += random.choice((1, 1, 1, 2, 1_000))
        key, value = self._bytes()
        return Raw(partition, self._offsets[partition], self._time(), key, value)

    def _time(self) -> int:
        extreme = self._random.random() < self._extreme
        return self._random.choice(_EXTREME_MS) if extreme else self._now_ms

    def _bytes(self) -> tuple[bytes, bytes | None]:
        random = self._random
        kind = random.random()
        if kind < 0.25:
            key, value = random_record(random)
            key = self._ours(key)
        elif kind < 0.5:
            key, value = self._commit()
        elif kind < 0.75:
            key, value = self._generation_record()
        else:
            raw_key, raw_value = random.choice(_real())
            return self._injured(raw_key, 0.2), raw_value and self._injured(raw_value, 0.6)
        try:
            return encode_key(key), None if value is None else encode_value(value)
        except (ValueError, UnicodeEncodeError, OverflowError):
            return encode_key(key), None

    def _ours(self, key: Key) -> Key:
        """A key about one of this history's groups and members."""
        changes: dict[str, Any] = {}
        if hasattr(key, "group"):
            changes["group"] = self._random.choice(self._groups)
        if hasattr(key, "member_id") and self._random.random() < 0.9:
            changes["member_id"] = self._random.choice(_MEMBERS)
        return replace(key, **changes)

    def _commit(self) -> tuple[Key, Value | None]:
        random = self._random
        key = OffsetCommitKey(
            group=random.choice(self._groups),
            topic=random.choice(_TOPICS),
            partition=random.choice(_PARTITIONS),
        )
        if random.random() < 0.15:
            return key, None
        version = random.choice((0, 1, 2, 3, 4))
        value = OffsetCommitValue(
            version=version,
            offset=random.choice(_OFFSETS),
            metadata=random.choice(("", "m", "x" * 5_000, "\x1b]0;")),
            commit_timestamp_ms=self._time(),
        )
        if version == 1:
            return key, replace(value, expire_timestamp_ms=random.choice((-1, *_EXTREME_MS)))
        return key, replace(value, leader_epoch=random.choice(_NUMBERS)) if version >= 3 else value

    def _generation_record(self) -> tuple[Key, Value | None]:
        random = self._random
        key = GroupMetadataKey(group=random.choice(self._groups))
        if random.random() < 0.1:
            return key, None
        self._generation += random.choice((-1, 0, 1, 1, 1, 2))
        generation = random.choice((self._generation,) * 9 + _NUMBERS[:1] + _NUMBERS[-1:])
        members = tuple(self._member() for _ in range(random.choice((0, 1, 2, 3, 3))))
        return key, GroupMetadataValue(
            version=3,
            protocol_type=random.choice(("consumer",) * 6 + ("connect", "", "sr")),
            generation=generation,
            protocol=random.choice(("range", None)),
            leader=random.choice((*_MEMBERS, None)),
            current_state_timestamp_ms=random.choice((self._now_ms, self._time())),
            members=members,
        )

    def _member(self) -> MemberMetadata:
        random = self._random
        return MemberMetadata(
            member_id=random.choice(_MEMBERS),
            group_instance_id=random.choice((None, None, "i-1", "i-2", "")),
            client_id=random.choice(("c", "connector-consumer-x-1", "")),
            client_host=random.choice(("/10.0.0.1", "")),
            rebalance_timeout_ms=random.choice(_NUMBERS),
            session_timeout_ms=random.choice(_NUMBERS),
            subscription=self._subscription(),
            assignment=self._assignment(),
        )

    def _assignment(self) -> bytes:
        random = self._random
        if random.random() < 0.1:
            return random.randbytes(random.choice((0, 1, 2, 7, 40)))
        blob = random_blob(random, Assignment)
        topics = (
            tuple(
                replace(one, topic=random.choice(_TOPICS), partitions=tuple(random.choices(_PARTITIONS, k=3)))
                for one in blob.topics
            )
            if hasattr(blob, "topics")
            else ()
        )
        return encode_blob(replace(blob, topics=topics) if topics else blob)

    def _subscription(self) -> bytes:
        random = self._random
        if random.random() < 0.2:
            return random.randbytes(random.choice((0, 1, 2, 7, 40)))
        return encode_blob(random_blob(random, Subscription))

    def _injured(self, data: bytes, share: float) -> bytes:
        """A few bytes changed, of some."""
        random = self._random
        if not data or random.random() > share:
            return data
        changed = bytearray(data)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(changed))] = random.choice(
                (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
            )
        return bytes(changed)

    def _probe(self) -> ProbeMessage:
        at_ms = max(0, min(self._now_ms + self._random.choice((-10_000, 0, 0, 0, 5_000)), 4_102_444_800_000))
        kind = self._random.random()
        if kind < 0.7:
            return self._answer(at_ms)
        return self._round(at_ms) if kind < 0.85 else self._heartbeat(at_ms)

    def _answer(self, at_ms: int) -> GroupAnswer:
        random = self._random
        members = tuple(
            MemberAnswer(
                member_id=random.choice(_MEMBERS),
                instance_id=random.choice((None, "i-1")),
                client_id="c",
                client_host="/h",
            )
            for _ in range(random.choice((0, 1, 2)))
        )
        return GroupAnswer(
            cluster_id=CLUSTER_ID,
            group_id=random.choice(self._groups),
            taken_ms=at_ms,
            state=random.choice(_STATES),
            broker=random.choice((None, 1)),
            protocol_type="consumer",
            protocol="",
            members=members,
            interval_ms=random.choice((10_000, 10_000, 0, -5, 2**40)),
            unseen_ms=random.choice((None, 10_000, 0, -7, 2**40)),
        )

    def _round(self, at_ms: int) -> RoundSummary:
        random = self._random
        return RoundSummary(
            cluster_id=CLUSTER_ID,
            taken_ms=at_ms,
            brokers={1: random.choice((None, "no answer")), 2: None},
            rights=random.choice(("ok", "missing", "unknown")),
            partitions={0: (random.choice((0, 5, 2**62)), random.choice((0, 5, 2**62)))},
            partition_count=random.choice((None, 50, 0, 10_000)),
            groups=random.choice((0, 1)),
            job_id=random.choice((None, "j")),
            leaders=random.choice(({}, {0: 1}, {0: -1, 49: 2**31 - 1})),
        )

    def _heartbeat(self, at_ms: int) -> HeartbeatMessage:
        random = self._random
        return HeartbeatMessage(
            cluster_id=CLUSTER_ID,
            era="e",
            job_id=random.choice(("j", "k")),
            run_id="r",
            at_ms=at_ms,
            caught_up_ms=random.choice((None, at_ms)),
            offsets={0: 5},
            unmissed_expired=random.choice((0, 5, 10**12)),
            dead_letters=random.choice((0, 5, 10**12)),
            quarantined=random.choice((0, 1, 10**12)),
            high_watermarks={0: random.choice((0, 5, 2**63 - 1)), 49: 7} if random.random() < 0.7 else {},
            clock_off_ms=random.choice((None, 0, 3_600_000, -4_102_444_800_000)),
        )


@cache
def _real() -> Sequence[tuple[bytes, bytes | None]]:
    """Records that brokers have written."""
    rows = json.loads((ROOT / "tests" / "golden" / "records.json").read_text(encoding="utf-8"))["rows"]
    return [
        (bytes.fromhex(one["key"]), bytes.fromhex(one["value"]) if one.get("value") else None) for one in rows
    ]
