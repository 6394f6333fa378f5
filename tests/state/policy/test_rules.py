"""When planned windows are open, also where clocks are changed."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Context, Event
from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import (
    DAY_MS,
    GroupRule,
    MovedOffsets,
    Once,
    OpenWindows,
    PlannedWindow,
    Policy,
    Rules,
    Weekly,
    open_windows,
    severity_of_moves,
)
from support.histories.builders import CONTEXT, Raw, commit, emptied, generation, member, no_offset, replay

MINUTE_MS = 60_000
BERLIN = ZoneInfo("Europe/Berlin")
#: A Sunday on which clocks in Berlin go back, at 03:00.
CHANGE = "2026-10-25"


def at_ms(text: str) -> int:
    """A time in Berlin."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


def weekly(days: set[int], begin: str, end: str) -> Weekly:
    """A window by the clocks of Berlin."""
    return Weekly(
        days=frozenset(days),
        begin=time.fromisoformat(begin),
        end=time.fromisoformat(end),
        zone=BERLIN,
        zone_name="Europe/Berlin",
    )


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("2026-11-28T01:59:59", None),
        ("2026-11-28T02:00", "2026-11-28T04:00"),
        ("2026-11-28T03:59:59", "2026-11-28T04:00"),
        ("2026-11-28T04:00", None),
        ("2026-11-29T02:00", None),
        # Summer: the same hour by the clock, another one in UTC.
        ("2026-07-04T02:00", "2026-07-04T04:00"),
        ("2026-07-04T01:59", None),
    ],
)
def test_every_saturday(text: str, closes: str | None) -> None:
    """It is open from its begin to just before its end, by the clocks of its zone."""
    found = weekly({5}, "02:00", "04:00").closes_ms(at_ms(text))
    assert found == (None if closes is None else at_ms(closes))


def test_over_midnight_and_a_change_of_clocks() -> None:
    """A window that begins on Saturday evening ends on Sunday; that night has an hour more."""
    window = weekly({5}, "23:00", "04:00")
    begin = at_ms("2026-10-24T23:00")
    assert window.closes_ms(begin) == begin + 6 * 60 * MINUTE_MS
    assert window.closes_ms(begin - 1) is None
    assert str(window) == "Sat 23:00-04:00 Europe/Berlin"


def test_once() -> None:
    """A window with dates is open once."""
    window = Once(from_ms=DAY_MS, until_ms=2 * DAY_MS)
    closes = [window.closes_ms(at) for at in (DAY_MS - 1, DAY_MS, 2 * DAY_MS - 1, 2 * DAY_MS)]
    assert closes == [None, 2 * DAY_MS, 2 * DAY_MS, None]
    assert str(window) == "1970-01-02T00:00:00Z to 1970-01-03T00:00:00Z"


def test_the_lowest_cap_holds() -> None:
    """Of several open windows the lowest cap counts, until the first of them closes."""
    windows = [
        PlannedWindow(groups="*", times=Once(from_ms=0, until_ms=100), severity_cap=Severity.WARN),
        PlannedWindow(groups="*", times=Once(from_ms=50, until_ms=80)),
    ]
    found = [open_windows(windows, at) for at in (0, 50, 80, 100)]
    warn, info = OpenWindows(Severity.WARN, 100), OpenWindows(Severity.INFO, 80)
    assert found == [warn, info, warn, None]


def test_years_that_calendars_do_not_have() -> None:
    """A record may be dated there; no window is open then."""
    assert weekly(set(range(7)), "00:00", "23:59").closes_ms(2**62) is None


@given(
    days=st.sets(st.integers(0, 6)),
    begin=st.times(),
    end=st.times(),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe"]),
    at=st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(timezone.utc)),
)
def test_weekly_windows_by_the_wall_clock(
    days: set[int], begin: time, end: time, zone: str, at: datetime
) -> None:
    """Far from a change of clocks, it is open exactly if the wall clock of the zone says so."""
    begin, end = begin.replace(second=0, microsecond=0, fold=0), end.replace(second=0, microsecond=0, fold=0)
    place, at = ZoneInfo(zone), at.replace(microsecond=0)
    offsets = {(at + timedelta(hours=hours)).astimezone(place).utcoffset() for hours in range(-30, 31)}
    if len(offsets) > 1:
        return
    local = at.astimezone(place)
    yesterday = (local.weekday() - 1) % 7
    clock = local.time()
    if begin < end:
        expected = local.weekday() in days and begin <= clock < end
    else:
        expected = (local.weekday() in days and clock >= begin) or (yesterday in days and clock < end)
    window = Weekly(days=frozenset(days), begin=begin, end=end, zone=place, zone_name=zone)
    moment = int(at.timestamp() * 1000)
    closes_ms = window.closes_ms(moment)
    assert (closes_ms is not None) == expected
    if closes_ms is not None:
        assert moment < closes_ms <= moment + DAY_MS
        assert datetime.fromtimestamp(closes_ms / 1000, place).time() == end


def test_without_rules_the_defaults_hold() -> None:
    """An ordinary group has no thresholds of its own, no cap and no labels."""
    assert asdict(Policy().of("payments")) == asdict(Rules())


@pytest.mark.parametrize(
    ("group_id", "matters"),
    [
        ("console-consumer-123", False),
        ("spark-kafka-source-x", False),
        ("anonymous.0a1b2c3d", False),
        ("worker-0123abcd-0123-4567-89ab-0123456789ab", False),
        ("worker-0123abcd-0123-4567-89ab-0123456789ag", None),
        ("my-console-consumer-1", None),
    ],
)
def test_ephemeral_groups_do_not_matter(group_id: str, matters: bool | None) -> None:
    """Groups that tools make by the thousand; others are left to their history."""
    assert Policy().of(group_id).matters is matters


def test_later_rules_win() -> None:
    """All rules that match count, in their order, and labels are merged by name."""
    policy = Policy(
        thresholds={"rebalance.slow": {"least_ms": 1, "beyond_session_ms": 2}},
        groups=(
            GroupRule(groups="pay*", labels={"team": "a", "tier": "1"}, severity_cap=Severity.INFO),
            GroupRule(groups="*-test", ignore=True, thresholds={"rebalance.slow": {"least_ms": 3}}),
            GroupRule(groups="pay-*", labels={"team": "b"}, severity_cap=Severity.WARN, matters=True),
        ),
    )
    assert asdict(policy.of("pay-test")) == {
        "thresholds": {"rebalance.slow": {"least_ms": 3, "beyond_session_ms": 2}},
        "ignore": True,
        "severity_cap": Severity.WARN,
        "matters": True,
        "labels": {"team": "b", "tier": "1"},
        "windows": (),
    }
    assert asdict(policy.of("other")) == asdict(Rules(thresholds=policy.thresholds))


def test_groups_that_the_same_rules_match_share_them() -> None:
    """What is derived from rules is cached by their identity: one object for all such groups."""
    policy = Policy(groups=(GroupRule(groups="a*"), GroupRule(groups="*c")))
    assert policy.of("ab") is policy.of("abb")
    assert len({policy.of(name) for name in ("ab", "abc", "c", "d")}) == 4


@pytest.mark.parametrize(
    ("repeated", "skipped", "severity"),
    [
        (0, 0, Severity.INFO),
        (10_000, 500, Severity.INFO),
        (10_001, 500, Severity.WARN),
        (0, 501, Severity.ERROR),
        (10_001, 501, Severity.ERROR),
    ],
)
def test_what_is_beyond_a_bound(repeated: int, skipped: int, severity: Severity) -> None:
    """Skipped records are worse than repeated ones."""
    assert MovedOffsets().severity(repeated=repeated, skipped=skipped) is severity


def test_the_bounds_of_a_group() -> None:
    """Those of its rules, and the defaults for the others."""
    rules = Rules(thresholds={"offsets.moved": {"most_skipped": 3}})
    assert MovedOffsets.of(rules) == MovedOffsets(most_skipped=3)
    assert MovedOffsets.of(Rules()) == MovedOffsets()
    assert MovedOffsets.thresholds() == {"most_repeated": int, "most_skipped": int}


EMPTY = [generation(1, member("a", [0]), at=1), commit("t", 0, 5, at=2), emptied(2, at=1_000)]


def moved(history: list[Raw], context: Context = CONTEXT) -> list[Event]:
    """The events about offsets that were moved."""
    _, events = replay(history, context)
    return [event for event in events if event.fact.NAME in ("offset.rewound", "offsets.reset")]


@pytest.mark.parametrize(
    ("moves", "severity"),
    [
        ([], Severity.INFO),
        ([(0, 400), (0, 400)], Severity.ERROR),
        # One does not make up for the other.
        ([(0, 500), (500, 0)], Severity.INFO),
        ([(0, 500), (10_001, 0)], Severity.WARN),
        ([(0, 501), (10_001, 0)], Severity.ERROR),
    ],
)
def test_over_all_partitions(moves: list[tuple[int, int]], severity: Severity) -> None:
    """In each direction for itself, and at most what the caller allows."""
    assert severity_of_moves(moves, Rules(), most=Severity.ERROR) is severity
    assert severity_of_moves(moves, Rules(), most=Severity.WARN) is min(severity, Severity.WARN)
    assert severity_of_moves(moves, Rules(matters=False), most=Severity.ERROR) is Severity.INFO


MEMBER = [generation(1, member("a", [0]), at=1), commit("t", 0, 50_000, at=2)]


@pytest.mark.parametrize(
    ("back", "kind", "severity"),
    [(500, "small", Severity.INFO), (10_000, "other", Severity.INFO), (10_001, "other", Severity.WARN)],
)
def test_a_rewind_by_its_consequence(back: int, kind: str, severity: Severity) -> None:
    """It is a warning beyond the bound of the rules, whatever the group's history."""
    (event,) = moved([*MEMBER, commit("t", 0, 50_000 - back, at=9_000)])
    assert (event.fact.kind, event.severity) == (kind, severity)  # type: ignore[attr-defined]
    nobody = replace(CONTEXT, policy=Policy(groups=(GroupRule(groups="*", matters=False),)))
    (event,) = moved([*MEMBER, commit("t", 0, 50_000 - back, at=9_000)], nobody)
    assert event.severity is Severity.INFO


@pytest.mark.parametrize(
    ("after", "anew", "severity"),
    [(505, True, Severity.INFO), (506, True, Severity.ERROR), (506, False, Severity.WARN)],
)
def test_a_reset_by_its_consequence(after: int, anew: bool, severity: Severity) -> None:
    """Records that nobody reads are an error, unless the member was there before: it has its place in its memory."""
    lost = [*EMPTY, no_offset("t", 0, at=9_000)]
    back = [generation(3, member("b", [0]), at=20_000)] if anew else []
    (event,) = moved([*lost, *back, commit("t", 0, after, at=30_000)])
    assert (event.fact.NAME, event.severity) == ("offsets.reset", severity)
