"""What a group at work is told of does not depend on how its records were read: the same bytes, also inside a run."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.engine.test_live import Batch, Told, followed, replayed
from support.histories.raw_records import Raw
from support.histories.working_lives import working
from support.job.captures import raw
from support.job.replays import named


def read_in_batches(records: list[Raw], cuts: set[int], seed: int, end_ms: int) -> Told:
    """Read with these cuts, in each of which time may be told to have passed up to the next record."""
    draw, batches = random.Random(seed), list[tuple[Batch, int | None]]()
    for begin, end in pairwise(sorted({0, *cuts, len(records)})):
        coming_ms = records[end].timestamp_ms if end < len(records) else None
        tick_ms = None if coming_ms is None else draw.choice((None, coming_ms, coming_ms - 1_000))
        batches.append((Batch(records[begin:end]), tick_ms))
    return followed(batches, end_ms)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_any_batches_are_one_replay(seed: int, count: int) -> None:
    """Members fall silent and go on, offsets stay and move: events with their ids, documents and groups."""
    records = raw(working(seed, minutes=50))
    told, end_ms = replayed(Batch(records))
    cuts = {*random.Random(seed).sample(range(1, len(records)), count)}
    assert read_in_batches(records, cuts, seed, end_ms) == told


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(40))
def test_any_batches_of_many_lives_are_one_replay(seed: int) -> None:
    """Longer ones, in few batches, in many, and in one for each request."""
    records = raw(working(seed, minutes=120))
    told, end_ms = replayed(Batch(records))
    for count in (1, 30, 500):
        cuts = {*random.Random(seed).sample(range(1, len(records)), count)}
        assert read_in_batches(records, cuts, seed, end_ms) == told
    requests = {
        place
        for place, (before, after) in enumerate(pairwise(records), start=1)
        if before.timestamp_ms != after.timestamp_ms
    }
    assert read_in_batches(records, requests, seed, end_ms) == told


def test_the_lives_have_what_they_are_for() -> None:
    """Both conditions that commits begin and end begin and end in them, most of them inside one run."""
    told, _ = replayed(Batch(raw(working(3, minutes=90))))
    for name in ("owner.silent", "partition.poison"):
        found = named(told.events, name)
        assert {event["data"]["status"] for event in found} == {"firing", "resolved"}, name
    rounds = {event["time"] for event in named(told.events, "rebalance.completed")}
    ends = {event["time"] for event in named(told.events, "owner.silent")}
    assert len(ends - rounds) > len(ends) // 2
