"""A group that stands still while records of a known rate are written, as a capture with the ends of its topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage
from support.histories.builders import Raw, asked_for, commit, generation, member
from support.job.captures import raw, write_capture
from support.job.probes import asked, beat, ends_round, moment, probes_batch, summed_up, topic_ends

SECOND = 1_000
MINUTE = 60 * SECOND
#: 2026-01-01T00:00:00Z
BEGIN = 1_767_225_600_000
PARTITIONS = 4
#: Records a second, of each partition.
RATE = 10
INTERVAL_MS = 30 * SECOND
#: A member joins; another one does not, until it is removed after five minutes.
BEGAN_MS, ENDED_MS = BEGIN + 10 * MINUTE, BEGIN + 15 * MINUTE
#: The last commit before, the first one after, and the first one of all there is.
LAST_MS, FIRST_MS, CAUGHT_UP_MS = BEGAN_MS - 5 * SECOND, ENDED_MS + 5 * SECOND, ENDED_MS + 35 * SECOND
_END_MS = BEGIN + 20 * MINUTE


def written(at_ms: int) -> int:
    """The records of a partition."""
    return 1_000 + RATE * (at_ms - BEGIN) // SECOND


def stopped_capture(path: Path, *, with_ends: bool = True) -> Path:
    """Members commit all there is every five seconds; after the stop they need half a minute to be there again."""
    pair = member("a", [0, 1]), member("b", [2, 3], host="/10.0.0.2")
    third = member("c", [2, 3], host="/10.0.0.3")
    records = [
        asked_for(at=BEGIN),
        generation(1, *pair, at=BEGIN + 3 * SECOND),
        *_commits(BEGIN + 5 * SECOND, LAST_MS),
        generation(2, pair[0], third, at=ENDED_MS),
        *_commits(FIRST_MS, _END_MS),
    ]
    messages = sorted([*_answers(), *(_ends() if with_ends else ())], key=moment)
    rows = raw(sorted(records, key=lambda record: record.at))
    return write_capture(path, rows, probes=probes_batch(messages))


def _commits(since_ms: int, until_ms: int) -> Iterator[Raw]:
    for at_ms in range(since_ms, until_ms + 1, 5 * SECOND):
        is_behind = FIRST_MS <= at_ms < CAUGHT_UP_MS
        for partition in range(PARTITIONS):
            yield commit("t", partition, written(LAST_MS if is_behind else at_ms) + is_behind, at=at_ms)


def _answers() -> Iterator[ProbeMessage]:
    for at_ms in range(BEGIN, _END_MS, 10 * SECOND):
        yield beat(at=at_ms, caught_up=at_ms)
        yield summed_up(at=at_ms)
        if BEGAN_MS <= at_ms < ENDED_MS:
            answer = asked("g", "PreparingRebalance", at=at_ms, members=("a", "b"))
            # In the round before it was not rebalancing.
            yield structs.replace(answer, unseen_ms=10 * SECOND if at_ms == BEGAN_MS else None)


def _ends() -> Iterator[ProbeMessage]:
    for number, at_ms in enumerate(range(BEGIN, _END_MS, INTERVAL_MS)):
        end = written(at_ms)
        partitions = dict.fromkeys(range(PARTITIONS), PartitionEnds(0, end, end))
        yield topic_ends(number, partitions, taken_ms=at_ms, took_ms=0)
        yield ends_round(number, taken_ms=at_ms, took_ms=0)
