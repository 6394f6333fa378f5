"""Two processes with one instance id, and what looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.diagnosis import BlamedMember
from groupreplay.timeline.document import SlotLane, Tenure
from groupreplay.timeline.episodes import Episode
from groupreplay.timeline.shared_ids import RESTART_MS, fenced_at_work
from timeline import test_diagnoses
from timeline.test_episodes import FACTS, told

MINUTE = 60_000
EVERY = 5_000
HELD = {"member_id": "i-0", "instance_id": "i", "partitions": {"t": "0-1"}}
SHARER = BlamedMember(name="i", member_id="", client_id="c", client_host="h", instance_id="i")


def lane(takeovers: Sequence[int], reason: str | None = None) -> SlotLane:
    """A slot whose holders followed each other at these times."""
    bounds = [0, *takeovers, None]
    tenures = tuple(
        Tenure(member_id=f"i-{number}", since_ms=since or 0, until_ms=until, reason=reason)
        for number, (since, until) in enumerate(pairwise(bounds))
    )
    return replace(test_diagnoses.lane("i"), instance_id="i", client_id="c", tenures=tenures)


def concluded(*silent_ms: int, reason: str | None = None, **facts: Any) -> tuple[str, str] | None:
    """What is said of a slot that changed hands each minute, so long after a commit of its holder each time."""
    commits, takeovers = list[int](), list[int]()
    for number, silence_ms in enumerate(silent_ms):
        last_ms = number * 2 * MINUTE + MINUTE
        commits += range(last_ms - 8 * EVERY, last_ms + 1, EVERY)
        takeovers.append(last_ms + silence_ms)
    log = CommitLog(
        places=(("t", 1),), place=np.zeros(len(commits), np.int64), at_ms=np.array(commits, np.int64)
    )
    event = replace(told("static.crash_loop", takeovers[-1], "WARN", instance_id="i"), id="e")
    episode = Episode(
        sign=event.name, since_ms=0, until_ms=None, severity="WARN", event=event, members=(SHARER,)
    )
    completed = told("rebalance.completed", 1, members=[HELD])
    given = replace(FACTS, slots=(lane(takeovers, reason),), commits=log, events=(completed,), until_ms=10**7)
    found = fenced_at_work(episode, replace(given, **facts))
    return None if found is None else ("".join(map(str, found.parts)), found.certainty)


FENCED = (RESTART_MS - 1, 1_900, 4_990)


def test_processes_that_worked_until_they_were_fenced() -> None:
    """Each had committed within the usual interval, one so shortly before that no process starts again so soon."""
    assert concluded(*FENCED) == (
        "Two processes use the instance id i and fence each other: 3 times the former one still worked when another "
        "one took its place",
        "assumed",
    )


def test_takeovers_while_the_machine_stood_still() -> None:
    """One of four came long after a commit: it says nothing, and is not counted."""
    told = concluded(*FENCED, 60_000 - EVERY)
    assert told is not None
    assert "3 of 4 times the former one still worked" in told[0]


@pytest.mark.parametrize(
    "silent_ms",
    [
        (RESTART_MS, 1_900, 4_990),  # a process may have been started again in each of these times
        (RESTART_MS - 1, 1_900, 8_000),  # one had been silent for longer than it is when it works
        (*FENCED, 8_000, 9_000),  # two of five had been
        (RESTART_MS - 1, 1_900),  # two takeovers are no habit
        (20, 30, 40),  # a client that is closed and made anew within one process
    ],
)
def test_what_may_be_one_process(silent_ms: tuple[int, ...]) -> None:
    """Nothing is concluded where one process that starts again explains the times as well."""
    assert concluded(*silent_ms) is None


def test_what_is_not_fenced() -> None:
    """KIP-848 refuses the second process; who left made room; without an assignment no commit is of the slot."""
    assert concluded(*FENCED, group_type="consumer") is None
    assert concluded(*FENCED, reason="left") is None
    assert concluded(*FENCED, events=()) is None
    assert concluded(*FENCED, slots=()) is None
    assert concluded(*FENCED, commits=CommitLog()) is None
