"""``run`` on a terminal, ended at any moment: one sentence, its exit code, nothing is left, and no event is lost.

How long each end took is printed, and not tested: a test must not depend on speed.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY, STOPPED
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, last_batch, read_topic, topic_flags, topic_names
from support.ordeals.siege import besieged
from support.ordeals.terminal import WAYS, Terminal, Way, ends_as_documented, on_terminal

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MOMENTS = 30
LAST_SECOND = 30.0
FLAGS = ("--master", "local[2,4]", "--shuffle-partitions", "2", "--trigger", "1", "--member-events")

Moment = Callable[[Terminal, Path], bool]


def words(server: str, checkpoint: Path, topics: TopicNames) -> list[str]:
    """The command line."""
    return [
        "run",
        "--bootstrap-server",
        server,
        "--checkpoint",
        str(checkpoint),
        *FLAGS,
        *topic_flags(topics),
    ]


def at_the_first_line(terminal: Terminal, _: Path) -> bool:
    """Python has started; the program is not loaded."""
    return terminal.is_loaded()


def while_the_jvm_starts(terminal: Terminal, _: Path) -> bool:
    """PySpark waits for the address of the JVM."""
    return any((terminal.scratch).glob("groupreplay-spark-*/tmp*"))


def in_the_first_batch(_: Terminal, checkpoint: Path) -> bool:
    """It is planned, and not finished."""
    return (checkpoint / "offsets" / "0").exists()


def in_the_steady_state(_: Terminal, checkpoint: Path) -> bool:
    """Some batches are finished."""
    return last_batch(checkpoint) >= 1


@pytest.mark.parametrize(
    ("moment", "way"),
    [
        pytest.param(at_the_first_line, Terminal.ctrl_c, id="Ctrl-C at the first line"),
        pytest.param(while_the_jvm_starts, Terminal.ctrl_c, id="Ctrl-C while the JVM starts"),
        pytest.param(
            in_the_first_batch,
            Terminal.terminate_all,
            id="SIGTERM to all in the first batch",
            marks=pytest.mark.long,
        ),
        pytest.param(in_the_steady_state, Terminal.ctrl_c, id="Ctrl-C in the steady state"),
        pytest.param(
            in_the_steady_state, Terminal.close, id="the terminal is closed", marks=pytest.mark.long
        ),
    ],
)
def test_it_ends_where_it_hurt(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, moment: Moment, way: Way
) -> None:
    """Moments at which there were tracebacks, wrong exit codes and long waits."""
    checkpoint, topics = tmp_path / "checkpoint", topic_names(unique("ends")[:60])
    with on_terminal(words(broker.bootstrap_servers, checkpoint, topics), tmp_path / "scratch") as terminal:
        terminal.wait_until(lambda: moment(terminal, checkpoint), pause=0.1)
        ended = ends_as_documented(terminal, way)
    print(f"{ended.seconds:.2f} s")  # noqa: T201
    if moment is in_the_steady_state:
        assert is_told_stopped(broker.bootstrap_servers, topics)


def is_told_stopped(server: str, topics: TopicNames) -> bool:
    """Whether the last document of the job says that it was stopped."""
    documents = [
        json.loads(one.value) for one in read_topic(server, topics.job) if one.key == JOB_KEY and one.value
    ]
    return bool(documents[-1]["phase"] == STOPPED)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_thirty_random_moments(tmp_path: Path) -> None:
    """One checkpoint, real groups that come and go, a signal in the first thirty seconds of each of thirty starts.

    In the end the events are those of a replay: a batch that was cut off is repeated with the same events.
    """
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    with besieged(tmp_path, seed, "moments") as (job, _):
        assert job.stop() == 143
        for number in range(MOMENTS):
            end_once(job, tmp_path / f"scratch-{number}", chance.uniform(0, LAST_SECOND), chance)
        job.restart()
        job.wait_caught_up()


def end_once(job: RunningJob, scratch: Path, after_seconds: float, chance: random.Random) -> None:
    """Starts the job on a terminal and ends it after this time, counted from its first line."""
    way = chance.choice([*WAYS])
    with on_terminal(words(job.server, job.checkpoint, job.topics), scratch) as terminal:
        terminal.wait_until(terminal.is_loaded)
        moment = time.monotonic() + after_seconds
        terminal.wait_until(lambda: time.monotonic() >= moment)
        print(f"{getattr(way, '__name__', way)} at {after_seconds:.3f} s", end="", flush=True)  # noqa: T201
        ended = ends_as_documented(terminal, way)
    print(f": {ended.seconds:.2f} s")  # noqa: T201
