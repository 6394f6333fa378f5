"""The numbers of own messages rise, whatever is remembered and whatever the clock does."""

from __future__ import annotations

from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.watch.own_messages import OWN_TOPIC, MessageLog

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
