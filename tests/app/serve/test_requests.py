"""Places that clients share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from groupreplay.app.serve.requests import RequestError, Shares


def test_nobody_has_more_than_is_left() -> None:
    """One client alone gets half, the next one half of the rest; 429 names the address, 503 the whole."""
    shares = Shares(8, "open streams")
    taken: dict[str, int] = {}
    refused: dict[str, tuple[int, str]] = {}
    with ExitStack() as places:
        for client in ("a", "b", "c", "d", "e"):
            for number in range(9):
                try:
                    places.enter_context(shares.place(client))
                except RequestError as error:
                    refused[client] = (error.status, error.why)
                    break
                taken[client] = number + 1
    assert taken == {"a": 4, "b": 2, "c": 1, "d": 1}
    of_address = (429, "too many open streams of this address")
    assert refused == {
        "a": of_address,
        "b": of_address,
        "c": of_address,
        "d": (503, "too many open streams"),
        "e": (503, "too many open streams"),
    }


def test_a_place_is_given_back() -> None:
    """Also after a failure."""
    shares = Shares(1, "open streams")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), shares.place("a"):
            raise ZeroDivisionError
    with shares.place("a"):
        pass
    assert shares._held == {}
