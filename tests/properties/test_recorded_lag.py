"""Lag from what the prober has written, beside the truth: for any log, any outage and any loss of a round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage, decode_message, encode_message
from groupreplay.streaming.kafka.log_ends import ReadableTopics, TopicLayout
from groupreplay.streaming.prober.ends import EndsRecorder
from groupreplay.streaming.prober.packed_ends import BYTES_A_DAY, ROUNDINGS, EndsPacker
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.timeline.lag import Committed, lag_at

#: What becomes of a round, at the time of which so many more records are there.
ROUND = st.tuples(
    st.sampled_from(["written", "not written", "half written", "no leader", "no answer", "restarted"]),
    st.integers(1, 300),
    st.lists(st.integers(0, 250), max_size=6),
)


class World:
    """A partition that only grows, and a prober with a clock that runs while it asks."""

    def __init__(self, bytes_a_day: int | None) -> None:
        """With ``bytes_a_day`` rounds are packed, and ends are rounded above it."""
        self.bytes_a_day = bytes_a_day
        self.packer = self.new_packer()
        self.now_ms = 1_000
        self.appended_ms: list[int] = []
        self.fate = "written"
        self.written: list[ProbeMessage | None] = []
        self.recorder = self.new_recorder()

    def new_recorder(self) -> EndsRecorder:
        """A process of the prober."""
        return EndsRecorder(
            topics=self.topics,
            ends=lambda places, _: {} if self.fate == "no answer" else dict.fromkeys(places, self.end()),
            cluster_id="c",
            clock=self.clock,
            interval_ms=30_000,
        )

    def new_packer(self) -> EndsPacker | None:
        """That of a new process."""
        if self.bytes_a_day is None:
            return None
        # A few rounds would not get to the coarsest one.
        return EndsPacker(self.bytes_a_day, ROUNDINGS if self.bytes_a_day else ROUNDINGS[-1:])

    def clock(self) -> int:
        """Three milliseconds later each time."""
        self.now_ms += 3
        return self.now_ms

    def topics(self, _: object) -> ReadableTopics:
        """One topic with one partition."""
        led = TopicLayout("id", (0,)) if self.fate != "no leader" else TopicLayout("id", (), (0,))
        return ReadableTopics({"t": led})

    def end(self) -> PartitionEnds:
        """The end at this moment."""
        end = sum(at_ms <= self.now_ms for at_ms in self.appended_ms)
        return PartitionEnds(0, end, end)

    def round(self, fate: str, pause_ms: int, appended: list[int]) -> None:
        """The log grows during a pause, and the prober asks."""
        self.appended_ms += sorted(self.now_ms + min(after, pause_ms) for after in appended)
        self.now_ms += pause_ms
        self.fate = fate
        if fate == "restarted":
            self.recorder, self.packer = self.new_recorder(), self.new_packer()
        taken = self.recorder.take()
        changes = taken.messages if self.packer is None else self.packer.pack(taken)
        messages = [*changes, *([taken.complete] if fate != "half written" else [])]
        if fate != "not written":
            self.written += [decode_message(*encode_message(message)) for message in messages]
        if fate not in ("not written", "half written"):
            self.recorder.remember(taken)
        elif self.packer is not None:
            self.packer.forget()


@pytest.mark.parametrize("bytes_a_day", [None, BYTES_A_DAY, 0], ids=["in JSON", "packed", "rounded"])
@given(st.lists(ROUND, max_size=12), st.integers(0, 40), st.integers(0, 4_000), st.randoms())
def test_the_bounds_hold_the_truth(
    bytes_a_day: int | None, rounds: list[tuple[str, int, list[int]]], offset: int, at_ms: int, order: object
) -> None:
    """From the broker through the topic of probes to the range, in records and in time; in any order of messages."""
    world = World(bytes_a_day)
    for fate, pause_ms, appended in rounds:
        world.round(fate, pause_ms, appended)
    ends = RecordedEnds("c")
    messages = list(world.written)
    order.shuffle(messages)  # type: ignore[attr-defined]
    for message in messages:
        ends.add(message)
    end = sum(appended_ms <= at_ms for appended_ms in world.appended_ms)
    offset = min(offset, end)
    lag = lag_at(ends.spans("t", 0), Committed(offset, at_ms), at_ms)
    if lag.records is None or lag.time_ms is None:
        assert lag.notes
        return
    waited_ms = at_ms - world.appended_ms[offset] if end > offset else 0
    for value, truth in ((lag.records, end - offset), (lag.time_ms, waited_ms)):
        assert 0 <= value.least <= truth
        assert value.most is None or truth <= value.most
