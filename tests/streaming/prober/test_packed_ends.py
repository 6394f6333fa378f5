"""Rounds of ends as they are written, and what readers make of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage, decode_message
from groupreplay.streaming.kafka.log_ends import Place, TopicLayout
from groupreplay.streaming.prober.packed_ends import WHOLE_ROUNDS
from groupreplay.streaming.sources.latest_ends import LatestEnds
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.streaming.sources.unpacked_ends import UNREAD
from groupreplay.timeline.lag import EndSpan
from support.kafka.packed_rounds import CLUSTER_ID, Cluster, one_topic


def kinds(messages: Sequence[ProbeMessage]) -> list[str]:
    """Their classes."""
    return [type(message).__name__ for message in messages]


def read(cluster: Cluster, first: int = 0) -> tuple[RecordedEnds, LatestEnds]:
    """Two readers of what was written, from a message on."""
    readers = RecordedEnds(CLUSTER_ID), LatestEnds(CLUSTER_ID, 10_000_000)
    for pair in cluster.written[first:]:
        for reader in readers:
            reader.add(decode_message(*pair))
    return readers


def errors(spans: Sequence[EndSpan], place: Place, cluster: Cluster) -> Iterator[str]:
    """Where the spans contradict what the brokers have answered."""
    for before_ms, after_ms, ends in cluster.truth:
        if not isinstance(now := ends.get(place), PartitionEnds):
            continue
        least = [span for span in spans if span.first_ms <= after_ms and not span.unknown]
        most = [span for span in spans if span.last_ms >= before_ms and span.first_ms <= after_ms]
        if least and least[-1].end > now.end:
            yield f"{place} at {after_ms}: {now} is less than {least[-1]}"
        if most and not most[-1].unknown and most[-1].most < now.end:
            yield f"{place} at {before_ms}: {now} is more than {most[-1]}"


def test_a_topic_is_stated_once_and_then_only_what_changes() -> None:
    """A quiet round has its own message alone; a change is one small message for all topics."""
    cluster = one_topic(3)
    assert kinds(cluster.round()) == ["TopicEnds", "EndsRound"]
    assert kinds(cluster.round()) == ["EndsRound"]
    cluster.grow(("t", 1), 7)
    changes, complete = cluster.round()
    assert isinstance(changes, EndsChanges)
    assert isinstance(complete, EndsRound)
    assert (changes.number, changes.after, changes.alone, changes.places) == (2, None, True, 3)
    for ends in read(cluster):
        assert [(span.start, span.end, span.stable, span.more) for span in ends.spans("t", 1)] == [
            (5, 1_000_001, 1_000_001, 0),
            (5, 1_000_008, 1_000_008, 0),
        ]
        assert [span.end for span in ends.spans("t", 0)] == [1_000_000]


def test_log_starts_and_open_transactions() -> None:
    """They are written exactly, also where the end has not changed."""
    cluster = one_topic(2)
    cluster.round()
    cluster.ends["t", 0] = PartitionEnds(5, 1_000_004, 1_000_001)
    cluster.round()
    cluster.ends["t", 0] = PartitionEnds(5, 1_000_004, 1_000_004)
    cluster.ends["t", 1] = PartitionEnds(900, 1_000_001, 1_000_001)
    # Log start offsets are asked for in every tenth round; this cluster answers with them each time.
    cluster.round()
    for ends in read(cluster):
        assert [(s.start, s.end, s.stable) for s in ends.spans("t", 0)] == [
            (5, 1_000_000, 1_000_000),
            (5, 1_000_004, 1_000_001),
            (5, 1_000_004, 1_000_004),
        ]
        assert [(s.start, s.end) for s in ends.spans("t", 1)] == [(5, 1_000_001), (900, 1_000_001)]


def test_epochs() -> None:
    """The epoch of a leader is written when it changes, alone or with ends, and takes few bytes."""
    cluster = one_topic(2)
    cluster.ends["t", 0] = PartitionEnds(5, 1_000_000, 1_000_000, epoch=7)
    cluster.round()
    cluster.ends["t", 0] = PartitionEnds(5, 1_000_000, 1_000_000, epoch=8)
    changes = cluster.round()[0]
    assert isinstance(changes, EndsChanges)
    assert len(changes.packed) < 60
    cluster.ends["t", 0] = PartitionEnds(5, 1_000_003, 1_000_003, epoch=10)
    cluster.round()
    cluster.ends["t", 0] = PartitionEnds(5, 900_000, 900_000, epoch=11)
    assert kinds(cluster.round()) == ["TopicEnds", "EndsRound"]
    recorded = read(cluster)[0]
    assert [(span.end, span.epoch) for span in recorded.spans("t", 0)] == [
        (1_000_000, 7),
        (1_000_000, 8),
        (1_000_003, 10),
        (900_000, 11),
    ]
    assert [span.epoch for span in recorded.spans("t", 1)][:1] == [-1]


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: cluster.layouts.update(t=TopicLayout("other", (0, 1))),
        lambda cluster: cluster.layouts.update(t=TopicLayout("id", (0,), (1,))),
        lambda cluster: cluster.ends.update({("t", 0): PartitionEnds(0, 3, 3)}),
        lambda cluster: (
            cluster.layouts.update(t=TopicLayout("id", (0, 1, 2))),
            cluster.ends.update({("t", 2): PartitionEnds(0, 0, 0)}),
        ),
    ],
    ids=["created again", "without a leader", "cut", "more partitions"],
)
def test_a_topic_that_is_another_one_is_stated_again(change: Callable[[Cluster], object]) -> None:
    """And so is one whose partition has a leader again; then changes go on."""
    cluster = one_topic(2)
    cluster.round()
    change(cluster)
    assert kinds(cluster.round()) == ["TopicEnds", "EndsRound"]
    cluster.grow(("t", 0), 7)
    cluster.round()
    recorded, latest = read(cluster)
    for number in range(3):
        for ends in (recorded, latest):
            assert list(errors(ends.spans("t", number), ("t", number), cluster)) == []
    assert recorded.spans("t", 0)[-1].end == cluster.ends["t", 0].end


def test_a_deleted_topic() -> None:
    """Its message is as before; its places are taken by no other topic for which they would be wrong."""
    cluster = one_topic(2)
    cluster.round()
    del cluster.layouts["t"]
    cluster.layouts["u"] = TopicLayout("id-u", (0,))
    cluster.ends["u", 0] = PartitionEnds(0, 1, 1)
    gone, stated, _ = cluster.round()
    assert isinstance(gone, TopicEnds)
    assert gone.gone
    assert isinstance(stated, TopicEnds)
    assert (stated.topic, stated.place) == ("u", 2)
    recorded, latest = read(cluster)
    assert recorded.spans("t", 0)[-1].unknown == latest.spans("t", 0)[-1].unknown != ""
    assert recorded.spans("u", 0)[-1].end == 1


def test_a_round_that_was_not_written() -> None:
    """Nobody knows which of its messages the topic has: the next round states everything again."""
    cluster = one_topic(2)
    cluster.round()
    cluster.grow(("t", 0), 7)
    cluster.fails = True
    assert kinds(cluster.round()) == ["EndsChanges"]
    cluster.grow(("t", 0), 1)
    assert kinds(cluster.round()) == ["TopicEnds", "EndsRound"]
    cluster.grow(("t", 1), 2)
    cluster.round()
    for ends in read(cluster):
        assert ends.spans("t", 0)[-1].end == 1_000_008
        assert ends.spans("t", 1)[-1].end == 1_000_003


def test_what_a_reader_missed_is_not_known() -> None:
    """Who begins later, or misses a message, knows a partition from its next statement on, and nothing wrong."""
    cluster = one_topic(2)
    rounds = list[list[tuple[bytes, bytes]]]()
    for _ in range(2 * WHOLE_ROUNDS + 1):
        cluster.grow(("t", 0), random.Random(len(rounds)).randrange(1, 9))
        before = len(cluster.written)
        cluster.round()
        rounds.append(cluster.written[before:])
    late, gap = RecordedEnds(CLUSTER_ID), RecordedEnds(CLUSTER_ID)
    for number, messages in enumerate(rounds):
        for pair in messages:
            if number >= 10:
                late.add(decode_message(*pair))
            if number != 3:
                gap.add(decode_message(*pair))
    for ends in (late, gap):
        spans = ends.spans("t", 0)
        assert list(errors(spans, ("t", 0), cluster)) == []
        assert spans[-1].end == cluster.ends["t", 0].end
    assert late.spans("t", 0)[0].first_ms > cluster.truth[10][1]
    # Twice the same message is once.
    twice = RecordedEnds(CLUSTER_ID)
    for messages in rounds:
        for pair in messages:
            twice.add(decode_message(*pair))
            twice.add(decode_message(*pair))
    once = read(cluster)[0].spans("t", 0)
    assert {span.end for span in twice.spans("t", 0)} == {span.end for span in once}


def test_other_bytes_are_no_ends() -> None:
    """What other programs write never raises, and makes nothing known that is not."""
    cluster = one_topic(2)
    cluster.round()
    cluster.grow(("t", 0), 7)
    changes = cluster.round()[0]
    assert isinstance(changes, EndsChanges)
    for place in range(0, len(changes.packed), 3):
        damaged = bytearray(changes.packed)
        damaged[place] ^= 0x55
        recorded = RecordedEnds(CLUSTER_ID)
        for pair in cluster.written:
            message = decode_message(*pair)
            if isinstance(message, EndsChanges):
                message = EndsChanges(
                    **{
                        name: getattr(message, name) for name in message.__struct_fields__ if name != "packed"
                    },
                    packed=bytes(damaged),
                )
            recorded.add(message)
        spans = recorded.spans("t", 0)
        assert [(span.end, span.unknown) for span in spans] == [(1_000_000, ""), (0, UNREAD)]


def busy(cluster: Cluster, rounds: int, growth: Callable[[random.Random], int]) -> None:
    """All partitions grow in each round."""
    numbers = random.Random(3)
    for _ in range(rounds):
        for place in cluster.ends:
            cluster.grow(place, growth(numbers))
        cluster.round()


def test_few_bytes_are_never_rounded() -> None:
    """Below the limit all ends are exact."""
    cluster = one_topic(20)
    busy(cluster, 50, lambda numbers: numbers.randrange(3_000))
    assert cluster.packer.rounding == 0
    for number in range(20):
        spans = read(cluster)[0].spans("t", number)
        assert {span.more for span in spans} == {0}
        assert spans[-1].end == cluster.ends["t", number].end


def test_above_the_limit_ends_are_rounded() -> None:
    """By at most one and a quarter intervals of the partition's growth, as it is known; the truth is within the bounds.

    A partition that stands still is written as it is in the next round.
    """
    cluster = one_topic(20)
    cluster.packer.bytes_a_day = 60_000
    busy(cluster, 100, lambda numbers: numbers.randrange(3_000))
    assert cluster.packer.rounding == 1.25
    for readers in read(cluster):
        for number in range(20):
            spans = readers.spans("t", number)
            assert list(errors(spans, ("t", number), cluster)) == []
            assert 0 < max(span.more for span in spans) < 3_000
    cluster.round()
    for number in range(20):
        last = read(cluster)[0].spans("t", number)[-1]
        assert (last.end, last.more) == (cluster.ends["t", number].end, 0)


def test_it_is_less_when_the_limit_allows_it() -> None:
    """After an hour far below it ends are rounded less."""
    cluster = one_topic(20)
    cluster.packer.bytes_a_day = 60_000
    busy(cluster, 30, lambda numbers: numbers.randrange(3_000))
    assert cluster.packer.rounding == 1.25
    for _ in range(700):
        cluster.round()
    assert cluster.packer.rounding == 0


def test_a_cluster_at_rest_writes_nothing() -> None:
    """Also not behind the statement of a topic whose partitions were busy once."""
    cluster = one_topic(20)
    busy(cluster, 30, lambda numbers: numbers.randrange(3_000))
    cluster.round()
    written = [kind for _ in range(WHOLE_ROUNDS + 1) for kind in kinds(cluster.round())]
    assert sorted(written) == ["EndsRound"] * (WHOLE_ROUNDS + 1) + ["TopicEnds"] * (
        len(written) - WHOLE_ROUNDS - 1
    )
    assert "TopicEnds" in written


def test_partitions_with_transactions_are_not_rounded() -> None:
    """Their last stable offset would mean nothing beside a rounded end."""
    cluster = one_topic(20)
    cluster.packer.bytes_a_day = 60_000
    cluster.ends["t", 0] = PartitionEnds(5, 1_000_000, 999_990)
    busy(cluster, 60, lambda numbers: numbers.randrange(3_000))
    spans = read(cluster)[0].spans("t", 0)
    assert {(span.more, span.end - span.stable) for span in spans} == {(0, 10)}
    assert spans[-1].end == cluster.ends["t", 0].end


def happen(cluster: Cluster, data: st.DataObject) -> None:
    """Something that happens in a cluster, between two rounds."""
    name = data.draw(st.sampled_from("abc"))
    kind = data.draw(st.integers(0, 9))
    if kind == 0:
        led = tuple(n for n in range(data.draw(st.integers(1, 4))) if data.draw(st.integers(0, 5)))
        cluster.layouts[name] = TopicLayout(data.draw(st.sampled_from("xy")), led, (4,))
        for number in led:
            cluster.ends.setdefault((name, number), PartitionEnds(0, 0, 0))
    elif kind == 1:
        cluster.layouts.pop(name, None)
    elif kind == 2:
        cluster.fails = True
    elif kind == 3:
        for place, ends in cluster.ends.items():
            end = data.draw(st.integers(0, ends.end))
            cluster.ends[place] = PartitionEnds(0, end, end, ends.epoch + 1)
    else:
        for place, ends in cluster.ends.items():
            end = ends.end + data.draw(st.sampled_from([0, 1, 50, 900, 10**9]))
            stable = end - data.draw(st.sampled_from([0, 0, 0, min(3, end)]))
            start = data.draw(st.sampled_from([ends.start, ends.start, ends.end // 2]))
            epoch = ends.epoch + data.draw(st.sampled_from([0, 0, 1]))
            cluster.ends[place] = PartitionEnds(start, end, stable, epoch)


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_any_history_is_read_as_it_was(data: st.DataObject) -> None:
    """Whatever changes, and wherever a reader begins: no end contradicts an answer of the brokers."""
    cluster = Cluster()
    cluster.packer.bytes_a_day = data.draw(st.sampled_from([0, 60_000, 36_000_000]))
    for _ in range(data.draw(st.integers(3, 40))):
        happen(cluster, data)
        cluster.round()
    assume(cluster.truth)
    first = data.draw(st.integers(0, len(cluster.written)))
    truth = {
        place: ends for place, ends in cluster.truth[-1][2].items() if place[1] in led_of(cluster, place[0])
    }
    for reader in (*read(cluster), *read(cluster, first)):
        for place, now in truth.items():
            spans = reader.spans(*place)
            if spans and not spans[-1].unknown:
                last = spans[-1]
                assert last.end <= now.end <= last.most
                assert last.start == now.start
                assert not isinstance(reader, RecordedEnds) or last.epoch == now.epoch
    # Who has read all of it knows all of it.
    assert all(reader.spans(*place) for reader in read(cluster) for place in truth)


def led_of(cluster: Cluster, topic: str) -> tuple[int, ...]:
    """The partitions with a leader, in the last round that was written; none of a topic that is gone."""
    return cluster.led[-1].get(topic, ()) if cluster.led else ()


def test_the_table_has_room_again() -> None:
    """Topics that come and go do not let the table grow for ever."""
    cluster = one_topic(1)
    for number in range(4):
        cluster.layouts = {f"t{number}": TopicLayout(f"id{number}", tuple(range(60_000)))}
        cluster.ends = {(f"t{number}", n): PartitionEnds(0, 1, 1) for n in range(60_000)}
        cluster.round()
    cluster.layouts = {"t": TopicLayout("id", (0,))}
    cluster.ends = {("t", 0): PartitionEnds(0, 9, 9)}
    stated = cluster.round()[-2]
    assert isinstance(stated, TopicEnds)
    assert stated.place == 0
    assert read(cluster)[0].spans("t", 0)[-1].end == 9
