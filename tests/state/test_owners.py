"""Conditions about who owns what and what is committed: members without work, and silence."""

from __future__ import annotations

from dataclasses import replace

from builders import CONTEXT, Raw, commit, generation, member, observed, placed
from probed import MINUTE, START, conditions

from groupreplay.state import Event, Group

SECOND = 1_000


def read(history: list[Raw], until: int, *, each: bool = False) -> list[Event]:
    """What is said without a prober; ``each``: read record by record, as a job does that keeps up."""
    context = replace(CONTEXT, probing=False)
    group, records, events = Group("g", context), placed(history), []
    for batch in [[raw] for raw in records] if each else [records]:
        events += group.apply(observed(batch), batch[-1].at)
    return events + group.expire(until)


def test_a_member_without_work() -> None:
    """No partition in three rounds and for a quarter of an hour; over when it gets one."""
    busy = member("a", [0])
    history = [generation(number, busy, member("b"), at=START + number * MINUTE) for number in range(1, 5)]
    history.append(generation(5, busy, member("b", [1]), at=START + 40 * MINUTE))
    found = [one for one in conditions(read(history, START + 41 * MINUTE)) if one[0] == "member.idle"]
    assert found[0] == ("member.idle", "firing", START + 16 * MINUTE)
    assert found[-1] == ("member.idle", "resolved", START + 40 * MINUTE)


def test_commits_that_stop() -> None:
    """A group that commits the same again and again has gone silent, and nobody asks the broker: suspected."""
    first = generation(5, member("a", [0], rebalance_ms=30_000), at=START)
    commits = [commit("t", 0, 7, at=START + number * 5 * SECOND) for number in range(1, 20)]
    last = commits[-1].at
    events = read([first, *commits], last + 10 * MINUTE, each=True)
    (suspected,) = [one for one in conditions(events) if one[0] == "rebalance.suspected"]
    assert suspected[1] == "firing"
    assert last + 2 * MINUTE <= suspected[2] <= last + 3 * MINUTE


def test_a_group_that_commits_on_change_only_is_never_silent() -> None:
    """Every commit brought a new offset: no news may mean no messages."""
    first = generation(5, member("a", [0], rebalance_ms=30_000), at=START)
    commits = [commit("t", 0, number, at=START + number * 5 * SECOND) for number in range(1, 20)]
    events = read([first, *commits], commits[-1].at + 60 * MINUTE, each=True)
    assert [one for one in conditions(events) if one[0] in ("rebalance.suspected", "owner.silent")] == []


def test_an_owner_that_is_silent() -> None:
    """One member's partitions see no commit while the other's do, again and again; it ends with a commit."""
    first = generation(5, member("a", [0]), member("b", [1]), at=START)
    both = [commit("t", number % 2, 7, at=START + number * 2 * SECOND) for number in range(1, 60)]
    one = [commit("t", 1, 7, at=both[-1].at + number * 2 * SECOND) for number in range(1, 150)]
    back = commit("t", 0, 8, at=one[-1].at + SECOND)
    events = read([first, *both, *one, back], back.at + 1, each=True)
    found = [(name, status) for name, status, _ in conditions(events) if name == "owner.silent"]
    assert found == [("owner.silent", "firing"), ("owner.silent", "resolved")]
