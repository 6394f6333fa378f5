"""Another number of shuffle partitions: a job with a new checkpoint goes on where the job with the old one ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.job.jobs import JobTopics, topic_names
from support.job.own_process import OwnJob, run_until
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import make_topics
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare
from support.remedies import read_remedy

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.usefixtures("one_session")]


def state_partitions(checkpoint: Path) -> int:
    """How many partitions Spark has made of the groups' state."""
    return sum(one.name.isdigit() for one in (checkpoint / "state" / "0").iterdir())


def test_another_number_of_shuffle_partitions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its state is built from the log; no event is lost, and none has another id than in a replay.

    The old checkpoint keeps its number, and the job says what to do.
    """
    topics = topic_names("partitions")
    with blank_broker(PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})

        def run(folder: str, partitions: int, wait: Callable[[JobTopics], None]) -> None:
            def waits(done: threading.Event) -> None:
                wait(OwnJob(server, topics, done))

            settings = {"standby": True, "member_events": True, "probe": True}
            run_until(server, tmp_path / folder, topics, waits, shuffle_partitions=partitions, **settings)

        with ExitStack() as churn:

            def first(job: JobTopics) -> None:
                job.wait_caught_up()
                churn.enter_context(churning(server, seed=38))
                job.wait_until(lambda: len(job.events()) > 20)

            run("two", 2, first)
            assert "--shuffle-partitions" not in caplog.text
            run("two", 3, JobTopics.wait_caught_up)
            warned = "\n".join(caplog.messages)
            assert "keeps 2 partitions of the state, --shuffle-partitions 3 is" in warned
            read_remedy("streaming.spark.job: a job with --standby on a new --checkpoint", warned)
            told = len(JobTopics(server, topics).events())
            # The end of the churn is read by no job yet.

        def last(job: JobTopics) -> None:
            with churning(server, seed=39):
                job.wait_until(lambda: len(job.events()) > told + 20)
            compare(job)

        run("three", 3, last)
    assert (state_partitions(tmp_path / "two"), state_partitions(tmp_path / "three")) == (2, 3)
