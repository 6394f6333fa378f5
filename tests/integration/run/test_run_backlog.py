"""A job that begins with half an hour of log behind it, full of deployments: nothing of it is an alarm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.state import Severity
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories.builders import Raw
from support.histories.group_writer import GroupWriter
from support.histories.simulated import MINUTE, rolling_restart, simulated
from support.job.jobs import Json, interleaved, running_job, topic_names, write_log
from support.job.replays import named, replayed_log

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 4
BACKLOG_MS = 30 * MINUTE
#: Records of a batch; the log takes dozens of them.
LIMIT = 300


def rolling(begin: int, size: int, **kind: object) -> list[Raw]:
    """Work, a rolling restart, and work until the end of the half hour."""
    script = rolling_restart(
        size,
        at_ms=5 * MINUTE,
        pause_ms=MINUTE + 20_000,
        crashing=1,
        **kind,  # type: ignore[arg-type]
    )
    return simulated(script, BACKLOG_MS - begin, begin_ms=begin)


def modern(begin: int, kind: str) -> list[Raw]:
    """A rolling restart of a group of KIP-848; a member takes twenty seconds to give partitions up."""
    writer = GroupWriter(kind=kind, partitions=12, at=begin)
    for place in range(4):
        writer.join(f"m{place}")
        writer.settle()
    for place in range(4):
        writer.wait(3 * MINUTE)
        writer.leave(f"m{place}")
        writer.settle()
        writer.join(f"n{place}")
        writer.wait(20_000)
        writer.settle()
    return writer.log


#: The eager groups live on one partition, which has most of the log; their names see to that.
LIVES: dict[str, Callable[[int], list[Raw]]] = {
    **{f"eager-{number}": (lambda begin: rolling(begin, 5)) for number in (1, 5, 9, 10, 14, 18)},
    "cooperative": lambda begin: rolling(begin, 4, cooperative=True),
    "static": lambda begin: rolling(begin, 4, static=True),
    "modern": lambda begin: modern(begin, "consumer"),
    "streams": lambda begin: modern(begin, "streams"),
}


def rounds(events: list[Json]) -> Counter[str]:
    """Completed rebalances by group."""
    return Counter(one["data"]["group_id"] for one in named(events, "rebalance.completed"))


def test_a_backlog_with_rebalances_raises_nothing(tmp_path: Path) -> None:
    """Read in small batches, one partition far behind the others: every rebalance is told, and no alarm.

    The prober is at work all the while; what it sees is newer than what is read.
    """
    histories = {group: life(37 * number) for number, (group, life) in enumerate(LIVES.items())}
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        start_ms = time.time_ns() // 1_000_000 - BACKLOG_MS
        log = interleaved(histories, PARTITIONS, start_ms)
        write_log(server, log, PARTITIONS)
        sizes = Counter(partition for partition, *_ in log)
        assert sizes[0] > 2 * max(sizes[number] for number in range(1, PARTITIONS))
        flags = ("--backfill-events", "--max-offsets-per-trigger", str(LIMIT), "--probe-interval", "1")
        with running_job(server, tmp_path / "checkpoint", topic_names("backlog"), *flags) as job:
            job.wait_caught_up()
            events = list(job.events().values())
            assert job.stop() == 143
        expected = rounds(replayed_log(server)[0])
    assert len(log) > 10 * LIMIT
    assert set(expected) == set(LIVES)
    assert rounds(events) == expected
    assert [one for one in events if one["severitynumber"] >= Severity.WARN] == []
