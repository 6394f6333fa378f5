"""States that releases stored are read, and the groups continue from there."""

from __future__ import annotations

from base64 import b64decode

import pytest

from groupreplay.state import SnapshotError
from groupreplay.streaming.engine.advance import advance
from support.stored.states import CONTEXT, bodies_of, events, known_to_all, load, replay_half

STORED = load()
CASES = [(version, name) for version, states in STORED["states"].items() for name in states]


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_state_of_a_release(version: str, name: str) -> None:
    """Events and documents are the same as from a state of now, but for what was not stored then."""
    history = STORED["histories"][name]
    unbroken, _ = replay_half(history["key"], None, history["before"])
    assert unbroken is not None
    expected = known_to_all(history["key"], unbroken, history["after"])
    stored = b64decode(STORED["states"][version][name])
    assert known_to_all(history["key"], stored, history["after"]) == expected


def test_the_histories_have_events() -> None:
    """Both halves of each have events, and the second half needs the state of the first."""
    for name, history in STORED["histories"].items():
        blob, before = replay_half(history["key"], None, history["before"])
        _, after = replay_half(history["key"], blob, history["after"])
        _, forgotten = replay_half(history["key"], None, history["after"])
        assert events(before), name
        assert bodies_of(after) != bodies_of(forgotten), name


@pytest.mark.parametrize("name", STORED["histories"])
def test_a_flipped_bit_ends_the_call(name: str) -> None:
    """Nothing is emitted and nothing is quarantined, wherever the bit is: the state is refused."""
    history = STORED["histories"][name]
    blob, _ = replay_half(history["key"], None, history["before"])
    assert blob is not None
    for place in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(SnapshotError):
            advance(history["key"].encode(), bytes(damaged), [], now_ms=0, recorded_ms=None, context=CONTEXT)
