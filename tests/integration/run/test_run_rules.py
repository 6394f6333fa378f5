"""The running job and its file of rules."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, running_job, topic_names
from support.job.replays import named
from support.kafka.clients import commit_once, make_topics

pytestmark = [pytest.mark.line, pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


def labels(job: RunningJob) -> dict[str, dict[str, str]]:
    """The labels of each group that was made."""
    created = named(list(job.events().values()), "group.created")
    return {event["data"]["group_id"]: event["data"]["labels"] for event in created}


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
        make_topics(server, {"orders": 1})
        commit_once(server, "early")
        flags = ("--rules", str(path), "--no-probe")
        with running_job(server, tmp_path / "job", topic_names(unique("rules")), *flags) as job:
            job.wait_caught_up()
            commit_once(server, "made-1")
            job.wait_until(lambda: "made-1" in labels(job))
            rules(path, 2, "b")
            job.wait_until(lambda: job.status()["rules"] == {"changes": 1, "error": None})
            commit_once(server, "made-2")
            job.wait_until(lambda: "made-2" in labels(job))
            path.write_text("[rebalance.stucked]\n")
            job.wait_until(lambda: job.status()["rules"]["error"])
            commit_once(server, "made-3")
            job.wait_until(lambda: "made-3" in labels(job))
            assert labels(job) == {"made-1": {"team": "a"}, "made-2": {"team": "b"}, "made-3": {"team": "b"}}
            document = job.status()
            assert (document["restarts"], document["last_error"]) == (0, None)
            assert "unknown setting" in document["rules"]["error"]
            assert job.stop() == 143
            log = job.log.read_text()
    assert "made-*: labels.team: a -> b" in log
    assert "Traceback" not in log
    # Spark may write a stack trace of its own when a query is ended within a batch that has just begun.
    assert "the query failed" not in log
