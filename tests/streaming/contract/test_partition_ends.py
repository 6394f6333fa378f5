"""The ends of partitions in the topic of probes, both ways."""

from __future__ import annotations

import json

import pytest

from groupreplay.state.job.observations import ObservationPlace
from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import decode_message, encode_message

TOPIC = TopicEnds(
    cluster_id="c",
    writer="w",
    number=3,
    taken_ms=5,
    answered_ms=7,
    topic="größe",
    topic_id="id",
    partitions={0: PartitionEnds(1, 9, 8, epoch=4), 1: PartitionEnds(0, 0, 0)},
    unknown={2: "no leader"},
)
ROUND = EndsRound(cluster_id="c", writer="w", number=3, taken_ms=5, answered_ms=7, topics=1, partitions=3)


def test_both_ways() -> None:
    """A topic's messages have its name as key, so that they stay in order; partitions are short lists."""
    key, value = encode_message(TOPIC)
    assert key == b"\0gr\xc3\xb6\xc3\x9fe"
    assert json.loads(value)["partitions"] == {"0": [1, 9, 8, 4, 0], "1": [0, 0, 0, -1, 0]}
    assert [decode_message(*encode_message(message)) for message in (TOPIC, ROUND)] == [TOPIC, ROUND]
    assert encode_message(ROUND)[0] == b"\0"


def test_ends_without_an_epoch() -> None:
    """Three numbers are ends, too: the epoch of the leader is then not known."""
    key, value = encode_message(TOPIC)
    message = decode_message(key, value.replace(b"[1,9,8,4,0]", b"[1,9,8]"))
    assert isinstance(message, TopicEnds)
    assert message.partitions[0] == PartitionEnds(1, 9, 8, epoch=-1)


@pytest.mark.parametrize("message", [TOPIC, ROUND])
def test_they_are_no_input_of_the_operator(message: TopicEnds | EndsRound) -> None:
    """No group and no job learns of them: through the operator one end would go to all groups that read the topic."""
    assert message.observation(ObservationPlace("group-probes", 0, 1), 9) is None
    assert message.dated_ms == 7


@pytest.mark.parametrize(
    "ends", ["[0,-1,0]", "[0,9,9,-2]", "[0,9,9,0,-1]", "[0,9,9]x", '["0",1,1]', "[0,99999999999999999999,0]"]
)
def test_other_numbers_are_no_message(ends: str) -> None:
    """What other programs write is left out, and never raises."""
    key, value = encode_message(TOPIC)
    assert decode_message(key, value.replace(b"[1,9,8,4,0]", ends.encode())) is None
