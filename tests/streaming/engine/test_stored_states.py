"""A checkpoint of an earlier commit goes on: what it kept of a group is read, and the story is told to its end."""

from __future__ import annotations

from base64 import b64decode

import pytest

from support.job.stored_states import events, lived, load, said

STORED = load()
CASES = [(commit, name) for commit, states in STORED["states"].items() for name in states]


@pytest.mark.parametrize(("commit", "name"), CASES)
def test_a_state_of_an_earlier_commit(commit: str, name: str) -> None:
    """It goes on with the events, documents and deadlines of a state that was never written down."""
    history = STORED["histories"][name]
    unbroken, _ = lived(history["key"], None, history["before"])
    assert unbroken is not None
    _, expected = lived(history["key"], unbroken, history["after"])
    _, rows = lived(history["key"], b64decode(STORED["states"][commit][name]), history["after"])
    assert said(rows) == said(expected)


def test_the_histories_say_something() -> None:
    """Both halves of each, so that a state that was lost would be missed."""
    for name, history in STORED["histories"].items():
        blob, before = lived(history["key"], None, history["before"])
        _, after = lived(history["key"], blob, history["after"])
        _, forgotten = lived(history["key"], None, history["after"])
        assert events(before), name
        assert said(after) != said(forgotten), name
