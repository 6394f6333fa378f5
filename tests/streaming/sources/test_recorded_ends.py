"""The recorded ends, from the messages of the topic of probes to the spans of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage
from groupreplay.streaming.sources.recorded_ends import RecordedEnds, recorded_ends
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.lag import EndSpan
from support.job.captures import CLUSTER_ID
from support.job.probes import beat, ends_round, probes_batch, topic_ends

FIVE, NINE = PartitionEnds(1, 5, 4), PartitionEnds(1, 9, 9)
SECOND = 1_000


def changed(number: int, partitions: Mapping[int, PartitionEnds], **more: Any) -> TopicEnds:
    """Round N begins N seconds after 1970 and takes 100 ms."""
    return topic_ends(number, partitions, taken_ms=number * SECOND, **more)


def complete(number: int, **more: Any) -> EndsRound:
    """The message of a round."""
    return ends_round(number, taken_ms=number * SECOND, **more)


def span(ends: PartitionEnds, first_ms: int, last_ms: int, topic_id: str = "id") -> EndSpan:
    """A span with these ends."""
    return EndSpan(
        topic_id=topic_id,
        first_ms=first_ms,
        last_ms=last_ms,
        start=ends.start,
        end=ends.end,
        stable=ends.stable,
    )


def spans(*messages: ProbeMessage | None, partition: int = 0) -> tuple[EndSpan, ...]:
    """What is known of a partition from these messages."""
    ends = RecordedEnds(CLUSTER_ID)
    for message in messages:
        ends.add(message)
    return ends.spans("t", partition)


HISTORY = [
    changed(1, {0: FIVE, 1: FIVE}),
    *map(complete, (1, 2, 3)),
    changed(4, {0: NINE}),
    *map(complete, (4, 5)),
]


def test_what_a_round_does_not_name_is_unchanged() -> None:
    """A value goes on to the last complete round before the next change."""
    assert spans(*HISTORY) == (span(FIVE, 1_100, 3_000), span(NINE, 4_100, 5_000))
    assert spans(*HISTORY, partition=1) == (span(FIVE, 1_100, 5_000),)
    assert spans(*HISTORY, partition=7) == ()


@given(st.permutations(HISTORY))
def test_the_order_of_the_messages_does_not_matter(messages: list[ProbeMessage]) -> None:
    """The topic may have several partitions, which are read one after the other."""
    assert spans(*messages) == spans(*HISTORY)


def test_a_round_without_its_message() -> None:
    """It was not written to its end: what it has changed counts, and nothing is said about the rest."""
    assert spans(changed(1, {0: FIVE}), complete(1), changed(2, {1: NINE})) == (span(FIVE, 1_100, 1_000),)


def test_each_process_goes_on_from_its_own_rounds() -> None:
    """A prober that has ended does not vouch for the time after it; two at once are told apart."""
    other = [changed(7, {0: FIVE}, writer="x"), *(complete(number, writer="x") for number in (7, 8))]
    assert spans(changed(1, {0: FIVE}), complete(1), complete(2), *other) == (
        span(FIVE, 1_100, 2_000),
        span(FIVE, 7_100, 8_000),
    )


def test_deleted_and_created_again() -> None:
    """The topic's id tells the two apart; in between there is a reason and no end."""
    messages = [
        changed(1, {0: FIVE}),
        changed(2, {}, gone=True),
        changed(4, {0: FIVE}, topic_id="new"),
        *map(complete, (1, 2, 3, 4)),
    ]
    gone = EndSpan(
        topic_id="id",
        first_ms=2_100,
        last_ms=3_000,
        unknown="the topic was deleted, or may no longer be described",
    )
    assert spans(*messages) == (span(FIVE, 1_100, 1_000), gone, span(FIVE, 4_100, 4_000, "new"))


def test_a_partition_without_an_answer() -> None:
    """The reason stands where the ends would."""
    messages = [changed(1, {0: FIVE}), changed(2, {}, unknown={0: "no leader"}), complete(1), complete(2)]
    silent = EndSpan(topic_id="id", first_ms=2_100, last_ms=2_000, unknown="no leader")
    assert spans(*messages) == (span(FIVE, 1_100, 1_000), silent)


def test_other_messages() -> None:
    """Those of another cluster and those about other things are left out."""
    assert spans(changed(1, {0: FIVE}, cluster_id="other"), beat(at=1, caught_up=1), None) == ()


def test_the_ends_of_now() -> None:
    """What a leader answers at the moment is the last span."""
    ends = RecordedEnds(CLUSTER_ID)
    assert not ends
    ends.add(changed(1, {0: FIVE}))
    ends.add_now("id", "t", 0, NINE, 9_000)
    assert (bool(ends), ends.spans("t", 0)) == (True, (span(FIVE, 1_100, 1_000), span(NINE, 9_000, 9_000)))


def test_the_probes_of_rows_are_read_once() -> None:
    """Whoever reads the probes reads the same batches, and the ends are known behind them."""
    batch = probes_batch([*HISTORY, beat(at=1, caught_up=1), (b"k", b"v")])
    ends, rows = recorded_ends(Rows(CLUSTER_ID, "era", iter(()), probes=[batch]))
    assert (list(rows.probes), bool(ends)) == ([batch], True)
    assert ends.spans("t", 0) == spans(*HISTORY)
