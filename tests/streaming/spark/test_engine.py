"""How the query is kept going, given up and stopped; the query is a puppet here."""

from __future__ import annotations

import itertools
import time

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.run.outage import Hindrance
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.spark.faults import Remedy
from support.job.progress import IDENTITY, batch
from support.ordeals.staged_queries import Puppet, Stage, stop_at_the_third_wait

KAFKA = "org.apache.kafka.common.errors"
TIMEOUT = f"{KAFKA}.TimeoutException: Timeout of 60000ms expired"
FAULT = "java.lang.IllegalStateException: something else"
FULL = "java.io.IOException: No space left on device"
TOO_LARGE = f"{KAFKA}.RecordTooLargeException: too large"
#: As the connectors of Spark 4.1 fail behind a batch that they have not planned (SPARK-55271).
UNREPORTED = (
    'java.lang.NullPointerException: Cannot invoke "scala.collection.IterableOps.map(scala.Function1)" because the '
    'return value of "scala.Option.get()" is null\n'
    "\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream$.metrics(KafkaMicroBatchStream.scala:520)"
)
AWAY = Hindrance("Kafka cannot be reached (b:9092)")

CONCURRENT = (
    "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. "
    "Multiple streaming jobs detected for 7."
)
OTHER_RULES = "the settings have changed, continuing with the new ones"
TAKEN_OVER = GroupReplayError("taken over", exit_code=ExitCode.USAGE)


def test_an_outage_is_ridden_out() -> None:
    """Whatever Kafka's clients throw when a cluster is away starts the query again, with growing pauses."""
    stage = Stage(*(Puppet(TIMEOUT) for _ in range(10)), Puppet())
    stage.supervisor.run()
    assert len(stage.begun) == 11
    assert stage.pauses[:8] == [1, 2, 4, 5, 3, 5, 5, 5]
    assert sum(stage.pauses) - stage.pauses.count(0.5) / 2 == 1 + 2 + 4 + 8 + 16 + 32 + 4 * 60
    assert stage.lines[0] == f"Kafka cannot be reached, retrying: {TIMEOUT}"
    assert (stage.report.restarts, stage.report.last_error) == (10, TIMEOUT)


def test_a_batch_that_is_finished_and_not_reported_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """The query is started again at once; nothing is counted, printed or logged as a failure."""
    report = JobReport(IDENTITY)
    numbers = itertools.count()

    def report_one() -> None:
        report.take([batch(next(numbers), {0: 1})])

    queries = (Puppet(UNREPORTED), Puppet(UNREPORTED, work=report_one), Puppet(UNREPORTED, work=report_one))
    stage = Stage(*queries, Puppet(), report=report)
    stage.supervisor.run()
    assert len(stage.begun) == 4
    assert set(stage.pauses) == {0.5}
    assert (report.restarts, report.last_error, report.query.status(0).error) == (0, None, None)
    assert [one.getMessage() for one in caplog.records if one.levelname != "INFO"] == []


def test_a_report_that_fails_again_and_again_is_a_failure() -> None:
    """Without a batch that was reported in between, only the first one is excused."""
    stage = Stage(*(Puppet(UNREPORTED) for _ in range(4)))
    with pytest.raises(GroupReplayError, match="the query failed 3 times in a row"):
        stage.supervisor.run()
    assert (len(stage.begun), stage.report.restarts) == (4, 3)


def test_the_report_knows_whether_a_query_runs() -> None:
    """A failure counts until the next start; one that lasts is a stopped query, with the failure as its reason."""
    now = 0.0
    report = JobReport(IDENTITY, seconds=lambda: now)
    stage = Stage(Puppet(TIMEOUT), Puppet(), report=report)
    seen: list[tuple[bool, str | None]] = []

    def wait(seconds: float) -> bool:
        nonlocal now
        now += 40
        status = report.query.status(0)
        seen.append((status.running, status.error))
        if len(seen) == 2:
            report.take([batch(0, {0: 1})])
        if len(seen) == 3:
            stage.stop.make(15)
        return stage.stop.made

    stage.stop.wait = wait  # type: ignore[method-assign]
    stage.supervisor.run()
    assert seen == [(False, TIMEOUT), (False, TIMEOUT), (True, None)]


def test_a_failure_while_the_cluster_is_away_is_an_outage() -> None:
    """The text need not say it: when the cluster does not answer, it is asked every five seconds until it does."""
    answers: list[Hindrance | None] = [AWAY] * 20 + [None]
    stage = Stage(Puppet(FAULT), Puppet(), hindrance=lambda: answers.pop(0))
    stage.supervisor.run()
    assert len(stage.begun) == 2
    assert answers == []
    assert stage.pauses[:20] == [*[5] * 19, 0.5]
    assert stage.lines[:2] == [
        f"{AWAY.what}, retrying: {FAULT}",
        f"{AWAY.what}, retrying: {FAULT} (for 10 s)",
    ]


@pytest.mark.parametrize("text", [FULL, TOO_LARGE, f"{KAFKA}.NotEnoughReplicasException: no"])
def test_what_passes_is_waited_for_longer_than_three_failures(text: str) -> None:
    """A full disk, a message that is too large and brokers that accept nothing never end the job."""
    stage = Stage(*(Puppet(text) for _ in range(10)), Puppet())
    stage.supervisor.run()
    assert (len(stage.begun), stage.report.restarts, stage.report.last_error) == (11, 10, text)


def test_the_line_says_what_is_waited_for() -> None:
    """The reason comes before the JVM's text."""
    stage = Stage(Puppet(FULL), Puppet())
    stage.supervisor.run()
    assert stage.lines[0] == f"the checkpoint, or the disk of Spark's files, cannot be used, retrying: {FULL}"


def test_a_repaired_failure_is_tried_again_at_once() -> None:
    """Smaller messages, or a topic that was created again: there is nothing to wait for."""
    asked: list[Remedy] = []

    def repair(helps: Remedy) -> str:
        asked.append(helps)
        return "smaller from now on"

    stage = Stage(Puppet(TOO_LARGE), Puppet(FAULT), Puppet(), repair=repair)
    stage.supervisor.run()
    assert asked == [Remedy.SMALLER, Remedy.RETRY]
    assert stage.lines[:2] == [f"smaller from now on, retrying: {one}" for one in (TOO_LARGE, FAULT)]
    assert set(stage.pauses) == {0.5}


def test_what_cannot_be_repaired_now_is_waited_for() -> None:
    """A topic that is missing, and that the login may not create: somebody else may."""

    def repair(_: Remedy) -> str | None:
        raise GroupReplayError("output topics are missing and cannot be created")

    stage = Stage(*(Puppet(FAULT) for _ in range(5)), Puppet(), repair=repair)
    stage.supervisor.run()
    assert len(stage.begun) == 6
    assert stage.lines[0] == "output topics are missing and cannot be created, retrying"


def test_nothing_is_repaired_while_the_cluster_is_away() -> None:
    """The question would only take its time."""
    answers: list[Hindrance | None] = [AWAY, AWAY, None]

    def repair(_: Remedy) -> str | None:
        raise AssertionError

    stage = Stage(Puppet(TOO_LARGE), Puppet(), hindrance=lambda: answers.pop(0), repair=repair)
    stage.supervisor.run()
    assert len(stage.begun) == 2


def test_a_query_that_cannot_be_started_is_tried_again() -> None:
    """The cluster may go away between the decision to start and the start."""
    stage = Stage(Puppet())
    begin, failures = stage.supervisor.begin, [UnreachableError("cannot reach the cluster")]

    def begin_later() -> Puppet:
        if failures:
            raise failures.pop()
        return begin()

    stage.supervisor.begin = begin_later
    stage.supervisor.run()
    assert (len(stage.begun), stage.report.restarts) == (1, 1)


def test_a_stop_ends_a_wait_at_once() -> None:
    """Also while nothing answers: the outage may last for days."""
    stage = Stage(Puppet(FAULT), Puppet(), hindrance=lambda: AWAY)
    waits = itertools.count()

    def wait(_: float) -> bool:
        if next(waits) == 3:
            stage.stop.make(15)
        return stage.stop.made

    stage.stop.wait = wait  # type: ignore[method-assign]
    stage.supervisor.run()
    assert (len(stage.begun), next(waits), stage.stop.exit_code) == (1, 4, 143)


def test_a_batch_that_takes_long_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's clients wait for minutes for a deleted topic: it is created again while the query waits for it."""
    monkeypatch.setattr("groupreplay.streaming.spark.engine._STUCK_SECONDS", 0.0)
    looks = itertools.count(1)
    leaderless = Hindrance("no broker leads t-0", is_sure=False)

    def repair(_: Remedy) -> str | None:
        if next(looks) == 3:
            stage.stop.make(15)
            return "created again: t"
        return None

    stage = Stage(Puppet(), Puppet(), hindrance=lambda: leaderless, repair=repair)
    stage.supervisor.run()
    assert stage.lines == ["no broker leads t-0", "created again: t", "quiet"]
    assert stage.report.restarts == 0


def test_a_batch_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cancelled, and the query begins again, which is no failure; one that only takes long goes on."""
    monkeypatch.setattr("groupreplay.streaming.spark.engine._STUCK_SECONDS", 0.0)
    answers = [None, None, "the limits have fallen"]
    first = Puppet(busy=True)
    stage = Stage(first, Puppet(), hopeless=lambda: answers.pop(0) if answers else None)
    stage.supervisor.run()
    assert (first.stopped, len(stage.begun), stage.report.restarts, answers) == (True, 2, 0, [])
    assert stage.lines == ["the limits have fallen, the query is started again", "quiet"]


def test_only_a_batch_that_takes_long_may_be_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as batches finish nobody asks."""
    monkeypatch.setattr("groupreplay.streaming.spark.engine._TOPICS_SECONDS", 0.0)

    def hopeless() -> str | None:
        raise AssertionError

    stage = Stage(Puppet(), Puppet(), hopeless=hopeless)
    looks = itertools.count(1)
    stage.supervisor.repair = lambda _: stage.stop.make(15) if next(looks) == 3 else None
    stage.supervisor.run()
    assert len(stage.begun) == 1


def test_topics_are_looked_for_while_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that nothing is written to delays no batch, and readers miss it; clusters are not asked beyond that."""
    monkeypatch.setattr("groupreplay.streaming.spark.engine._TOPICS_SECONDS", 0.0)
    looks = itertools.count(1)

    def hindrance() -> Hindrance | None:
        raise AssertionError

    def repair(helps: Remedy) -> str | None:
        assert helps is Remedy.TOPIC
        if next(looks) == 2:
            stage.stop.make(15)
            raise GroupReplayError("may not create it")
        return "created again: t"

    stage = Stage(Puppet(), Puppet(), hindrance=hindrance, repair=repair)
    stage.supervisor.run()
    assert stage.lines == ["created again: t", "quiet"]


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


def test_a_log_that_was_cut_ends_a_query_that_runs() -> None:
    """It may never fail: the log has grown again, and every offset is there."""
    query = Puppet()
    stage = Stage(query, Puppet(), cut=lambda: GroupReplayError("cut"))
    with pytest.raises(GroupReplayError, match="cut"):
        stage.supervisor.run()
    assert (len(stage.begun), query.stopped) == (1, True)


@pytest.mark.parametrize("busy", [False, True])
def test_a_run_that_is_replaced_ends(monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    """The query is stopped before the error is raised: nothing is written beside the new run."""
    monkeypatch.setattr("groupreplay.streaming.spark.engine._GRACE_SECONDS", 0.1)
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

    monkeypatch.setattr("groupreplay.streaming.spark.engine._CLAIM_SECONDS", 0.0)
    alone = Stage(*(Puppet(CONCURRENT) for _ in range(3)))
    with pytest.raises(GroupReplayError, match="another query writes to the same checkpoint") as caught:
        alone.supervisor.run()
    assert (caught.value.exit_code, caught.value.where) == (ExitCode.USAGE, "/checkpoint")


def test_failures_count_anew_after_a_finished_batch() -> None:
    """Three failures in a year are no reason to give up."""
    report, numbers = JobReport(IDENTITY), itertools.count()

    def finish_a_batch() -> None:
        report.take([batch(next(numbers), {0: 1})])

    stage = Stage(*(Puppet(FAULT, work=finish_a_batch) for _ in range(6)), Puppet(), report=report)
    stage.supervisor.run()
    assert len(stage.begun) == 7


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
    assert time.monotonic() - begin >= 1


def test_other_rules_begin_the_query_again() -> None:
    """When its batch is done, however long that takes; it is no failure, and there is no pause after it."""
    polls = itertools.count()
    first = Puppet(busy=True, work=lambda: first.status.update(isTriggerActive=next(polls) < 400))
    renewals = [OTHER_RULES, None]
    stage = Stage(first, Puppet(), renew=lambda: renewals.pop(0))
    stage.supervisor.run()
    assert [query.stopped for query in stage.begun] == [True, True]
    assert next(polls) > 400
    assert stage.lines == [OTHER_RULES, "quiet"]
    assert (stage.report.restarts, stage.report.last_error, set(stage.pauses)) == (0, None, {0.5, 0.05})


def test_batches_without_a_pause_do_not_hold_up_other_rules() -> None:
    """A batch that is longer than the trigger is followed at once: the query never seems to be idle."""
    report, polls = JobReport(IDENTITY), itertools.count()

    def work() -> None:
        if next(polls) == 50:
            report.take([batch(0, {0: 1})])

    renewals = [OTHER_RULES, None]
    stage = Stage(Puppet(busy=True, work=work), Puppet(), renew=lambda: renewals.pop(0), report=report)
    stage.supervisor.run()
    assert [query.stopped for query in stage.begun] == [True, True]
    assert next(polls) == 51


def test_a_stop_does_not_wait_for_other_rules() -> None:
    """Who asks for an end while a long batch holds up the new rules gets it as fast as ever."""
    query = Puppet(busy=True, work=lambda: query.status.update(isTriggerActive=not stage.stop.made))
    stage = Stage(query, Puppet(), renew=lambda: OTHER_RULES)
    stop_at_the_third_wait(stage)
    stage.supervisor.run()
    assert [one.stopped for one in stage.begun] == [True]
    assert stage.lines[-1] == "quiet"
