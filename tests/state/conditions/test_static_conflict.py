"""``static.conflict``: two processes with one instance id."""

from __future__ import annotations

from typing import Any

from groupreplay.state import Severity
from support.histories.builders import check
from support.histories.probed import MINUTE
from support.histories.slot_lives import START, said, takeovers


def test_two_processes_with_one_instance_id() -> None:
    """From A to B and back to A in ten minutes; not to a third place, and not more slowly."""
    found, events = said(takeovers((MINUTE, "/b"), (2 * MINUTE, "/a")), "static.conflict")
    assert found == [
        ("static.conflict", "firing", START + 2 * MINUTE),
        ("static.conflict", "resolved", START + 11 * MINUTE),
    ]
    fact: Any = events[0].fact
    check(fact, instance_id="i", places=("c@/a", "c@/b", "c@/a"))
    assert events[0].severity is Severity.ERROR
    assert said(takeovers((MINUTE, "/b"), (2 * MINUTE, "/c")), "static.conflict")[0] == []
    assert said(takeovers((MINUTE, "/b"), (11 * MINUTE, "/a")), "static.conflict")[0] == []
    assert said(takeovers((MINUTE, "/a"), (2 * MINUTE, "/a")), "static.conflict")[0] == []
