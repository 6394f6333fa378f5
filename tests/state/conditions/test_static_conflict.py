"""``static.conflict``: two processes with one instance id."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.state import Severity
from support.histories.builders import check
from support.histories.probed import MINUTE
from support.histories.slot_lives import START, said, takeovers


def test_two_processes_with_one_instance_id() -> None:
    """From A to B, back to A and to B again in ten minutes; over when only one return is left in the window."""
    places = ((MINUTE, "/b"), (2 * MINUTE, "/a"), (3 * MINUTE, "/b"))
    found, events = said(takeovers(*places), "static.conflict")
    assert found == [
        ("static.conflict", "firing", START + 3 * MINUTE),
        ("static.conflict", "resolved", START + 11 * MINUTE),
    ]
    fact: Any = events[0].fact
    check(fact, instance_id="i", places=("c@/a", "c@/b", "c@/a", "c@/b"))
    assert events[0].severity is Severity.ERROR


@pytest.mark.parametrize(
    "places",
    [
        ((MINUTE, "/b"),),  # a pod that was moved to another host
        ((MINUTE, "/b"), (2 * MINUTE, "/a")),  # and moved back
        ((MINUTE, "/b"), (2 * MINUTE, "/c"), (3 * MINUTE, "/d")),  # from node to node
        ((MINUTE, "/b"), (2 * MINUTE, "/a"), (11 * MINUTE, "/b")),  # too slowly
        ((MINUTE, "/a"), (2 * MINUTE, "/a"), (3 * MINUTE, "/a")),  # restarted in its place
    ],
)
def test_one_process_that_moves(places: tuple[tuple[int, str], ...]) -> None:
    """What one process explains is no conflict."""
    assert said(takeovers(*places), "static.conflict")[0] == []
