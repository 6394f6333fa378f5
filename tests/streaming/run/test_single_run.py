"""When a single run knows that it has done its work; the batches are made by hand."""

from __future__ import annotations

import itertools

from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.single_run import PROBER_SECONDS, SingleRun
from support.job.progress import batch
from support.ordeals.staged_queries import Puppet, Stage, stop_at_the_third_wait

#: The start of the run, in milliseconds since 1970.
START = 1_800_000_000_000
SETTLE_SECONDS = 10.0
BATCH_MS = 500


class Story:
    """A single run whose batches take half a second each; times count from its start."""

    def __init__(self, *, is_probing: bool = False, settle_seconds: float = 0.0) -> None:
        self.now_ms = START
        self.is_synced = True
        self.number = 0
        self.run = SingleRun(
            clock=lambda: self.now_ms,
            settle_seconds=settle_seconds,
            is_probing=is_probing,
            is_synced=lambda: self.is_synced,
            machine_ms=lambda: self.now_ms,
            seconds=lambda: self.now_ms / 1_000,
        )
        self.run.query_started()

    def batch(self, *, watermark: int, read: int | None = None, after: int = 1_000) -> bool:
        """A batch that begins so long after the one before; whether the run has then ended."""
        begin_ms, self.number = self.now_ms + after, self.number + 1
        self.now_ms = begin_ms + BATCH_MS
        self.run.take(self.finished(begin_ms, watermark, read))
        return self.run.has_ended()

    def finished(self, begin_ms: int, watermark: int, read: int | None) -> Batch:
        """The batch as its engine reports it."""
        read_ms = -1 if read is None else START + read
        return batch(
            *(self.number, {0: 1}),
            started_ms=begin_ms,
            seconds=BATCH_MS / 1_000,
            evaluated_to_ms=START + watermark,
            caught_up_ms=read_ms,
        )


def test_the_batch_after_the_one_that_reads_the_heartbeat() -> None:
    """The log is read; then the heartbeat is; only with the watermark of that one deadlines are evaluated."""
    story = Story()
    old = -3_600_000
    ends = [story.batch(watermark=old), story.batch(watermark=old, read=20), story.batch(watermark=20)]
    assert ends == [False, False, True]


def test_a_heartbeat_from_before_the_start_is_not_enough() -> None:
    """Records between it and the start would be left out."""
    story = Story()
    assert not story.batch(watermark=-5, read=-1)
    assert not story.batch(watermark=-1, read=0)
    assert story.batch(watermark=0)


def test_a_watermark_that_is_ahead_proves_nothing() -> None:
    """A former run may have gone by a clock that was ahead; this run's own heartbeat must have been read."""
    story = Story()
    ahead = 3_600_000
    ends = [story.batch(watermark=ahead) for _ in range(3)]
    ends += [story.batch(watermark=ahead, read=2_000), story.batch(watermark=ahead)]
    assert ends == [False, False, False, False, True]


def test_timers_of_the_batch_before_are_due() -> None:
    """A batch that begins before the end of the last one without the heartbeat finds timers that are not due yet."""
    story = Story()
    story.batch(watermark=-5, read=20)
    assert not story.batch(watermark=20, after=-1)
    assert story.batch(watermark=20, after=0)


def test_timers_of_ordinary_runs_are_due() -> None:
    """They may be late by a trigger: a batch must begin so long after the start."""
    story = Story(settle_seconds=SETTLE_SECONDS)
    ends = [story.batch(watermark=-5, read=20, after=0)]
    ends += [story.batch(watermark=20, after=500) for _ in range(11)]
    assert ends.index(True) == 10
    assert story.now_ms - BATCH_MS >= START + 1_000 * SETTLE_SECONDS


def test_a_query_that_starts_again_begins_anew() -> None:
    """Its first batch may be an old one that is repeated: what that has read counts only for those behind it."""
    story = Story()
    story.batch(watermark=-5, read=20)
    story.run.query_started()
    assert not story.batch(watermark=20, read=20)
    assert story.batch(watermark=20)


def test_a_clock_that_is_corrected() -> None:
    """The run does not wait for a time that its machine took for the present: the query starts again by then."""
    story = Story()
    story.now_ms -= 3_600_000
    story.run.query_started()
    assert not story.batch(watermark=-7_000_000, read=-3_599_000)
    assert story.batch(watermark=-3_599_000)


def test_the_round_of_the_prober_is_waited_for() -> None:
    """Its answers are evaluated, too: a heartbeat from after the round must pass."""
    story = Story(is_probing=True)
    story.batch(watermark=-5, read=20)
    assert not story.batch(watermark=20)
    story.run.round_reported()
    reported = story.now_ms - START
    assert not story.batch(watermark=20, read=reported - 1)
    assert not story.batch(watermark=reported - 1, read=reported)
    assert story.batch(watermark=reported)
    # Later rounds change nothing.
    story.run.round_reported()
    assert story.run.has_ended()


def test_a_prober_that_never_answers() -> None:
    """The run ends without it, and says so."""
    story = Story(is_probing=True)
    story.batch(watermark=-5, read=20)
    ends = [story.batch(watermark=20, after=9_500) for _ in range(8)]
    assert ends == [False] * 6 + [True] * 2
    assert ends.index(True) * 10 == PROBER_SECONDS
    assert "(the prober has not answered)" in story.run.last_words(0, 0)


def test_documents_that_are_asked_for() -> None:
    """Without their requests, documents of groups that no longer exist would be left in the topic."""
    story = Story()
    story.is_synced = False
    story.batch(watermark=-5, read=20)
    assert not story.batch(watermark=20)
    story.is_synced = True
    assert story.run.has_ended()


def test_a_batch_without_times() -> None:
    """Spark leaves them out of some reports: such a batch shows nothing."""
    story = Story()
    story.run.take(batch(0, {0: 1}, started_ms=START))
    assert not story.batch(watermark=20)


def test_the_last_words() -> None:
    """Up to when everything is known, what was read and written, and what nobody knows until the next run."""
    story = Story()
    story.batch(watermark=-5, read=20)
    story.batch(watermark=20)
    assert story.run.last_words(1_234, 5) == (
        "single run: everything up to 2027-01-15T08:00:00.020Z is read and evaluated, 1,234 records, 5 events; "
        "until the next run nobody sees classic groups that hang in a rebalance, and all events come late"
    )


def test_a_single_run_ends_after_its_batch() -> None:
    """However long that takes; the supervisor requests the stop itself, so that nothing is started again."""
    polls = itertools.count()
    query = Puppet(busy=True, work=lambda: query.status.update(isTriggerActive=next(polls) < 400))
    asked = itertools.count(1)
    # Spare queries: with the last one the stage would request a stop itself.
    stage = Stage(query, Puppet(), has_ended=lambda: next(asked) == 3, renew=lambda: False)
    stage.supervisor.run()
    assert (len(stage.begun), query.stopped, stage.report.restarts) == (1, True, 0)
    assert next(polls) > 400
    assert (stage.stop.made, stage.stop.exit_code, stage.lines) == (True, 0, ["quiet"])


def test_a_single_run_that_is_asked_to_stop() -> None:
    """A signal while the last batch ends counts: the exit code is that of the signal."""
    query = Puppet(busy=True, work=lambda: query.status.update(isTriggerActive=not stage.stop.made))
    stage = Stage(query, Puppet(), has_ended=lambda: True)
    stop_at_the_third_wait(stage)
    stage.supervisor.run()
    assert (query.stopped, stage.stop.exit_code) == (True, 143)


def test_a_single_run_rides_out_an_outage() -> None:
    """A query that fails before everything was read is started again, as in any other run."""
    stage = Stage(
        Puppet("org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired"),
        Puppet(),
        Puppet(),
        has_ended=lambda: len(stage.begun) == 2,
    )
    stage.supervisor.run()
    assert (len(stage.begun), stage.report.restarts, stage.stop.exit_code) == (2, 1, 0)
