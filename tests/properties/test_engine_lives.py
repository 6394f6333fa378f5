"""Several lives of one name in the engine: batches, ticks and restarts between them change no event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import OffsetCommitKey
from groupreplay.streaming.engine.live import KeyState, Live
from streaming.engine.test_live import CONTEXT, Batch, Told, replayed, split
from support.histories.builders import PARTITION, Raw, gone, no_offset
from support.histories.raw_records import Raw as RawBytes
from support.histories.strategies import WrittenLog, histories, logs, outlived
from support.job.captures import in_bytes

#: Between two lives: less than a minute, in which an event is not repeated, and more.
PAUSES_MS = (10, 5_000, 50_000, 70_000, 4_000_000)


def _ended(life: Sequence[Raw]) -> list[Raw]:
    """The tombstones of everything that a life has written, in one operation after it."""
    at, offset = life[-1].at + 5, life[-1].offset + 2
    places = {(one.key.topic, one.key.partition) for one in life if isinstance(one.key, OffsetCommitKey)}
    records = [*(no_offset(*place, at=at) for place in sorted(places)), gone(at=at)]
    return [replace(one, offset=offset + number) for number, one in enumerate(records)]


@st.composite
def lives(draw: Any) -> list[Raw]:
    """Two or three lives of one name, each to its end, in one log."""
    records, at, offset = list[Raw](), 1_000, 10
    for _ in range(draw(st.integers(2, 3))):
        life = draw(histories().map(WrittenLog) | logs() | outlived().map(WrittenLog)).records
        behind_ms, behind = at - life[0].at, offset - life[0].offset
        moved = [replace(one, at=one.at + behind_ms, offset=one.offset + behind) for one in life]
        records += [*moved, *_ended(moved)]
        at, offset = records[-1].at + draw(st.sampled_from(PAUSES_MS)), records[-1].offset + 2
    return records


def restarted(batches: Sequence[tuple[Batch, int | None]], end_ms: int) -> Told:
    """Of batches, each read by another engine, which knows what the one before had changed."""
    told, live, states = Told(), Live(CONTEXT), dict[bytes, KeyState]()
    for batch, tick_ms in batches:
        told.add(live.take(batch.rows()))
        if tick_ms is not None:
            told.add(live.tick(tick_ms))
        states |= {state.key: state for state in live.changes()}
        waiting, live = live.waiting(), Live(CONTEXT)
        live.restore(states.values(), waiting)
    told.add(live.tick(end_ms))
    return told.at_end(live)


@given(records=lives(), data=st.data())
def test_restarts_between_lives_change_nothing(records: list[Raw], data: st.DataObject) -> None:
    """The engine and what it stores, which is nothing of a group that is gone."""
    whole = Batch([RawBytes(PARTITION, one.offset, one.at, *in_bytes(one)) for one in records])
    told, end_ms = replayed(whole)
    assert restarted(split(data, whole), end_ms) == told
