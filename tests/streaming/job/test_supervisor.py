"""How the query is kept going, given up and stopped; the query is a puppet here."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.signals import StopRequest
from groupreplay.streaming.job.job_status import JobReport
from groupreplay.streaming.job.supervisor import Supervisor, explained, failure_text, known_fault
from support.job.jobs import last_batch
from support.job.progress import IDENTITY, batch
from support.job.spark_sessions import small_session
from support.kafka.waiting import wait_until

KAFKA = "org.apache.kafka.common.errors"
TIMEOUT = f"{KAFKA}.TimeoutException: Timeout of 60000ms expired"
FAULT = "java.lang.IllegalStateException: something else"

CONCURRENT = (
    "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. "
    "Multiple streaming jobs detected for 7."
)
TAKEN_OVER = GroupReplayError("taken over", exit_code=ExitCode.USAGE)


class QueryError(Exception):
    """What pyspark raises for a query: a text, and the JVM's stack trace beside it."""

    def __init__(self, text: str) -> None:
        super().__init__("the query terminated with an exception")
        self._stackTrace = f"org.apache.spark.SparkException: job aborted\n\tat x\nCaused by: {text}\n\tat y"


class Puppet:
    """A query that works, then fails with a text, or runs until it is stopped."""

    def __init__(
        self, failure: str | None = None, *, busy: bool = False, work: Callable[[], None] = lambda: None
    ) -> None:
        self.status = {"isTriggerActive": busy}
        self.stopped = False
        self._failure = failure
        self._work = work

    @property
    def isActive(self) -> bool:
        self._work()
        return self._failure is None and not self.stopped

    def exception(self) -> Exception | None:
        return None if self._failure is None else QueryError(self._failure)

    def stop(self) -> None:
        self.stopped = True


class Stage:
    """A supervisor whose queries are given one after the other; the pauses take no time."""

    def __init__(
        self,
        *queries: Puppet,
        reachable: Callable[[], bool] = lambda: True,
        renew: Callable[[], bool] = lambda: False,
        lost: Callable[[], GroupReplayError | None] = lambda: None,
        replaced: Callable[[], GroupReplayError | None] = lambda: None,
        report: JobReport | None = None,
    ) -> None:
        self.stop = StopRequest()
        self.report = report or JobReport(IDENTITY)
        self.lines: list[str] = []
        self.pauses: list[float] = []
        self.begun: list[Puppet] = []
        self._queries = list(queries)
        self.supervisor = Supervisor(
            begin=self._begin,
            checkpoint="/checkpoint",
            renew=renew,
            report=self.report,
            stop=self.stop,
            reachable=reachable,
            lost=lost,
            replaced=replaced,
            quieten=lambda: self.lines.append("quiet"),
            show=self.lines.append,
            clock=lambda: 0,
        )
        self.stop.wait = self._wait  # type: ignore[method-assign]

    def _begin(self) -> Puppet:
        query = self._queries.pop(0)
        self.begun.append(query)
        return query

    def _wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        if self.begun[-1].isActive and not self._queries:
            self.stop.make(15)
        return self.stop.made


def test_an_outage_is_ridden_out() -> None:
    """Whatever Kafka's clients throw when a cluster is away starts the query again, with growing pauses."""
    stage = Stage(*(Puppet(TIMEOUT) for _ in range(10)), Puppet())
    stage.supervisor.run()
    assert len(stage.begun) == 11
    assert stage.pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert stage.lines[0] == f"Kafka cannot be reached, retrying: {TIMEOUT}"
    assert (stage.report.restarts, stage.report.last_error) == (10, TIMEOUT)


def test_a_failure_while_the_cluster_is_away_is_an_outage() -> None:
    """The text need not say it: when the cluster does not answer, it is asked every five seconds until it does."""
    answers = [False] * 20 + [True]
    stage = Stage(Puppet(FAULT), Puppet(), reachable=lambda: answers.pop(0))
    stage.supervisor.run()
    assert len(stage.begun) == 2
    assert answers == []
    assert stage.pauses[:21] == [1, *[5] * 19, 0.5]


def test_another_failure_is_tried_three_times() -> None:
    """A batch that always fails ends the job with its reason instead of failing for ever in silence."""
    stage = Stage(*(Puppet(FAULT) for _ in range(5)))
    with pytest.raises(GroupReplayError, match=r"failed 3 times in a row: java.lang.IllegalStateException"):
        stage.supervisor.run()
    assert len(stage.begun) == 3


def test_a_log_that_is_lost_ends_it_at_once() -> None:
    """Whatever the query's error is: a retry restores nothing."""
    stage = Stage(Puppet(FAULT), lost=lambda: GroupReplayError("gone"))
    with pytest.raises(GroupReplayError, match="gone"):
        stage.supervisor.run()
    assert len(stage.begun) == 1


@pytest.mark.parametrize("busy", [False, True])
def test_a_run_that_is_replaced_ends(monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    """The query is stopped before the error is raised: nothing is written beside the new run."""
    monkeypatch.setattr("groupreplay.streaming.job.supervisor._GRACE_SECONDS", 0.1)
    query = Puppet(busy=busy)
    stage = Stage(query, Puppet(), replaced=lambda: TAKEN_OVER if stage.begun else None)
    with pytest.raises(GroupReplayError, match="taken over"):
        stage.supervisor.run()
    assert (query.stopped, len(stage.begun), stage.report.restarts) == (True, 1, 0)


def test_a_run_that_was_replaced_starts_no_query() -> None:
    """Neither the first one nor, after an outage, another one."""
    stage = Stage(Puppet(), replaced=lambda: TAKEN_OVER)
    with pytest.raises(GroupReplayError, match="taken over"):
        stage.supervisor.run()
    assert stage.begun == []
    later = Stage(Puppet(TIMEOUT), Puppet(), replaced=lambda: TAKEN_OVER if later.pauses else None)
    with pytest.raises(GroupReplayError, match="taken over"):
        later.supervisor.run()
    assert len(later.begun) == 1


def test_a_batch_that_another_query_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two queries on one checkpoint, on a file system without locks: the loser waits for the claim of the other run."""
    answers = [None, None, TAKEN_OVER]
    stage = Stage(Puppet(CONCURRENT), Puppet(), replaced=lambda: answers.pop(0))
    with pytest.raises(GroupReplayError, match="taken over"):
        stage.supervisor.run()
    assert (len(stage.begun), answers) == (1, [])

    monkeypatch.setattr("groupreplay.streaming.job.supervisor._CLAIM_SECONDS", 0.0)
    alone = Stage(*(Puppet(CONCURRENT) for _ in range(3)))
    with pytest.raises(GroupReplayError, match="another query writes to the same checkpoint") as caught:
        alone.supervisor.run()
    assert (caught.value.exit_code, caught.value.where) == (ExitCode.USAGE, "/checkpoint")


@pytest.mark.spark
def test_spark_refuses_a_batch_that_another_query_has_begun(tmp_path: Path) -> None:
    """On any file system, and in the words that the supervisor knows."""
    rows = small_session().readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: last_batch(tmp_path) >= 0)
        other = tmp_path / "offsets" / str(last_batch(tmp_path) + 5)
        other.write_bytes((tmp_path / "offsets" / "0").read_bytes())
        wait_until(lambda: not query.isActive)
        text = failure_text(query.exception())
        assert "CONCURRENT_STREAM_LOG_UPDATE" in text
        fault = known_fault(text, "/checkpoint")
        assert fault is not None
        assert fault.what.startswith("another query writes to the same checkpoint")
    finally:
        query.stop()


def test_failures_count_anew_after_a_finished_batch() -> None:
    """Three failures in a year are no reason to give up."""
    report, numbers = JobReport(IDENTITY), itertools.count()

    def finish_a_batch() -> None:
        report.take([batch(next(numbers), {0: 1})])

    stage = Stage(*(Puppet(FAULT, work=finish_a_batch) for _ in range(6)), Puppet(), report=report)
    stage.supervisor.run()
    assert len(stage.begun) == 7


@pytest.mark.parametrize(
    ("text", "what", "where", "exit_code"),
    [
        (f"{KAFKA}.TopicAuthorizationException: no", "not authorised", None, ExitCode.AUTHORISATION),
        (f"{KAFKA}.SaslAuthenticationException: no", "the broker refused", None, ExitCode.CONNECTION),
        (f"{KAFKA}.InvalidTimestampException: no", "the clock of this machine", None, ExitCode.CONNECTION),
        ("Some data may have been lost because", "a part of the log was deleted", None, ExitCode.DATA),
        ("storage.SnapshotError: version 9", "another release", "/checkpoint", ExitCode.DATA),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error", "is damaged", "/checkpoint", ExitCode.DATA),
        ("whatever", "failed 3 times in a row", None, ExitCode.UNEXPECTED),
    ],
)
def test_what_cannot_get_better_is_explained(
    text: str, what: str, where: str | None, exit_code: ExitCode
) -> None:
    """The last failure becomes an error with a remedy and an exit code for scripts."""
    error = explained(text, "/checkpoint")
    assert what in error.what
    assert error.where == where
    assert error.fix
    assert error.exit_code == exit_code


def test_a_stop_waits_for_the_end_of_the_batch() -> None:
    """Between two batches the query ends at once, and the JVM is silenced before."""
    stage = Stage(Puppet())
    stage.supervisor.run()
    assert stage.begun[0].stopped
    assert stage.lines == ["quiet"]
    assert stage.stop.exit_code == 143


def test_a_stop_does_not_wait_for_a_long_batch() -> None:
    """A batch that does not end within the grace is cancelled: it is repeated at the next start."""
    stage = Stage(Puppet(busy=True))
    begin = time.monotonic()
    stage.supervisor.run()
    assert stage.begun[0].stopped
    assert time.monotonic() - begin >= 5


def test_other_rules_begin_the_query_again() -> None:
    """When its batch is done, however long that takes; it is no failure, and there is no pause after it."""
    polls = itertools.count()
    first = Puppet(busy=True, work=lambda: first.status.update(isTriggerActive=next(polls) < 400))
    renewals = [True, False]
    stage = Stage(first, Puppet(), renew=lambda: renewals.pop(0))
    stage.supervisor.run()
    assert [query.stopped for query in stage.begun] == [True, True]
    assert next(polls) > 400
    assert stage.lines == ["the settings have changed, continuing with the new ones", "quiet"]
    assert (stage.report.restarts, stage.report.last_error, set(stage.pauses)) == (0, None, {0.5, 0.05})


def test_a_stop_does_not_wait_for_other_rules() -> None:
    """Who asks for an end while a long batch holds up the new rules gets it as fast as ever."""
    query = Puppet(busy=True, work=lambda: query.status.update(isTriggerActive=not stage.stop.made))
    stage = Stage(query, Puppet(), renew=lambda: True)
    waits = iter([False, False, True])

    def wait(_: float) -> bool:
        if next(waits):
            stage.stop.make(15)
        return stage.stop.made

    stage.stop.wait = wait  # type: ignore[method-assign]
    stage.supervisor.run()
    assert [one.stopped for one in stage.begun] == [True]
    assert stage.lines[-1] == "quiet"


def test_secrets_of_a_failure_are_not_shown() -> None:
    """The JVM may quote a client's settings."""
    text = failure_text(QueryError('bad: sasl.jaas.config = x required password="hunter2";'))
    assert "hunter2" not in text
