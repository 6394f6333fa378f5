"""States that releases stored are read, and the groups continue from there."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from groupreplay.streaming.engine import quarantine
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


#: The key and the state of each history after its first half.
POPULATION = {
    name: (history["key"], replay_half(history["key"], None, history["before"])[0])
    for name, history in STORED["histories"].items()
}


DAMAGED = "groupreplay.group.state_damaged.v1"


def flipped(blob: bytes | None, place: int) -> bytes:
    """The state with one bit flipped."""
    damaged = bytearray(blob or b"")
    damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged)


@pytest.mark.parametrize("name", POPULATION)
def test_a_flipped_bit_begins_the_state_anew(name: str) -> None:
    """Wherever the bit is: one event says so, nothing else is emitted, and nothing of the state is used."""
    key, blob = POPULATION[name]
    # All bits of the six bytes in front; then one of each byte, a different one each time.
    for place in {*range(48), *range(0, 8 * len(blob or b""), 9)}:
        result = advance(key.encode(), flipped(blob, place), [], now_ms=0, recorded_ms=None, context=CONTEXT)
        assert [event["type"] for event in events(result.rows)] == [DAMAGED]
        assert (len(result.rows), result.changed, result.deadline_ms) == (1, True, None)
        note = quarantine.read(result.blob)
        assert note is not None
        assert note.is_due(CONTEXT)


@settings(max_examples=settings.default.max_examples // 4)
@given(some.data())
def test_one_damaged_state_of_a_population(data: some.DataObject) -> None:
    """The key with the flipped bit says so once, and begins anew; all others have the events of always."""
    damaged = data.draw(some.sampled_from(sorted(POPULATION)))
    place = data.draw(some.integers(0, 8 * len(POPULATION[damaged][1] or b"") - 1))
    for name, (key, blob) in POPULATION.items():
        after = STORED["histories"][name]["after"]
        _, rows = replay_half(key, flipped(blob, place) if name == damaged else blob, after)
        if name == damaged:
            first, *later = (event["type"] for event in events(rows))
            assert first == DAMAGED
            assert not {DAMAGED, "groupreplay.group.quarantined.v1"} & set(later)
        else:
            assert bodies_of(rows) == bodies_of(replay_half(key, blob, after)[1])
