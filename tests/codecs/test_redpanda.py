"""Redpanda's dialect: each record of a group, rewritten by its rules, is read as Kafka's bytes are."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    Malformed,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from groupreplay.codecs.kafka_json import to_json
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from support.histories.builders import generation, member
from support.histories.redpanda import dialect, rewritten
from support.simulated.renderings import changed, simulated_log

KEY = GroupMetadataKey(group="g")


@pytest.mark.parametrize("scenario", ["mixed", "deployment"])
def test_a_whole_log(scenario: str) -> None:
    """Every event of every generation, and every loss of an offset, is the same to the byte."""
    log = simulated_log(scenario, 20, 1_800_000, 3)
    whole = changed(log, lambda rows: rows)
    redpanda = changed(log, rewritten)
    assert whole.batches != redpanda.batches
    both = [
        list(events_in_order(Replay(one.context).feed(one.rows()), Filter())) for one in (whole, redpanda)
    ]
    assert both[0] == both[1]
    assert len(both[0]) > 20


def test_it_is_marked() -> None:
    """The JSON names the dialect, and has the fields that Kafka's own bytes have; those are not marked."""
    value = generation(7, member("a-1", [0, 1], instance_id="i"), member("b-1", [2]), at=1_000).value
    assert isinstance(value, GroupMetadataValue)
    own, other = (decode_value(KEY, raw) for raw in (encode_value(value), dialect(value)))
    assert (own, other) == (value, value)
    assert isinstance(own, GroupMetadataValue)
    assert isinstance(other, GroupMetadataValue)
    marked = to_json(KEY, other)["value"]
    assert marked.pop("dialect") == "redpanda"
    assert marked == to_json(KEY, own)["value"]


@given(st.integers(1, 60), st.binary(min_size=1, max_size=3))
def test_only_if_every_byte_is_used(cut: int, more: bytes) -> None:
    """A value with a byte missing, or left over, stays malformed as Kafka's reading found it."""
    value = generation(7, member("a-1", [0]), member("bb-1", [1]), at=1_000).value
    assert isinstance(value, GroupMetadataValue)
    raw = dialect(value)
    assert isinstance(decode_value(KEY, raw[:-cut]), Malformed)
    assert isinstance(decode_value(KEY, raw + more), Malformed)


def test_a_key_with_its_length() -> None:
    """It is the key itself; a length that is another one is none."""
    raw = encode_key(KEY)
    assert decode_key(struct.pack("<I", len(raw)) + raw) == KEY
    assert not isinstance(decode_key(struct.pack("<I", len(raw) + 1) + raw), GroupMetadataKey)
