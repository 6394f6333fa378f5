"""Whether the log is still the one that was read; the cluster is a puppet here.

When the log is compared, and what is remembered of it; the brokers and the checkpoint are puppets here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from groupreplay.state.events.event import GapReason, UnreadRange
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import EpochEnd, LogMarks, PartitionMark, RecordMark
from groupreplay.streaming.kafka import log_watch
from groupreplay.streaming.kafka import log_watch as module
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_watch import LogWatch, lost_log
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.run.identity import Identity
from support.kafka.waiting import wait_until

IDENTITY = Identity(cluster_id="c", era="e", partitions=2, probes="p", first_start_ms=0)


class Cluster:
    """An offsets topic of two partitions."""

    def __init__(self, starts: dict[int, int], ends: dict[int, int], era: str = "e") -> None:
        self.starts, self.ends, self.era = starts, ends, era

    def identify(self, topic: str) -> TopicIdentity:
        return TopicIdentity(cluster_id="c", topic=topic, era=self.era, partitions=len(self.ends), leaders={})

    def first_offsets(self, _: str, __: int) -> dict[int, int]:
        return self.starts

    def log_ends(self, _: str, __: int) -> dict[int, EpochEnd]:
        return {number: EpochEnd(end, 7) for number, end in self.ends.items()}


def lost(cluster: Cluster, read: dict[int, int], **known: Any) -> tuple[GapReason, list[UnreadRange]] | None:
    """The reason and the ranges."""
    error = lost_log(read, IDENTITY, cast(Connection, cluster), **known)
    if error is None:
        return None
    assert error.exit_code is ExitCode.DATA
    return error.gap.reason, list(error.gap.partitions)


def unread(partition: int, read_to: int, log_start: int, log_end: int) -> UnreadRange:
    """A range."""
    return UnreadRange(partition=partition, read_to=read_to, log_start=log_start, log_end=log_end)


@pytest.mark.parametrize("read", [{}, {0: 0, 1: 0}, {0: 5, 1: 9}, {0: 7, 1: 3}])
def test_a_log_that_is_whole(read: dict[int, int]) -> None:
    """Nothing is gone that was not read; a start of the log after compaction moves nothing."""
    assert lost(Cluster({0: 0, 1: 3}, {0: 7, 1: 9}), read if read.get(1) != 0 else {}) is None


@pytest.mark.parametrize(
    ("cluster", "reason", "ranges"),
    [
        (Cluster({0: 6, 1: 0}, {0: 7, 1: 9}), "removed", [unread(0, 5, 6, 7)]),
        (Cluster({0: 0, 1: 0}, {0: 7, 1: 8}), "truncated", [unread(1, 9, 0, 8)]),
        (
            Cluster({0: 0, 1: 0}, {0: 7, 1: 9}, era="f"),
            "topic_recreated",
            [unread(0, 5, 0, 7), unread(1, 9, 0, 9)],
        ),
    ],
)
def test_a_log_that_is_not_the_one_that_was_read(
    cluster: Cluster, reason: GapReason, ranges: list[UnreadRange]
) -> None:
    """Partitions that begin behind what was read, or end before it; all partitions of another topic."""
    assert lost(cluster, {0: 5, 1: 9}) == (reason, ranges)


def test_more_partitions() -> None:
    """Groups then live in other partitions than before."""
    found = lost(Cluster({0: 0, 1: 0, 2: 0}, {0: 7, 1: 9, 2: 0}), {0: 7, 1: 9})
    assert found is not None
    assert found[0] == "partitions_added"
    assert found[1][2] == unread(2, 0, 0, 0)


def test_a_batch_that_was_begun_ends_behind_the_log() -> None:
    """Spark could never read it again, although everything that is in the state is there."""
    found = lost(Cluster({0: 0, 1: 0}, {0: 7, 1: 9}), {0: 5, 1: 9}, planned={0: 8, 1: 9})
    assert found == ("truncated", [unread(0, 5, 0, 7)])


@pytest.mark.parametrize(
    ("cut", "era", "found"),
    [({1}, "e", ("truncated", [unread(1, 9, 0, 12)])), (set(), "e", None), ({1}, "f", None)],
)
def test_a_log_that_was_cut_and_has_grown_again(
    cut: set[int], era: str, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No offset shows it, but the marks of the same topic do; those of another topic count nothing."""
    marks = LogMarks(era, {0: PartitionMark(EpochEnd(5, 6)), 1: PartitionMark(EpochEnd(9, 6))})
    asked: list[Any] = []
    monkeypatch.setattr(log_watch, "cut_partitions", lambda *given: asked.append(given[1:]) or cut)
    assert lost(Cluster({0: 0, 1: 0}, {0: 7, 1: 12}), {0: 5, 1: 9}, marks=marks) == found
    answered = {0: EpochEnd(7, 7), 1: EpochEnd(12, 7)}
    assert asked == ([("__consumer_offsets", marks.partitions, answered)] if era == "e" else [])


CUT = GroupReplayError("cut")


class Stage:
    """A watch with a clock that is set by hand; ``answers`` are those to questions whether the log is lost."""

    def __init__(
        self, known: LogMarks | None = None, store: Callable[[LogMarks], None] | None = None
    ) -> None:
        self.now = 0.0
        self.answers: list[GroupReplayError | Exception | None] = []
        self.asked: list[LogMarks] = []
        self.looked: list[Mapping[int, int]] = []
        self.stored: list[LogMarks] = []
        self.is_same = True
        self.watch = LogWatch(
            era="e",
            is_same=lambda: self.is_same,
            lost=self._lost,
            last_records=self._last_records,
            load=lambda: known,
            store=store or self.stored.append,
            seconds=lambda: self.now,
        )

    def _lost(self) -> GroupReplayError | None:
        self.asked.append(self.watch.marks())
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, ConnectionError):
            raise answer
        assert answer is None or isinstance(answer, GroupReplayError)
        return answer

    def _last_records(self, ends: Mapping[int, int]) -> dict[int, RecordMark]:
        self.looked.append(ends)
        return {number: record(end) for number, end in ends.items() if end}

    def see(self, *ends: tuple[int, int | None], later: float = 0.0) -> dict[int, int]:
        """These ends, each an offset and an epoch, and a tick so many seconds later."""
        self.now += later
        offsets = self.watch.note({number: EpochEnd(*end) for number, end in enumerate(ends)})
        self.watch.tick()
        return offsets


def record(end: int) -> RecordMark:
    """The last record below an end."""
    return RecordMark(end - 1, f"of {end}")


def marks(*partitions: tuple[int, int | None, int]) -> LogMarks:
    """End, epoch, and the end below which the record is; 0 for none."""
    return LogMarks(
        "e",
        {
            number: PartitionMark(EpochEnd(end, epoch), record(below) if below else None)
            for number, (end, epoch, below) in enumerate(partitions)
        },
    )


def test_a_log_that_grows() -> None:
    """Nothing is asked; records are looked for once a minute where it grew; it is written every ten seconds."""
    stage = Stage()
    assert stage.see((5, 1), (0, 1)) == {0: 5, 1: 0}
    assert stage.stored == [marks((5, 1, 5), (0, 1, 0))]
    stage.see((7, 1), (0, 1), later=5)
    assert len(stage.stored) == 1
    stage.see((8, 1), (0, 1), later=5)
    stage.see((8, 1), (0, 1), later=20)
    assert stage.stored[1:] == [marks((8, 1, 5), (0, 1, 0))]
    stage.see((9, 1), (0, 1), later=30)
    assert stage.stored[2:] == [marks((9, 1, 9), (0, 1, 0))]
    assert (stage.asked, stage.looked) == ([], [{0: 5, 1: 0}, {0: 9}])


def test_a_clean_election() -> None:
    """The log is compared with what the former leader showed; then it is written at once."""
    stage = Stage()
    stage.see((5, 1), (6, 1))
    stage.see((9, 2), (7, 1), later=1)
    assert stage.asked == [marks((5, 1, 5), (7, 1, 6))]
    assert stage.stored[1:] == [marks((9, 2, 5), (7, 1, 6))]
    stage.see((9, 2), (7, 1), later=1)
    assert (len(stage.asked), stage.watch.found()) == (1, None)


def test_a_topic_that_grows_beyond_the_former_one() -> None:
    """Its id is looked at every ten seconds, as its ends prove nothing; an answer that finds no loss is believed."""
    stage = Stage()
    stage.see((5, 0), (6, 0))
    stage.is_same, stage.answers = False, [None, CUT]
    stage.see((7, 0), (8, 0), later=9)
    assert stage.asked == []
    stage.see((7, 0), (8, 0), later=1)
    assert (len(stage.asked), stage.watch.found()) == (1, None)
    stage.see((7, 0), (8, 0), later=10)
    assert (len(stage.asked), stage.watch.found()) == (2, CUT)


@pytest.mark.parametrize("end", [(9, 2), (4, 1), (9, 0), (9, None), (4, 2)])
def test_a_cut(end: tuple[int, int | None]) -> None:
    """Another epoch or a lower end is compared. A cut is found once; what was seen stays in the checkpoint."""
    stage = Stage()
    stage.see((5, 1))
    stage.answers = [CUT]
    stage.see(end, later=1)
    stage.see(end, later=60)
    assert (stage.watch.found(), stage.asked) == (CUT, [marks((5, 1, 5))])
    stage.watch.write()
    assert stage.stored == [marks((5, 1, 5))]


def test_brokers_that_do_not_answer() -> None:
    """The question stays, and what was seen of the former leader is kept until it is answered."""
    stage = Stage()
    stage.see((5, 1))
    stage.answers = [ConnectionError("away"), CUT]
    with pytest.raises(ConnectionError):
        stage.see((9, 2), later=1)
    assert stage.watch.found() is None
    stage.see((10, 3), later=1)
    assert (stage.watch.found(), stage.asked) == (CUT, [marks((5, 1, 5))] * 2)


def test_an_election_while_the_log_is_compared() -> None:
    """Its leader was not asked about the epoch in between: that comes next."""
    stage = Stage()
    stage.see((5, 1))

    def elect_again() -> None:
        stage.watch.note({0: EpochEnd(8, 3)})

    stage.watch.lost, ask = lambda: elect_again() or None, stage.watch.lost
    stage.see((7, 2), later=1)
    stage.watch.lost = ask
    assert stage.watch.marks() == marks((7, 2, 5))
    stage.see((8, 3), later=1)
    assert stage.asked == [marks((7, 2, 5))]
    assert stage.watch.marks() == marks((8, 3, 5))


def test_a_leader_that_is_back_in_its_epoch() -> None:
    """An answer of a leader that was replaced is followed by one of the true leader: nothing is left to ask."""
    stage = Stage()
    stage.see((5, 2))
    stage.watch.note({0: EpochEnd(5, 1)})
    stage.see((6, 2), later=1)
    assert (stage.asked, stage.watch.marks()) == ([], marks((6, 2, 5)))


def test_brokers_without_epochs() -> None:
    """Only the record shows a cut: the log is compared before another record takes its place."""
    stage = Stage()
    stage.answers = [None, CUT]
    stage.see((5, None))
    stage.see((9, None), later=60)
    assert stage.asked == [marks((5, None, 0)), marks((9, None, 5))]
    assert (stage.watch.found(), stage.looked) == (CUT, [{0: 5}])


@pytest.mark.parametrize(("era", "kept"), [("e", True), ("f", False)])
def test_what_a_checkpoint_knows(era: str, kept: bool) -> None:
    """The first ends are compared with it, unless it is about another topic."""
    known = LogMarks(era, marks((5, 1, 5)).partitions)
    stage = Stage(known)
    assert stage.watch.marks() == (known if kept else LogMarks("e", {}))
    stage.see((9, 2))
    assert stage.asked == ([known] if kept else [])


def test_a_disk_that_is_full(caplog: pytest.LogCaptureFixture) -> None:
    """One warning for each fault; the log is compared all the same, and written when there is room again."""
    full, written = [True], list[LogMarks]()

    def store(found: LogMarks) -> None:
        if full[0]:
            raise OSError("no space left on device")
        written.append(found)

    stage = Stage(store=store)
    with caplog.at_level(logging.WARNING):
        for is_full in (True, True, False, True, False):
            full[0] = is_full
            stage.see((5 + int(stage.now) // 10, 1), later=10)
        stage.see((4, 2), later=1)
    assert len(stage.asked) == 1
    assert [one.partitions[0].end.offset for one in written] == [7, 9, 4]
    warning = "cannot write what was seen of the log, trying again: no space left on device"
    assert [one.getMessage() for one in caplog.records] == [warning] * 2


def test_a_thread_that_is_closed(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning while brokers are away; at the end the marks are written as they are, then with the last records."""
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.01)
    stage = Stage()
    stage.see((5, 1))
    stage.answers = [ConnectionError("away"), ConnectionError("away")]
    stage.watch.note({0: EpochEnd(6, 2)})
    thread = stage.watch.background()
    with caplog.at_level(logging.WARNING):
        thread.start()
        wait_until(lambda: len(stage.asked) == 3)
    wait_until(lambda: len(stage.stored) == 2)
    stage.watch.note({0: EpochEnd(7, 2)})
    thread.close(60)
    assert stage.stored == [marks((5, 1, 5)), marks((6, 2, 5)), marks((7, 2, 5)), marks((7, 2, 7))]
    assert [one.getMessage() for one in caplog.records] == [
        "cannot compare the log with what was read for now: away"
    ]
