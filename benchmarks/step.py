"""Cost of one call of a group's function, without Spark.

    python benchmarks/step.py [--groups 2000] [--partitions 5] [--calls 4]
    small: --groups 10 --calls 2

Every group commits all its partitions before each call. Prints the median in microseconds for the first call of a
group, for a later call, and for a call by its timer; then for the call of a first start, in which nothing is known of
the end of the log, without the look ahead to that moment and with it, and for the calls that are due at it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

from pack import commits
from page import flag_parser

from groupreplay.state import Context, Group, due_work
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.wire import GROUP_TAG

_DAY_MS = 24 * 3_600_000
#: How long groups have been at rest when a first start begins.
_REST_MS = 3_600_000
_CONTEXT = Context(cluster_id="benchmark", retention_ms=7 * _DAY_MS)
#: Key of a group, what is packed for it, and the time.
_Call = tuple[bytes, list[bytes], int]


class Groups:
    """The states of all groups; times are by the log's own clock."""

    def __init__(self, context: Context = _CONTEXT) -> None:
        self.context = context
        self.blobs: dict[bytes, bytes] = {}
        self.deadlines: dict[bytes, int] = {}

    def call(self, key: bytes, packed: list[bytes], now_ms: int) -> AdvanceResult:
        """One call as ``step`` makes it."""
        result = advance(
            key, self.blobs.get(key), packed, now_ms=now_ms, recorded_ms=now_ms, context=self.context
        )
        assert result.blob is not None
        self.blobs[key] = result.blob
        if result.deadline_ms is not None:
            self.deadlines[key] = result.deadline_ms
        return result

    def report(self, what: str, calls: Iterable[_Call]) -> None:
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


def report_first_start(packed: Iterable[_Call], latest_ms: int) -> None:
    """What the look ahead costs in the call that reads a group's past, and which calls it spares."""
    since_ms = latest_ms + _REST_MS
    past = [(key, blobs, -1) for key, blobs, _ in packed]
    spared = mock.patch.object(due_work, "skip_end_of_past", return_value=False)
    for what, way in (("without", spared), ("with", nullcontext())):
        groups = Groups(replace(_CONTEXT, emit_since_ms=since_ms))
        with way:
            groups.report(f"first start, {what} the look ahead", past)
        due: list[_Call] = [
            (key, [], since_ms) for key, at_ms in groups.deadlines.items() if at_ms <= since_ms
        ]
        if due:
            groups.report("its second call", due)


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
    due: list[_Call] = [(key, [], max(latest_ms, at_ms)) for key, at_ms in groups.deadlines.items()]
    groups.report("timer", due)
    report_first_start(packed, latest_ms)
    key, blob = next(iter(groups.blobs.items()))
    group = Group.from_snapshot(key[len(GROUP_TAG) :].decode(), _CONTEXT, blob)
    print(f"snapshot: {len(blob)} bytes, {len(group.describe()['offsets'])} offsets")


if __name__ == "__main__":
    main()
