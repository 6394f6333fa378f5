"""``run --once`` under ``spark-submit`` on a real cluster, as a scheduler starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import PATIENCE_SECONDS, read_events, topic_names
from support.job.replays import event_name
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until
from support.spark_cluster.standalone import StandaloneCluster
from support.spark_cluster.submitted_job import submitted_job

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]


def test_each_submission_ends_by_itself(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """With 0, which spark-submit passes on; the second one reports what has happened since the first one."""
    topics, place = topic_names("once"), str(tmp_path / "checkpoint")
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 1})
        for turn, group in (("first", "old"), ("second", "new")):
            commit_once(server, group)
            with submitted_job(cluster, server, tmp_path / turn, topics, "--once", location=place) as job:
                wait_until(lambda job=job: job.process.exit_code is not None, 2 * PATIENCE_SECONDS, pause=1.0)
                assert job.process.exit_code == 0, job.process.tail(60)
                assert "single run: everything up to" in job.log.read_text()
                status = job.status()
                assert (status["phase"], status["once"], status["restarts"]) == ("stopped", True, 0)
        events = read_events(server, topics)
        assert {(event_name(one), one["data"]["group_id"]) for one in events.values()} == {
            ("group.created", "new")
        }
