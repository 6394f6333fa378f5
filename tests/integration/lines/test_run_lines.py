"""The job on whatever line of Spark is installed: killed and started again, with its private parts and without them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.spark.internals import has_known_internals
from groupreplay.streaming.spark.session_checks import has_python_sources
from support.histories.builders import Raw, commit, generation, member
from support.job.jobs import RunningJob, interleaved, last_batch, running_job, topic_names, write_log
from support.ordeals.comparison import differences, settled

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.line, pytest.mark.long]
PARTITIONS = 2
GROUPS = 20
#: A generation begins before its record, and not below zero: how often that is reported depends on the job's speed.
FIRST_MS = 10
STOCK = "pyspark.daemon"
#: A line that is later than the known ones has PySpark's own.
FAST = (
    "groupreplay.streaming.spark.internals.python_daemon"
    if has_known_internals(pyspark.__version__)
    else STOCK
)
#: The log by Spark's connector, also where groupreplay's own source is the default.
CONNECTOR = ("--log-source", "connector")
HAS_SOURCES = has_python_sources()
#: Spark plans a source of Python's in a worker of its own.
OURS = {FAST, STOCK} if HAS_SOURCES else {FAST}
WITH_SOURCES = pytest.mark.skipif(not HAS_SOURCES, reason="data sources that bound a batch: Spark 4.2")


@pytest.mark.parametrize(
    ("flags", "later", "modules"),
    [
        ((), (), OURS),
        (("--plain-spark",), ("--plain-spark",), {STOCK}),
        pytest.param(CONNECTOR, (), OURS, marks=WITH_SOURCES),
        pytest.param((), CONNECTOR, {FAST}, marks=WITH_SOURCES),
    ],
    ids=["fast", "plain", "to Python's source", "back to the connector"],
)
def test_a_killed_job_goes_on(
    tmp_path: Path, flags: tuple[str, ...], later: tuple[str, ...], modules: set[str]
) -> None:
    """The events of a replay, each once, and a status with the batches; the workers come from the expected daemon.

    Whatever read the log before the kill, the job goes on with the source of its present flags.
    """
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server, checkpoint = broker.bootstrap_servers, tmp_path / "checkpoint"
        with running_job(server, checkpoint, topic_names("lines"), "--member-events", *flags) as job:
            job.wait_until(lambda: last_batch(checkpoint) >= 0)
            begin_ms = now_ms()
            write_log(server, interleaved(first_halves(), PARTITIONS, begin_ms), PARTITIONS)
            job.wait_until(lambda: len(job.events()) > 0)
            job.kill()
            write_log(server, interleaved(second_halves(), PARTITIONS, begin_ms + 1_000), PARTITIONS)
            job.flags = ("--member-events", *later)
            job.restart()
            said, expected = settled(job)
            assert differences(said, expected) == []
            assert len({event["data"]["group_id"] for event in said.values()}) == GROUPS
            # What the listener, or the JVM, told the job of its batches; a status is written every few seconds.
            job.wait_until(lambda: job.status()["counters"]["records"] > 0)
            assert job.status()["batch"]["id"] <= last_batch(checkpoint)
            assert daemons(job) == modules


def first_halves() -> dict[str, list[Raw]]:
    """Groups that are created, and have two generations."""
    one, two = member("one", [0, 1]), member("two", [2])
    return {
        f"group-{number}": [
            generation(1, one, at=FIRST_MS + number),
            generation(2, one, two, at=100 + number),
        ]
        for number in range(GROUPS)
    }


def second_halves() -> dict[str, list[Raw]]:
    """The same groups: a member leaves, and the other one commits."""
    one = member("one", [0, 1, 2])
    return {
        f"group-{number}": [
            generation(3, one, at=FIRST_MS + number),
            *(commit("t", part, 10 * turn, at=200 + turn) for turn in range(3) for part in range(3)),
        ]
        for number in range(GROUPS)
    }


def daemons(job: RunningJob) -> set[str]:
    """The modules of the processes from which Spark forks the job's workers."""
    found = set()
    for child in psutil.Process(job.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            words = child.cmdline()
            module = words[words.index("-m") + 1] if "-m" in words else ""
            if module.endswith("daemon"):
                found.add(module)
    return found
