"""Another number of shuffle partitions: a job with a new checkpoint goes on where the job with the old one ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import running_job, topic_names
from support.kafka.clients import make_topics
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare
from support.remedies import read_remedy

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1_800)]


def state_partitions(checkpoint: Path) -> int:
    """How many partitions Spark has made of the groups' state."""
    return sum(one.name.isdigit() for one in (checkpoint / "state" / "0").iterdir())


def test_another_number_of_shuffle_partitions(tmp_path: Path) -> None:
    """Its state is built from the log; no event is lost, and none has another id than in a replay.

    The old checkpoint keeps its number, and the job says what to do.
    """
    topics, flags = topic_names("partitions"), ("--standby", "--member-events")
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        with running_job(server, tmp_path / "two", topics, *flags) as first:
            first.wait_caught_up()
            with churning(server, seed=38):
                first.wait_until(lambda: len(first.events()) > 20)
                first.stop()
                with running_job(
                    server, tmp_path / "two", topics, *flags, "--shuffle-partitions", "3"
                ) as again:
                    again.wait_caught_up()
                    said = again.log.read_text()
                    assert "keeps 2 partitions of the state, --shuffle-partitions 3 is" in said
                    read_remedy("streaming.spark.job: a job with --standby on a new --checkpoint", said)
                    again.stop()
                told = len(again.events())
            # The end of the churn is read by no job yet.
        with running_job(server, tmp_path / "three", topics, *flags, "--shuffle-partitions", "3") as job:
            with churning(server, seed=39):
                job.wait_until(lambda: len(job.events()) > told + 20)
            compare(job)
            assert job.stop() == 143
    assert (state_partitions(tmp_path / "two"), state_partitions(tmp_path / "three")) == (2, 3)
