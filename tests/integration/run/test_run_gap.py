"""A log that loses records the job has not read: said once, and the state is built anew from what is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, read_topic, remove_log, running_job, topic_names
from support.job.replays import named
from support.kafka.clients import commit_once, make_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


def events(job: RunningJob, name: str) -> list[dict[str, Any]]:
    """The events of one kind."""
    return named(list(job.events().values()), name)


def test_records_that_are_gone_unread(tmp_path: Path, unique: Callable[[str], str]) -> None:
    """One event with the range; what happens from then on is said, also after another start."""
    often = {"log.retention.check.interval.ms": 500}
    with EmbeddedBroker(offsets_partitions=4, overrides=often) as broker:
        server, topics = broker.bootstrap_servers, topic_names(unique("gap"))
        make_topics(server, {"orders": 1})
        commit_once(server, "old")
        with running_job(server, tmp_path / "job", topics, "--no-probe") as job:
            job.wait_caught_up()
            assert job.stop() == 143
            read = Connection(Cluster(bootstrap_servers=server)).end_offsets(OFFSETS_TOPIC, 4)
            commit_once(server, "unseen")
            ends = remove_log(server, 4)
            job.restart()
            job.wait_until(lambda: events(job, "job.gap"))
            job.wait_caught_up()
            commit_once(server, "new")
            job.wait_until(lambda: events(job, "group.created"))
            assert job.stop() == 143
            job.restart()
            job.wait_caught_up()
            commit_once(server, "newer")
            job.wait_until(lambda: len(events(job, "group.created")) == 2)
            assert job.stop() == 143
            (gap,) = events(job, "job.gap")
            created = events(job, "group.created")
        (lost,) = (number for number in ends if ends[number] != read[number])
        assert gap["data"]["reason"] == "removed"
        assert gap["severitytext"] == "ERROR"
        assert gap["data"]["partitions"] == [
            {"partition": lost, "read_to": read[lost], "log_start": ends[lost], "log_end": ends[lost]}
        ]
        assert [one["data"]["group_id"] for one in created] == ["new", "newer"]
        era = Connection(Cluster(bootstrap_servers=server)).identify(OFFSETS_TOPIC).era
        assert all(f"-{era}.1-" in one["id"] for one in created)
        keys = [one.key for one in read_topic(server, topics.events) if one.key == b"\0job"]
        assert len(keys) == 1
