"""The job, its workers and the broker killed at random moments, while real groups come and go.

What stands in the sink in the end is held against a replay of the two topics: nothing is lost, nothing is wrong,
and what was said twice was said in the same words.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.ordeals.ordeal import Ordeal
from support.ordeals.siege import besieged

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MANY_KILLS = 51
OUTAGE_SECONDS = 60.0


def survives(folder: Path, kills: Sequence[str], seed: int) -> None:
    """Undergoes these kills, then compares."""
    with besieged(folder, seed, "kills") as (job, broker):
        Ordeal(job, [broker], seed).undergo(kills)


def test_one_kill_of_each_kind(tmp_path: Path) -> None:
    """A worker, the prober, the driver, the broker: no event is lost, none is wrong."""
    survives(tmp_path, ["worker", "prober", "driver", "broker"], random.randrange(1_000_000))


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_many_kills(tmp_path: Path) -> None:
    """The same many times, in any order."""
    seed = random.randrange(1_000_000)
    kinds = ["driver", "worker", "worker", "prober", "broker"]
    survives(tmp_path, random.Random(seed).choices(kinds, k=MANY_KILLS), seed)


@pytest.mark.long
def test_an_outage_of_a_minute(tmp_path: Path) -> None:
    """The same process goes on as soon as the broker is back; how soon is printed."""
    with besieged(tmp_path, random.randrange(1_000_000), "kills") as (job, broker):
        job.wait_caught_up()
        pid = job.process.pid
        broker.stop()
        time.sleep(OUTAGE_SECONDS)  # what is tested is an outage of this length
        broker.start()
        back_ms = time.time_ns() // 1_000_000
        job.wait_caught_up()
        print(f"caught up {time.time_ns() // 1_000_000 - back_ms} ms after the broker was back")  # noqa: T201
        assert (job.process.pid, job.process.exit_code) == (pid, None)
