"""The ends of partitions: what a round writes, and what is not written again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.kafka.log_ends import Place, ReadableTopics, TopicLayout
from groupreplay.streaming.prober.ends import EndsRecorder, EndsTaken, ends_thread
from support.kafka.waiting import wait_until

FIVE, NINE = PartitionEnds(0, 5, 5), PartitionEnds(0, 9, 8)


class Brokers:
    """A cluster whose topics and ends a test sets."""

    def __init__(self) -> None:
        self.layouts = {"orders": TopicLayout("id-1", (0, 1)), "group-probes": TopicLayout("id-2", (0,))}
        self.refused: dict[str, str] = {}
        self.ends: dict[Place, PartitionEnds] = {("orders", 0): FIVE, ("orders", 1): FIVE}
        self.asked: list[Collection[Place]] = []
        self.starts: list[Mapping[Place, int]] = []
        self.doubted: list[Collection[str]] = []
        self.now_ms = 0

    def topics(self, doubted: Collection[str]) -> ReadableTopics:
        """The topics that are set."""
        self.doubted.append(doubted)
        return ReadableTopics(self.layouts, self.refused)

    def read(self, places: Collection[Place], starts: Mapping[Place, int]) -> Mapping[Place, PartitionEnds]:
        """The ends that are set, of those that are asked for."""
        self.asked.append(places)
        self.starts.append(starts)
        return {place: ends for place, ends in self.ends.items() if place in places}

    def clock(self) -> int:
        """A millisecond later each time."""
        self.now_ms += 1
        return self.now_ms

    def recorder(self) -> EndsRecorder:
        """A new process."""
        return EndsRecorder(
            topics=self.topics,
            ends=self.read,
            cluster_id="c",
            clock=self.clock,
            interval_ms=30_000,
            left_out={"group-probes"},
        )


Change = tuple[str, str, dict[int, PartitionEnds], dict[int, str], bool]


def changes(taken: EndsTaken) -> list[Change]:
    """Topic, id, ends, reasons and whether it is gone, of each message."""
    return [(m.topic, m.topic_id, m.partitions, m.unknown, m.gone) for m in taken.messages]


def rounds(recorder: EndsRecorder) -> list[Change]:
    """A round that is written."""
    taken = recorder.take()
    recorder.remember(taken)
    return changes(taken)


def test_only_what_changed_is_written() -> None:
    """The first round is whole, the topic of probes is left out, a quiet round has its own message alone."""
    brokers = Brokers()
    recorder = brokers.recorder()
    taken = recorder.take()
    recorder.remember(taken)
    assert changes(taken) == [("orders", "id-1", {0: FIVE, 1: FIVE}, {}, False)]
    complete = taken.complete
    assert (complete.number, complete.taken_ms, complete.answered_ms) == (0, 1, 2)
    assert (complete.topics, complete.partitions, complete.interval_ms) == (1, 2, 30_000)
    assert brokers.asked == [[("orders", 0), ("orders", 1)]]
    quiet = recorder.take()
    assert (quiet.messages, quiet.complete.number) == ((), 1)
    recorder.remember(quiet)
    brokers.ends["orders", 1] = NINE
    assert rounds(recorder) == [("orders", "id-1", {1: NINE}, {}, False)]


def test_a_round_that_was_not_written_is_written_again() -> None:
    """Changes are against what is in the topic, and not against what was seen."""
    brokers = Brokers()
    recorder = brokers.recorder()
    first = changes(recorder.take())
    assert changes(recorder.take()) == first


def test_a_partition_without_a_leader() -> None:
    """It is not asked for, which would take the whole timeout; the reason is written once, and then its ends again."""
    brokers = Brokers()
    recorder = brokers.recorder()
    rounds(recorder)
    brokers.layouts["orders"] = TopicLayout("id-1", (0,), (1,))
    assert rounds(recorder) == [("orders", "id-1", {}, {1: "the partition has no leader"}, False)]
    assert brokers.asked[-1] == [("orders", 0)]
    assert rounds(recorder) == []
    brokers.layouts["orders"] = TopicLayout("id-1", (0, 1))
    assert rounds(recorder) == [("orders", "id-1", {1: FIVE}, {}, False)]


def test_a_leader_that_does_not_answer() -> None:
    """The other partitions keep their ends."""
    brokers = Brokers()
    recorder = brokers.recorder()
    rounds(recorder)
    del brokers.ends["orders", 0]
    reason = {0: "the leader of the partition did not answer"}
    assert rounds(recorder) == [("orders", "id-1", {}, reason, False)]


def test_a_topic_that_is_deleted_and_created_again() -> None:
    """The end of the old one is written, and the new one whole, though its ends are the same."""
    brokers = Brokers()
    recorder = brokers.recorder()
    rounds(recorder)
    again = TopicLayout("id-9", (0, 1))
    brokers.layouts["orders"] = again
    assert rounds(recorder) == [("orders", "id-9", {0: FIVE, 1: FIVE}, {}, False)]
    del brokers.layouts["orders"]
    assert rounds(recorder) == [("orders", "id-9", {}, {}, True)]
    assert rounds(recorder) == []


def test_a_log_that_ends_before_its_last_end() -> None:
    """Its topic is described again in the same round, and its log start is asked for: it may be another topic."""
    brokers = Brokers()
    recorder = brokers.recorder()
    rounds(recorder)
    brokers.ends["orders", 1] = PartitionEnds(0, 2, 2)
    del brokers.doubted[:], brokers.asked[:], brokers.starts[:]
    assert rounds(recorder) == [("orders", "id-1", {1: PartitionEnds(0, 2, 2)}, {}, False)]
    both = [("orders", 0), ("orders", 1)]
    assert (brokers.doubted, brokers.asked) == ([(), {"orders"}], [both, both])
    assert brokers.starts == [{("orders", 0): 0, ("orders", 1): 0}, {}]


def test_a_topic_that_refuses() -> None:
    """A missing right, or a broker that does not answer, costs one topic its ends and not the rest."""
    brokers = Brokers()
    brokers.layouts["paid"] = TopicLayout("id-3", (0,))
    brokers.ends["paid", 0] = FIVE
    recorder = brokers.recorder()
    rounds(recorder)
    del brokers.layouts["paid"]
    brokers.refused["paid"] = "timed out"
    brokers.ends["orders", 0] = NINE
    assert rounds(recorder) == [
        ("orders", "id-1", {0: NINE}, {}, False),
        ("paid", "id-3", {}, {0: "timed out"}, False),
    ]


def test_log_starts_are_asked_for_now_and_then() -> None:
    """They change rarely and cost as much as the ends; those of a topic that was created again are asked for anew."""
    brokers = Brokers()
    recorder = brokers.recorder()
    for _ in range(12):
        rounds(recorder)
    starts = {("orders", 0): 0, ("orders", 1): 0}
    assert brokers.starts == [{}, *[starts] * 9, {}, starts]
    brokers.layouts["orders"] = TopicLayout("id-9", (0, 1))
    rounds(recorder)
    assert brokers.starts[-1] == {}


def test_each_topic_is_written_whole_now_and_then() -> None:
    """Readers of a part of the topic of probes learn the ends of partitions that do not change."""
    recorder = Brokers().recorder()
    written = [rounds(recorder) for _ in range(240)]
    assert sum(bool(changed) for changed in written) in {2, 3}


def test_the_round_is_written_behind_its_changes() -> None:
    """Whoever reads the round's message may conclude that all else is unchanged; a failure is no round."""
    written: list[Sequence[TopicEnds | EndsRound]] = []
    failures = [GroupReplayError("away")]

    def write(messages: Sequence[TopicEnds | EndsRound]) -> None:
        if failures:
            raise failures.pop()
        written.append(messages)

    thread = ends_thread(Brokers().recorder(), write, 0.01)
    thread.start(at_once=True)
    wait_until(lambda: len(written) >= 3)
    thread.close()
    kinds = [type(messages[0]) for messages in written]
    assert kinds[:3] == [TopicEnds, EndsRound, EndsRound]
