"""What `watch` costs: reading from a broker, the engine, the state file, and memory.

    python benchmarks/watch.py [--groups 20000] [--partitions 10] [--commits 5] [--second 10000] [--page]
    small: --groups 50 --partitions 2 --commits 2 --second 20

Groups commit all their partitions round after round to a broker on this machine. Then this process reads the log from
its begin as `watch` does, with a state file, and after that takes polls of one second with ``--second`` commits.
Seconds are CPU seconds of this process alone; the prober, which is a process of its own, is not part of it. ``--page``
puts the table into docs/scaling.md.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import traffic
from page import PAGE, flag_parser, put
from shapes import Shape

from groupreplay.__main__ import _OBJECTS
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.process import hide_pandas
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.watch.beginning import WatchSettings
from groupreplay.streaming.watch.follower import opened
from groupreplay.streaming.watch.log_reader import Arrived, LogReader
from groupreplay.streaming.watch.polls import Polls, Read

_T = TypeVar("_T")
_STEADY = 5


class Costs:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.seconds = {"reading": 0.0, "engine": 0.0}

    def of(self, part: str, work: Callable[[], _T]) -> _T:
        """The result of the work; its time is added."""
        began = time.process_time()
        result = work()
        self.seconds[part] += time.process_time() - began
        return result


def resident_mib() -> int:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def passed(polls: Polls) -> tuple[bytes, bytes]:
    """A heartbeat: everything up to now was read."""
    context, at_ms = polls.engine.context, now_ms()
    return encode_message(
        HeartbeatMessage(
            cluster_id=context.cluster_id,
            era=context.era,
            job_id=context.job_id,
            run_id="",
            at_ms=at_ms,
            caught_up_ms=at_ms,
            offsets={},
        )
    )


def take(polls: Polls, reader: LogReader, costs: Costs) -> Arrived:
    """One poll."""
    arrived = costs.of("reading", lambda: reader.read(0.5))
    messages = () if arrived.is_full else (passed(polls),)
    read = Read(records=arrived.batches, read_to=arrived.read_to, messages=messages, read_ms=now_ms())
    costs.of("engine", lambda: polls.take(read))
    return arrived


#: What was measured, and the result.
Rows = list[tuple[str, str]]


def read_whole(polls: Polls, reader: LogReader, records: int) -> Rows:
    """The log from its begin."""
    costs, seen = Costs(), 0
    while seen < records:
        seen += take(polls, reader, costs).records
    began = time.process_time()
    while (more := take(polls, reader, Costs())).is_full:
        seen += more.records
    last_poll = time.process_time() - began
    total = sum(costs.seconds.values())
    return [
        ("reading the records from a broker", f"{seen / costs.seconds['reading']:,.0f} records/s"),
        ("the engine at the start, with the state file", f"{seen / costs.seconds['engine']:,.0f} records/s"),
        (
            "both: a first start",
            f"{seen / total:,.0f} records/s, {total:.1f} s for {seen:,} records",
        ),
        (
            "from the last record to the first event: time passes for all groups, once",
            f"{last_poll:.1f} s",
        ),
    ]


def steady(server: str, polls: Polls, reader: LogReader, shape: Shape) -> Rows:
    """Polls of one second each."""
    costs = Costs()
    for number in range(_STEADY):
        traffic.write(server, shape, first_commit=100 + number)
        seen = 0
        while seen < shape.groups * shape.partitions:
            seen += take(polls, reader, costs).records
    share = {part: 100 * seconds / _STEADY for part, seconds in costs.seconds.items()}
    parts = ", ".join(f"{part} {percent:.0f} %" for part, percent in share.items())
    commits = shape.groups * shape.partitions
    return [
        (
            f"{commits:,} commits/s of {shape.groups:,} groups",
            f"{sum(share.values()):.0f} % of a core ({parts})",
        )
    ]


def table(shape: Shape, rows: Rows) -> str:
    """The rows for the page."""
    head = f"{shape.groups:,} groups, {shape.groups * shape.partitions:,} partitions"
    lines = [f"| {what} | {measured} |" for what, measured in ((head, ""), ("---", "---"), *rows)]
    return "\n".join(lines)


def main() -> None:
    """Writes the log, then reads it."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--commits", type=int, default=5)
    parser.add_argument("--second", type=int, default=10_000)
    parser.add_argument("--page", action="store_true")
    flags = parser.parse_args()
    shape = Shape("watch", groups=flags.groups, partitions=flags.partitions, commits=flags.commits)
    # As the program does, which hides pandas: Arrow would import it.
    gc.set_threshold(_OBJECTS)
    hide_pandas()
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        server = broker.bootstrap_servers
        traffic.write(server, shape)
        source = Cluster(bootstrap_servers=server)
        settings = WatchSettings(source=source, state=Path(folder) / "state.db")
        before_mib = resident_mib()
        with opened(settings, lambda _: None) as follower:
            polls, connection = follower.polls, Connection(source)
            ends = connection.end_offsets(OFFSETS_TOPIC, follower.identity.partitions)
            reader = LogReader(connection, follower.identity.partitions, {})
            rows = read_whole(polls, reader, sum(ends.values()))
            second = replace(shape, groups=max(1, flags.second // flags.partitions), commits=1)
            rows += steady(server, polls, reader, second)
            reader.close()
            size_mib = sum(path.stat().st_size for path in Path(folder).glob("state.db*")) >> 20
    memory = f"{resident_mib():,} MiB at most, {before_mib:,} MiB of them before the first record"
    rows += [("memory", memory), ("state file", f"{size_mib:,} MiB")]
    print(table(shape, rows))
    if flags.page:
        put("watch", table(shape, rows), PAGE.with_name("scaling.md"))


if __name__ == "__main__":
    main()
