"""Many small numbers in few bits: as many as their entropy, also where that is less than one bit a number.

An interleaved range coder (rANS) with the frequencies of the message itself. What a number is likely to be follows from
its context: how large the numbers of the same place were before, and those of the places in front of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from groupreplay.streaming.contract.end_columns import Ints

#: Columns of coded numbers: frequencies, states of the lanes, words, and the lower bits of large numbers.
COLUMNS: Final = 4
#: Numbers below this one are symbols of their own; of others the symbol is the count of bits.
_DIRECT: Final = 8
_SYMBOLS: Final = 68
_POWERS: Final = np.int64(1) << np.arange(63, dtype=np.int64)
#: Where the activity of a place begins to be another context; in front of it are four contexts by neighbours.
_ACTIVITIES: Final = np.array([1, 6, 14, 26, 44], np.int64)
_NEAR: Final = 4
_CONTEXTS: Final = _NEAR * (len(_ACTIVITIES) + 1)
#: Frequencies have a sum of 2 to this power. States are at least 2**16 and below 2**32.
_PRECISION: Final = 12
_LEAST_STATE: Final = 1 << 16
#: Each lane takes six bytes, and each of its places a step of the interpreter.
_PLACES_A_LANE: Final = 3_000


def next_activity(activity: Ints, values: Ints) -> Ints:
    """How large the numbers of each place are lately."""
    return activity + ((16 * np.minimum(values, _DIRECT - 1) - activity) >> 3)


def coded(values: Ints, activity: Ints) -> list[Ints]:
    """Numbers from 0 on as columns; ``decoded`` needs the same activity."""
    lengths = np.searchsorted(_POWERS, values, "right")
    bits = np.where(values < _DIRECT, 0, lengths - 1)
    symbols = _in_lanes(np.where(values < _DIRECT, values, 4 + lengths))
    contexts = _in_lanes(_own_context(activity))
    small = np.minimum(symbols, 3)
    before = np.vstack([np.zeros((2, small.shape[1]), np.int64), small])
    contexts = contexts + ((before[1:-1] + before[:-2] + 1) >> 1)
    frequencies = _frequencies(contexts, symbols)
    states, words = _encoded(frequencies[contexts, symbols], _sums(frequencies)[contexts, symbols])
    return [frequencies.reshape(-1), states, words, _lower_bits(values, bits)]


def decoded(columns: list[Ints], activity: Ints) -> Ints:
    """The inverse of ``coded``.

    Raises:
        ValueError: these are other columns, or it was another activity.
    """
    table, states, words, packed = columns
    if len(table) != _CONTEXTS * _SYMBOLS or len(states) != _lanes(len(activity)):
        raise ValueError("the columns are not those of symbols")
    frequencies = table.reshape(_CONTEXTS, _SYMBOLS)
    sums = frequencies.sum(axis=1)
    if frequencies.min() < 0 or np.any((sums != 0) & (sums != 1 << _PRECISION)):
        raise ValueError("the frequencies have another sum")
    symbols = _decoded(frequencies, states, words, _in_lanes(_own_context(activity)))
    values = symbols.T.reshape(-1)[: len(activity)].copy()
    large = np.flatnonzero(values >= _DIRECT)
    bits = values[large] - 5
    values[large] = (np.int64(1) << bits) + _upper_numbers(packed, bits)
    return values


def _lanes(count: int) -> int:
    return 1 + count // _PLACES_A_LANE


def _in_lanes(values: Ints) -> Ints:
    """A row for each step, with one place of each lane."""
    lanes = _lanes(len(values))
    steps = -(-len(values) // lanes)
    padded = np.zeros(lanes * steps, np.int64)
    padded[: len(values)] = values
    return np.ascontiguousarray(padded.reshape(lanes, steps).T)


def _own_context(activity: Ints) -> Ints:
    return _NEAR * np.searchsorted(_ACTIVITIES, activity, "right").astype(np.int64)


def _frequencies(contexts: Ints, symbols: Ints) -> Ints:
    pairs = (contexts * _SYMBOLS + symbols).reshape(-1)
    counts = np.bincount(pairs, minlength=_CONTEXTS * _SYMBOLS).reshape(_CONTEXTS, _SYMBOLS)
    totals = counts.sum(axis=1, keepdims=True)
    shares = ((counts << _PRECISION) + totals // 2) // np.maximum(totals, 1)
    frequencies = np.where(counts > 0, np.maximum(shares, 1), 0)
    used = np.flatnonzero(totals)
    most = frequencies[used].argmax(axis=1)
    frequencies[used, most] += (1 << _PRECISION) - frequencies[used].sum(axis=1)
    return frequencies.astype(np.int64)


def _sums(frequencies: Ints) -> Ints:
    return np.cumsum(frequencies, axis=1) - frequencies


def _encoded(frequencies: Ints, sums: Ints) -> tuple[Ints, Ints]:
    """The last states, and the words in the order in which they are read: numbers are written from the last one on."""
    state = np.full(frequencies.shape[1], _LEAST_STATE, np.int64)
    words = list[Ints]()
    # A symbol that is certain changes nothing.
    for step in np.flatnonzero((frequencies != 1 << _PRECISION).any(axis=1))[::-1]:
        frequency = frequencies[step]
        is_full = state >= frequency << (32 - _PRECISION)
        if is_full.any():
            words.append(state[is_full] & 0xFFFF)
            state[is_full] >>= 16
        quotient, rest = np.divmod(state, frequency)
        state = (quotient << _PRECISION) + rest + sums[step]
    return state, np.concatenate(words[::-1]) if words else np.zeros(0, np.int64)


def _decoded(frequencies: Ints, states: Ints, words: Ints, contexts: Ints) -> Ints:
    sums, slots = _sums(frequencies), _slots(frequencies)
    state, at = states.copy(), 0
    symbols = np.zeros_like(contexts)
    before = near = np.zeros(len(states), np.int64)
    for step, own in enumerate(contexts):
        context = own + ((before + near + 1) >> 1)
        slot = state & ((1 << _PRECISION) - 1)
        symbols[step] = symbol = slots[context, slot]
        state = frequencies[context, symbol] * (state >> _PRECISION) + slot - sums[context, symbol]
        is_low = state < _LEAST_STATE
        if is_low.any():
            last = at + int(np.count_nonzero(is_low))
            if last > len(words):
                raise ValueError("the words are cut off")
            state[is_low] = (state[is_low] << 16) | words[at:last]
            at = last
        before, near = near, np.minimum(symbol, 3)
    if at != len(words) or np.any(state != _LEAST_STATE):
        raise ValueError("the words are those of other numbers")
    return symbols


def _slots(frequencies: Ints) -> Ints:
    """By context and the lower bits of a state: the symbol."""
    slots = np.zeros((_CONTEXTS, 1 << _PRECISION), np.int64)
    for context in np.flatnonzero(frequencies.sum(axis=1)):
        slots[context] = np.repeat(np.arange(_SYMBOLS), frequencies[context])
    return slots


def _shifts(bits: Ints) -> Ints:
    """Of each bit of all numbers its power, from the highest one of each on."""
    return np.repeat(np.cumsum(bits), bits) - np.arange(int(bits.sum())) - 1


def _lower_bits(values: Ints, bits: Ints) -> Ints:
    single = (np.repeat(values, bits) >> _shifts(bits)) & 1
    return np.packbits(single.astype(np.uint8)).astype(np.int64)


def _upper_numbers(packed: Ints, bits: Ints) -> Ints:
    count = int(bits.sum())
    if len(packed) != -(-count // 8):
        raise ValueError("the lower bits are cut off")
    single: NDArray[np.uint8] = np.unpackbits(packed.astype(np.uint8))[:count]
    if not count:
        return np.zeros(0, np.int64)
    return np.add.reduceat(single.astype(np.int64) << _shifts(bits), np.cumsum(bits) - bits)
