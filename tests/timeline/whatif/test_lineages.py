"""Which members are one client that came back, and the rhythm of a member's commits."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.timeline.whatif.lineages import Lineages, regular_commit_ms
from groupreplay.timeline.whatif.recorded import recorded
from support.histories.builders import commit, generation, member
from support.histories.played import BEGIN, SECOND, commits, history_of, restarted


@pytest.mark.parametrize(
    ("names", "clients", "by_client_id"),
    [
        ({}, {"a1": 0, "b1": 1, "b2": 1}, 0),
        ({"host": "/10.9.9.9"}, {"a1": 0, "b1": 1, "b2": 1}, 1),
        ({"client_id": "c"}, {"a1": 0, "b1": 1, "b2": 2}, 0),
    ],
)
def test_by_client_id_and_host(names: dict[str, Any], clients: dict[str, int], by_client_id: int) -> None:
    """The same client id and host; only the client id, which is counted; or a new client."""
    known = recorded(history_of(restarted(**names), 180 * SECOND))
    assert known is not None
    lineages = Lineages.of(known)
    assert (lineages.client_of, lineages.by_client_id) == (clients, by_client_id)


def test_by_instance_id() -> None:
    """Through a replacement, and through a generation without it; the host does not matter."""
    first, second = member("x1", (0,), instance_id="x"), member("x2", (0,), instance_id="x")
    third = member("x3", (0,), instance_id="x", host="/10.9.9.9")
    other = member("y1", (1,), instance_id="y")
    records = [
        generation(1, first, other, at=BEGIN),
        generation(1, second, other, at=BEGIN + 10 * SECOND),
        generation(2, other, at=BEGIN + 60 * SECOND),
        generation(3, third, other, at=BEGIN + 90 * SECOND),
    ]
    known = recorded(history_of(records, 120 * SECOND))
    assert known is not None
    assert Lineages.of(known).client_of == {"x1": 0, "y1": 1, "x2": 0, "x3": 0}


def test_a_commit_before_a_join_is_no_part_of_it() -> None:
    """B commits at 57.5 s, before the join phase that ends at 60 s; its first regular commit is that at 62 s."""
    a, b = member("a", (0,)), member("b", (1,))
    records = [
        generation(1, a, b, at=BEGIN + 54 * SECOND),
        *commits(0, 1 * SECOND, 90 * SECOND),
        commit("t", 1, 1, at=BEGIN + 57_500),
        generation(2, a, b, at=BEGIN + 60 * SECOND),
        *commits(1, 62 * SECOND, 90 * SECOND),
    ]
    known = recorded(history_of(records, 90 * SECOND))
    assert known is not None
    assert regular_commit_ms(known, "b", BEGIN + 54 * SECOND) == BEGIN + 62 * SECOND


def test_a_single_commit_where_there_is_no_pair() -> None:
    """The member was there for less than two usual times; without a commit there is no rhythm."""
    a, b = member("a", (0,)), member("b", (1,))
    records = [
        generation(1, a, b, at=BEGIN),
        *commits(0, 1 * SECOND, 90 * SECOND),
        commit("t", 1, 1, at=BEGIN + 3 * SECOND),
        generation(2, a, at=BEGIN + 9 * SECOND),
    ]
    known = recorded(history_of(records, 90 * SECOND))
    assert known is not None
    assert regular_commit_ms(known, "b", BEGIN) == BEGIN + 3 * SECOND
    assert regular_commit_ms(known, "b", BEGIN + 9 * SECOND) is None
