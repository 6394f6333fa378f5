"""Offsets at risk, frequent commits, groups that nobody uses."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.timeline.advice.finding import Kind
from groupreplay.timeline.advice.inputs import AdviceInput, Load
from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.pictures.timelines import BEGIN, MINUTE
from support.simulated.advised import HOUR_MS, found, saved, small

DAY_MS = 24 * HOUR_MS


def weekends(retention_ms: int, *, is_back: bool = True) -> AdviceInput:
    """A group that is Empty for 60 hours at the end of each of two weeks."""
    records, number = list[object](), 0
    for week in range(2):
        begin = BEGIN + 7 * week * DAY_MS
        records += [generation(number + 1, member("a", (0, 1)), at=begin)]
        records += [commit("t", place, week, at=begin + HOUR_MS) for place in (0, 1)]
        records += [emptied(number + 2, at=begin + 4 * DAY_MS)]
        number += 2
    if is_back:
        records.append(generation(number + 1, member("a", (0, 1)), at=BEGIN + 14 * DAY_MS))
    return small(records, retention_ms=retention_ms)


def test_empty_every_weekend() -> None:
    """Three of seven days are a risk with a retention of a week; with one of a month nothing is said."""
    finding = found(weekends(7 * DAY_MS), Kind.OFFSETS_AT_RISK)
    assert finding is not None
    assert (finding.setting, saved(finding, "offsets_lost")) == ("offsets.retention.minutes", (0, 2))
    assert finding.value.startswith("12960 (9 days)")
    assert found(weekends(30 * DAY_MS), Kind.OFFSETS_AT_RISK) is None
    assert found(weekends(7 * DAY_MS, is_back=False), Kind.OFFSETS_AT_RISK) is None


def test_the_advised_retention_is_longer_than_the_absence() -> None:
    """A group whose offsets expire is Dead after that; its members are away for longer than it was Empty."""
    records = list[Raw]()
    for week in range(2):
        begin = BEGIN + 7 * week * DAY_MS
        records += [asked_for(at=begin - 1_000), generation(1, member("a", (0,)), at=begin)]
        records += [commit("t", 0, week, at=begin + HOUR_MS), emptied(2, at=begin + 4 * DAY_MS)]
        records += [no_offset("t", 0, at=begin + 5 * DAY_MS), gone(at=begin + 5 * DAY_MS)]
    end = BEGIN + 14 * DAY_MS
    records += [asked_for(at=end - 1_000), generation(1, member("a", (0,)), at=end)]
    finding = found(small(records, retention_ms=DAY_MS), Kind.OFFSETS_AT_RISK)
    assert finding is not None
    assert finding.value.startswith("12960 (9 days)")
    assert "at most for 3 d 0 h" in finding.text
    # Whoever has followed it is told nothing more.
    assert found(weekends(9 * DAY_MS), Kind.OFFSETS_AT_RISK) is None


def committed(gap_ms: int, share: float, *, then_ms: int = 0) -> AdviceInput:
    """A group of two partitions with 101 commits of each, so far apart; and one more of each so much later."""
    times = [BEGIN + MINUTE + number * gap_ms for number in range(101)]
    times += [times[-1] + then_ms] if then_ms else []
    history = small(
        [
            generation(1, member("a", (0, 1)), at=BEGIN),
            *(commit("t", place, number, at=at) for number, at in enumerate(times) for place in (0, 1)),
        ]
    )
    load = Load(commits_per_second=2_000 / gap_ms, bytes=9_000_000, share=share, commit_bytes=1_010_000)
    return replace(history, use=replace(history.use, load=load))


def test_commits_that_are_too_many() -> None:
    """More than one commit of a partition in 5 s, and a fifth of the topic: what is beyond that, more or less."""
    finding = found(committed(1_000, 0.6), Kind.FREQUENT_COMMITS)
    # 21 of 101 commits of each partition would be left, give or take the one of the rebalance.
    assert saved(finding, "bytes") == (790_000, 810_000)
    rested = found(committed(1_000, 0.6, then_ms=3_600_000), Kind.FREQUENT_COMMITS)
    # After the pause a commit is needed, and it may be one more or one less.
    assert saved(rested, "bytes") == (772_352, 811_960)
    assert [found(committed(*load), Kind.FREQUENT_COMMITS) for load in ((4_500, 0.6), (1_000, 0.1))] == [
        None,
        None,
    ]


def test_a_group_that_nobody_uses() -> None:
    """For a week; the number is that of the caller, who has it from list --unused."""
    history = small([generation(1, member("a", (0,)), at=BEGIN), emptied(2, at=BEGIN + MINUTE)])
    for days, is_told in ((6, False), (8, True)):
        unused = replace(history, use=replace(history.use, unused_ms=days * DAY_MS))
        assert (found(unused, Kind.UNUSED_GROUP) is not None) is is_told
    assert found(history, Kind.UNUSED_GROUP) is None
