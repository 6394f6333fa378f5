"""The numbers of own messages rise, whatever is remembered and whatever the clock does."""

from __future__ import annotations

from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import GroupAnswer, encode_message
from groupreplay.streaming.watch.own_messages import OWN_TOPIC, MessageLog, OpenAnswers, open_answers

NOW_MS = 1_764_000_000_000


def offsets(own: MessageLog, count: int, at_ms: int) -> list[int]:
    """The offsets that so many messages get."""
    (batch,) = own.batch([(b"k", b"v")] * count, at_ms)
    assert batch.schema == ROW_SCHEMA
    assert set(batch["topic"].to_pylist()) == {OWN_TOPIC}
    numbers: list[int] = batch["offset"].to_pylist()
    return numbers


def test_numbers_rise() -> None:
    """From the time on, also when the clock goes back; without messages there is no batch."""
    own = MessageLog(0)
    assert own.batch([], NOW_MS) == []
    assert offsets(own, 2, NOW_MS) == [NOW_MS, NOW_MS + 1]
    assert offsets(own, 1, NOW_MS - 60_000) == [NOW_MS + 2]
    assert offsets(own, 1, NOW_MS + 50) == [NOW_MS + 50]
    # The next process, with what the last one has left, and with nothing.
    assert offsets(MessageLog(own.next_offset), 1, NOW_MS - 60_000) == [NOW_MS + 51]
    assert offsets(MessageLog(0), 1, NOW_MS + 5_000) == [NOW_MS + 5_000]


def answer(at_ms: int, state: str = "PreparingRebalance") -> tuple[bytes, bytes]:
    """What the prober writes about the group g."""
    message = GroupAnswer(
        cluster_id="c",
        group_id="g",
        taken_ms=at_ms - 1,
        answered_ms=at_ms,
        state=state,
        broker=1,
        protocol_type=None,
        protocol=None,
    )
    return encode_message(message)


def test_the_answer_that_began_a_rebalance_is_kept() -> None:
    """And the latest ones; those before the present rebalance go when its document has its begin, all at its end."""
    answers = OpenAnswers({})
    kept = [answers.take([answer(at_ms)], [])["g"] for at_ms in range(1_000, 1_100)]
    assert open_answers(kept[-1])[0] == answer(1_000)
    assert open_answers(kept[-1])[-1] == answer(1_099)
    assert len(open_answers(kept[-1])) < 30
    # No round has seen that the first rebalance had ended.
    document = OutputRow(Output.STATES, b"g", b'{"since_ms":1098}')
    left = OpenAnswers({"g": kept[-1]}).take([], [document])["g"]
    assert open_answers(left) == (answer(1_098), answer(1_099))
    ended = OpenAnswers({"g": left})
    assert ended.take([answer(1_200, "Stable")], []) == {"g": b""}
    assert ended.take([answer(1_201, "Stable")], [document]) == {}
