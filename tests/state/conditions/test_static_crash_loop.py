"""``static.crash_loop``: a static member that starts again and again."""

from __future__ import annotations

from typing import Any

from groupreplay.state import Severity
from support.histories.builders import check
from support.histories.probed import MINUTE
from support.histories.slot_lives import START, said, takeovers


def test_a_static_member_that_starts_again_and_again() -> None:
    """Three times at one place in ten minutes; moves to other places do not count."""
    three = [(number * MINUTE, "/a") for number in (1, 2, 3)]
    assert said(takeovers(*three[:2]), "static.crash_loop")[0] == []
    found, events = said(takeovers(*three), "static.crash_loop")
    assert found == [
        ("static.crash_loop", "firing", START + 3 * MINUTE),
        ("static.crash_loop", "resolved", START + 11 * MINUTE),
    ]
    fact: Any = events[0].fact
    check(fact, instance_id="i", place="c@/a")
    assert len(fact.restarted_ms) == 3
    assert events[0].severity is Severity.WARN
    assert (
        said(takeovers((MINUTE, "/b"), (2 * MINUTE, "/c"), (3 * MINUTE, "/d")), "static.crash_loop")[0] == []
    )
