"""Cost of one call of a group's function, without Spark.

    python benchmarks/step.py [--groups 2000] [--partitions 5] [--calls 4]
    small: --groups 10 --calls 2

Every group commits all its partitions before each call. Prints the median in microseconds for the first call of a
group, for a later call, and for a call by its timer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable

from pack import commits
from page import flag_parser

from groupreplay.state import Context, Group
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.wire import GROUP_TAG

_DAY_MS = 24 * 3_600_000
_CONTEXT = Context(cluster_id="benchmark", retention_ms=7 * _DAY_MS)


class Groups:
    """The states of all groups; times are by the log's own clock."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.deadlines: dict[bytes, int] = {}

    def call(self, key: bytes, packed: list[bytes], now_ms: int) -> AdvanceResult:
        """One call as ``step`` makes it."""
        result = advance(
            key, self.blobs.get(key), packed, now_ms=now_ms, recorded_ms=now_ms, context=_CONTEXT
        )
        assert result.blob is not None
        self.blobs[key] = result.blob
        if result.deadline_ms is not None:
            self.deadlines[key] = result.deadline_ms
        return result

    def report(self, what: str, calls: Iterable[tuple[bytes, list[bytes], int]]) -> None:
        """Makes the calls and prints what one costs."""
        micros, written, rows = [], 0, 0
        for key, packed, now_ms in calls:
            begin = time.perf_counter()
            result = self.call(key, packed, now_ms)
            micros.append(1e6 * (time.perf_counter() - begin))
            written, rows = written + result.changed, rows + len(result.rows)
        median = statistics.median(micros)
        print(
            f"{what}: {median:.0f} us a call ({len(micros)} calls, {written} states and {rows} rows written)"
        )


def main() -> None:
    """Prints the figures."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--calls", type=int, default=4)
    asked = parser.parse_args()
    groups, latest_ms = Groups(), 0
    # With one partition of the log and so many rows a round is one slice.
    (whole,) = commits(asked.groups, asked.partitions, asked.calls, 1, batch=1 << 62)
    size = asked.groups * asked.partitions
    for number in range(asked.calls):
        batch = whole.slice(number * size, size)
        latest_ms = batch["timestamp_ms"][size - 1].as_py()
        packed = [
            (key, [blob], latest_ms)
            for rows in pack(iter([batch]))
            for key, blob in zip(rows["key"].to_pylist(), rows["packed"].to_pylist(), strict=True)
        ]
        groups.report("later call" if number else "first call", packed)
    due = [(key, [], max(latest_ms, at_ms)) for key, at_ms in groups.deadlines.items()]
    groups.report("timer", due)
    key, blob = next(iter(groups.blobs.items()))
    group = Group.from_snapshot(key[len(GROUP_TAG) :].decode(), _CONTEXT, blob)
    print(f"snapshot: {len(blob)} bytes, {len(group.describe()['offsets'])} offsets")


if __name__ == "__main__":
    main()
