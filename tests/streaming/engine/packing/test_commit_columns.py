"""Commits decoded many at once, held against the scalar decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import ZERO_UUID, OffsetCommitKey, OffsetCommitValue, decode_value
from groupreplay.state.stored_form import bounded_text
from groupreplay.streaming.engine.packing.commit_columns import CommitColumns, decode_regular
from groupreplay.streaming.engine.packing.key_columns import BinaryColumn
from support.histories.raw_records import commit, random_log

KEY = OffsetCommitKey(group="g", topic="t", partition=0)


def decoded(values: list[bytes]) -> CommitColumns:
    """The columns of these values."""
    column = BinaryColumn.of(pa.array(values, pa.large_binary()))
    return decode_regular(column, np.ones(len(values), bool))


def value_at(columns: CommitColumns, row: int, version: int) -> OffsetCommitValue:
    """The commit at a row as the scalar decoder would give it."""
    return OffsetCommitValue(
        version=version,
        offset=int(columns.offset[row]),
        leader_epoch=int(columns.leader_epoch[row]),
        metadata=columns.metadata(row),
        commit_timestamp_ms=int(columns.commit_timestamp_ms[row]),
        expire_timestamp_ms=int(columns.expire_timestamp_ms[row]),
        topic_id=columns.topic_id(row),
    )


def stored(value: bytes) -> Any:
    """What the scalar decoder gives, with the metadata as the state has it."""
    found = decode_value(KEY, value)
    return (
        replace(found, metadata=bounded_text(found.metadata))
        if isinstance(found, OffsetCommitValue)
        else found
    )


def test_what_is_decoded_is_what_the_scalar_decoder_gives() -> None:
    """Every value of a random log that counts as regular is decoded to the same fields."""
    values = [raw.value for raw in random_log(2, 5_000) if raw.value]
    columns = decoded(values)
    regular = np.flatnonzero(columns.is_commit).tolist()
    assert len(regular) > 2_000
    for row in regular:
        assert value_at(columns, row, values[row][1]) == stored(values[row])


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_no_bytes_are_taken_for_something_else(values: list[bytes]) -> None:
    """Arbitrary bytes never raise, and are regular only when the scalar decoder agrees to the last field."""
    columns = decoded(values)
    for row in np.flatnonzero(columns.is_commit).tolist():
        assert value_at(columns, row, values[row][1]) == stored(values[row])


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("length", [0, 1, 126, 127, 4096, 16_382])
def test_the_usual_values_are_regular(version: int, length: int) -> None:
    """The quick path takes what brokers write: each version, with metadata of ASCII or without."""
    value = commit(version=version, offset=5, metadata="m" * length)[1]
    columns = decoded([value])
    assert columns.is_commit.tolist() == [True]
    assert value_at(columns, 0, version) == stored(value)


def test_the_odd_values_are_left_alone() -> None:
    """Text beyond ASCII, three bytes of length, bytes left over, unknown tags: for the scalar decoder."""
    plain = commit()[1]
    odd = [
        commit(metadata="é")[1],
        commit(metadata="m" * 16_383)[1],
        # A length of 4 written in two bytes.
        plain[:14] + b"\x85\x00" + b"meta" + plain[15:],
        plain + b"x",
        plain[:-1] + b"\1\5\1x",
        plain[:9],
    ]
    assert decoded(odd).is_commit.tolist() == [False] * len(odd)


def test_a_value_of_the_scalar_decoder_can_be_put_in() -> None:
    """Odd commits are folded with the others once the scalar decoder has read them."""
    odd = commit(metadata="é", offset=7)[1]
    columns = decoded([odd])
    value = decode_value(KEY, odd)
    assert isinstance(value, OffsetCommitValue)
    columns.put(0, value)
    assert value_at(columns, 0, 4) == value
    assert value.topic_id == ZERO_UUID
