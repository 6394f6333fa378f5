"""The running job and its file of rules."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, read_topic, running_job, topic_names

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def commit(server: str, group: str) -> None:
    """Makes a group by committing an offset, as a tool does."""
    consumer = Consumer({"bootstrap.servers": server, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    finally:
        consumer.close()


def job_document(job: RunningJob) -> dict[str, Any]:
    """What the job says of itself."""
    documents = [json.loads(one.value or b"") for one in read_topic(job.server, job.topics.job)]
    return next(one for one in reversed(documents) if "rules" in one)


def labels(job: RunningJob) -> dict[str, dict[str, str]]:
    """The labels of each group that was made."""
    return {
        event["data"]["group_id"]: event["data"]["labels"]
        for event in job.events().values()
        if event["type"] == "groupreplay.group.created.v1"
    }


def rules(path: Path, second: int, team: str) -> None:
    """A file that gives every group a team."""
    path.write_text(f"[[group]]\nmatch = 'made-*'\nlabels = {{ team = '{team}' }}\n")
    os.utime(path, (second, second))


def test_changed_rules_hold_without_a_restart(tmp_path: Path, unique: Callable[[str], str]) -> None:
    """The query begins again with them and its state, a wrong file changes nothing, and nothing is a failure."""
    path = tmp_path / "rules.toml"
    rules(path, 1, "a")
    with EmbeddedBroker(offsets_partitions=4) as broker:
        server = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": server})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
        commit(server, "early")
        flags = ("--rules", str(path), "--no-probe")
        with running_job(server, tmp_path / "job", topic_names(unique("rules")), *flags) as job:
            job.wait_until(job.caught_up)
            commit(server, "made-1")
            job.wait_until(lambda: "made-1" in labels(job))
            rules(path, 2, "b")
            job.wait_until(lambda: job_document(job)["rules"] == {"changes": 1, "error": None})
            commit(server, "made-2")
            job.wait_until(lambda: "made-2" in labels(job))
            path.write_text("[rebalance.stucked]\n")
            job.wait_until(lambda: job_document(job)["rules"]["error"])
            commit(server, "made-3")
            job.wait_until(lambda: "made-3" in labels(job))
            assert labels(job) == {
                "made-1": {"team": "a"},
                "made-2": {"team": "b"},
                "made-3": {"team": "b"},
            }
            document = job_document(job)
            assert (document["restarts"], document["last_error"]) == (0, None)
            assert "unknown condition" in document["rules"]["error"]
            assert job.stop() == 143
            log = job.log.read_text()
    assert "made-*: labels.team: a -> b" in log
    assert "Traceback" not in log
    assert "Exception" not in log
