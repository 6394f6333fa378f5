"""Several jobs on one set of topics: exactly one goes on, and each of the others says which one that is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import PATIENCE_SECONDS, RunningJob, running_job, topic_names
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]


def exit_code(job: RunningJob) -> int | None:
    """The exit code of a job that ends by itself."""
    wait_until(lambda: job.process.exit_code is not None, PATIENCE_SECONDS, pause=0.5)
    return job.process.exit_code


def said(job: RunningJob) -> str:
    """What the job has printed, on one line, since messages are wrapped."""
    return " ".join(job.log.read_text().split())


def test_one_job_a_set_of_topics(tmp_path: Path, unique: Callable[[str], str]) -> None:
    """A second job is refused, a third takes over; a killed one is continued at once, and replaced after a while.

    One story, because each chapter needs a job that runs, has been killed, or has stopped.
    """
    topics = topic_names(unique("owner"))
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 1})
        commit_once(server, "g")

        def job(name: str, *flags: str) -> RunningJob:
            return stack.enter_context(running_job(server, tmp_path / name, topics, "--no-probe", *flags))

        with ExitStack() as stack:
            first = job("first")
            first.wait_caught_up()
            owner = first.status()

            # A second job on a checkpoint of its own does not start, and leaves no trace there.
            second = job("second")
            assert exit_code(second) == 2
            assert (
                f"another job writes to these topics: run {owner['run_id']} of job {owner['job_id']}"
                in said(second)
            )
            assert f"host {owner['host']}, checkpoint file:{tmp_path}/first" in said(second)
            assert "--take-over" in said(second)
            assert not (tmp_path / "second" / "groupreplay.json").exists()
            assert first.process.exit_code is None

            # A third one takes over: the first ends and names it, and nothing of it is written behind.
            third = job("third", "--take-over")
            assert exit_code(first) == 2
            third.wait_until(lambda: third.status()["run_id"] != owner["run_id"])
            assert f"another job has taken over these topics: run {third.status()['run_id']}" in said(first)
            third.wait_caught_up()
            assert third.documents().keys() == {"g"}

            # Killed and started again on its checkpoint: the lock proves that the former run is dead.
            third.kill()
            third.restart()
            third.wait_caught_up()
            assert "waiting up to" not in said(third)

            # Killed, and another checkpoint: three heartbeats are waited for.
            third.kill()
            fourth = job("fourth")
            fourth.wait_caught_up()
            assert "waiting up to 10 s for a sign of run" in said(fourth)

            # A clean stop says so: the next one does not wait.
            assert fourth.stop() == 143
            assert fourth.status()["phase"] == "stopped"
            fifth = job("fifth")
            fifth.wait_caught_up()
            assert "waiting up to" not in said(fifth)
            assert fifth.stop() == 143
