"""States that earlier commits stored are read, and the groups continue from there."""

from __future__ import annotations

from base64 import b64decode

import pytest

from support.job.stored_states import bodies_of, events, load, replay_half

STORED = load()
CASES = [(commit, name) for commit, states in STORED["states"].items() for name in states]


@pytest.mark.parametrize(("commit", "name"), CASES)
def test_a_state_of_an_earlier_commit(commit: str, name: str) -> None:
    """The events and documents are the same as from this commit's own state."""
    history = STORED["histories"][name]
    unbroken, _ = replay_half(history["key"], None, history["before"])
    assert unbroken is not None
    _, expected = replay_half(history["key"], unbroken, history["after"])
    _, rows = replay_half(history["key"], b64decode(STORED["states"][commit][name]), history["after"])
    assert bodies_of(rows) == bodies_of(expected)


def test_the_histories_have_events() -> None:
    """Both halves of each have events, and the second half needs the state of the first."""
    for name, history in STORED["histories"].items():
        blob, before = replay_half(history["key"], None, history["before"])
        _, after = replay_half(history["key"], blob, history["after"])
        _, forgotten = replay_half(history["key"], None, history["after"])
        assert events(before), name
        assert bodies_of(after) != bodies_of(forgotten), name
