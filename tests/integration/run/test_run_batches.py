"""The job whose batches get another size while it reads: the time of one decides how much the next one reads."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories.simulated import MINUTE, rolling_restart, simulated
from support.job.jobs import RunningJob, comparable, interleaved, topic_names, write_log
from support.job.replays import replayed_log

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 4
GROUPS = 6
#: Sizes of batches that a test can wait for; ``limits`` are the seconds that are long and those that are wanted.
SMALL = """
from groupreplay.streaming.spark import progress
progress._FIRST, progress._FEWEST = 800, 400
progress._LONG_SECONDS, progress._WANTED_SECONDS = {limits}
from groupreplay.__main__ import main
main()
"""


class SmallJob(RunningJob):
    """Batches get smaller: each is too long."""

    program = ("-c", SMALL.format(limits="0, 0"))


class GrowingJob(RunningJob):
    """Batches get larger: none is too long."""

    program = ("-c", SMALL.format(limits="600, 30"))


@pytest.mark.parametrize(("kind", "larger"), [(SmallJob, False), (GrowingJob, True)])
def test_another_size_of_batches(tmp_path: Path, kind: type[RunningJob], larger: bool) -> None:
    """The job continues with the size that it names, and its events are those of a replay."""
    script = rolling_restart(3, at_ms=5 * MINUTE, pause_ms=MINUTE + 20_000)
    histories = {f"batches-{number}": simulated(script, 30 * MINUTE, begin_ms=0) for number in range(GROUPS)}
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        start_ms = time.time_ns() // 1_000_000 - 30 * MINUTE
        write_log(server, interleaved(histories, PARTITIONS, start_ms), PARTITIONS)
        job = kind(server, tmp_path / "checkpoint", topic_names("batches"), "--backfill-events")
        try:
            job.wait_caught_up()
            events = job.events()
            assert job.stop() == 143
        finally:
            job.process.end(0)
        expected = {event["id"]: comparable(event) for event in replayed_log(server)[0]}
    text = " ".join(job.log.read_text().split())
    changes = re.findall(r"a batch of ([\d,]+) offsets took \d+ s, continuing with at most ([\d,]+) in", text)
    sizes = [(int(before.replace(",", "")), int(after.replace(",", ""))) for before, after in changes]
    # Each partition's share of the limit is rounded down.
    assert 800 - PARTITIONS < sizes[0][0] <= 800
    assert all((after > before) is larger for before, after in sizes)
    assert {name: comparable(event) for name, event in events.items() if name in expected} == expected
