"""Costs of a group with very many partitions: one commit of all of them, its deadlines, its snapshot.

    python benchmarks/offsets.py [--partitions 20000] [--topics 20]
    small: --partitions 100 --topics 2

Prints the best and the median of several passes. The goals: 10 ms for a commit of 20 000 partitions, 1.3 MB for the
snapshot.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from page import flag_parser

from groupreplay.state import COMMITS, CommitRun, Context, Extent, Group, Observations
from groupreplay.state.replay.retention import deadlines

_GOES = 15
_SEVEN_DAYS_MS = 7 * 24 * 3_600_000


def commit_of_all(partitions: int, topics: int, number: int) -> CommitRun:
    """One request that commits every partition."""
    rows = np.zeros(partitions, COMMITS)
    rows["topic"] = np.arange(partitions) % topics
    rows["partition"] = np.arange(partitions) // topics
    rows["offset"] = rows["first_offset"] = number
    rows["leader_epoch"], rows["count"] = 1, 1
    rows["expire_timestamp_ms"] = rows["changed_ms"] = -1
    rows["log_offset"] = rows["first_log_offset"] = number * partitions + np.arange(partitions)
    at_ms = 1_000 + 5_000 * number
    for name in ("timestamp_ms", "first_timestamp_ms", "commit_timestamp_ms", "first_commit_timestamp_ms"):
        rows[name] = at_ms
    ids = {topic: bytes([topic % 256] * 16) for topic in range(topics)}
    names = tuple(f"topic-{topic:04}" for topic in range(topics))
    return CommitRun(partition=0, topics=names, rows=rows, extent=Extent.of(rows), topic_ids=ids)


def report(what: str, goes: list[float]) -> None:
    """Best and median, in milliseconds."""
    print(f"{what}: best {1e3 * min(goes):.2f} ms, median {1e3 * statistics.median(goes):.2f} ms")


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    """Prints the figures."""
    parser = flag_parser(__doc__)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--topics", type=int, default=20)
    asked = parser.parse_args()
    group = Group("big", Context(cluster_id="benchmark", retention_ms=_SEVEN_DAYS_MS))
    first, *later = (
        Observations(items=[commit_of_all(asked.partitions, asked.topics, number)])
        for number in range(_GOES + 1)
    )
    print(f"{asked.partitions:,} partitions of {asked.topics} topics")
    report("the first commit of all", [timed(lambda: group.apply(first, 0))])
    report("a commit of all", [timed(lambda one=one: group.apply(one, 0)) for one in later])  # type: ignore[misc]
    snapshot, offsets = group._snapshot, group._offsets
    report(
        "all deadlines", [timed(lambda: deadlines(snapshot.group, offsets, group._context)) for _ in later]
    )
    report("a snapshot", [timed(group.snapshot) for _ in later])
    blob = group.snapshot()
    report("back from it", [timed(lambda: Group.from_snapshot("big", group._context, blob)) for _ in later])
    print(f"snapshot: {len(blob):,} bytes, {len(blob) / asked.partitions:.1f} a partition")


if __name__ == "__main__":
    main()
