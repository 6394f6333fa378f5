"""The job in the process of the test, with the one small session of Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.config.settings import Cluster, RunSettings, TopicNames
from groupreplay.streaming.spark import engine
from groupreplay.streaming.spark import job as run_module
from support.job.jobs import JobTopics
from support.job.spark_sessions import small_session
from support.kafka.waiting import in_background


def keep_session(patch: pytest.MonkeyPatch) -> None:
    """Makes the job use the session of the other tests, whose JVM does not end with the job.

    Of the settings of its own session it has the number of shuffle partitions.
    """

    @contextmanager
    def kept(settings: RunSettings) -> Iterator[Any]:
        session = small_session()
        session.conf.set("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        yield session

    patch.setattr(run_module, "_session", kept)
    patch.setattr(engine, "quiet", lambda _: None)


def run_here(server: str, checkpoint: Path, topics: TopicNames, **settings: Any) -> int:
    """Runs the job without a prober until it ends; its exit code."""
    defaults = {"trigger_seconds": 0.5, "shuffle_partitions": 1, "probe": False}
    source = Cluster(bootstrap_servers=server)
    return run_module.run(
        RunSettings(source=source, checkpoint=str(checkpoint), topics=topics, **{**defaults, **settings})
    )


class OwnJob(JobTopics):
    """The job that ``run_until`` runs, as the function that waits sees it."""

    def __init__(self, server: str, topics: TopicNames, done: threading.Event) -> None:
        super().__init__(server, topics)
        self._done = done

    def require_running(self) -> None:
        """Raises AssertionError when the job has ended."""
        assert not self._done.is_set(), "the job has ended"


def run_until(
    server: str,
    checkpoint: Path,
    topics: TopicNames,
    wait: Callable[[threading.Event], None],
    **settings: Any,
) -> None:
    """Runs the job until ``wait`` returns, which must return at once when its event is set.

    Raises:
        GroupReplayError: what the job ended with.
    """

    def wait_and_stop(done: threading.Event) -> None:
        try:
            wait(done)
        finally:
            if not done.is_set():
                # To the main thread, which has the handler and waits: another one would not wake it.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    with in_background(wait_and_stop):
        stopped = run_here(server, checkpoint, topics, **settings)
    assert stopped == 128 + signal.SIGTERM
