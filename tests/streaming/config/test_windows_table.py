"""``[[window]]`` in rules.toml: what it may say, and what is wrong in it."""

from __future__ import annotations

import os
import pickle
from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import Once, PlannedWindow, Policy, Weekly
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.rules_file import RulesSource, RulesWatch, differences, parse_rules

FILE = """
[[window]]
match = ["a-*", "b"]
from = 1970-01-02T01:00:00+01:00
until = "1970-01-03T00:00:00Z"
severity_cap = "warn"

[[window]]
match = "c"
weekly = ["Sat-Mon,Wed 23:00-01:30"]
zone = "Europe/Berlin"
"""
ONCE = Once(from_ms=86_400_000, until_ms=172_800_000)
WEEKLY = Weekly(
    days=frozenset({5, 6, 0, 2}),
    begin=time(23),
    end=time(1, 30),
    zone=ZoneInfo("Europe/Berlin"),
    zone_name="Europe/Berlin",
)
WINDOWS = (
    PlannedWindow(groups="a-*", times=ONCE, severity_cap=Severity.WARN),
    PlannedWindow(groups="b", times=ONCE, severity_cap=Severity.WARN),
    PlannedWindow(groups="c", times=WEEKLY, severity_cap=Severity.INFO),
)


def test_everything_that_a_window_can_say() -> None:
    """Dates as TOML's or as text, weekly times with days and a zone, and the groups that they are for."""
    policy = parse_rules(FILE, "rules.toml")
    assert policy == Policy(windows=WINDOWS)
    assert [policy.of(name).windows for name in ("a-1", "b", "c", "d")] == [*((one,) for one in WINDOWS), ()]
    assert policy.of("a-1").cap_at(86_400_000) is Severity.WARN


def test_zones_are_those_of_flags() -> None:
    """An offset is a zone, too, as with --time-zone; UTC is the default."""
    lines = '[[window]]\nmatch = "a"\nweekly = "Sat 02:00-03:00"\n'
    policies = [parse_rules(lines + zone, "rules.toml") for zone in ("", 'zone = "Z"', 'zone = "+0530"')]
    found = [one.windows[0].times for one in policies]
    assert [one.zone_name for one in found if isinstance(one, Weekly)] == ["UTC", "UTC", "+05:30"]


def test_the_policy_goes_to_spark() -> None:
    """Python's workers get the policy pickled, and it is the same there."""
    assert pickle.loads(pickle.dumps(Policy(windows=WINDOWS))) == Policy(windows=WINDOWS)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ('match = "a"', "a window needs both from and until, or weekly"),
        ('weekly = "Sat 02:00-04:00"', "match is missing"),
        ('match = "a"\nfrom = 2026-01-01T00:00:00Z', "a window needs both from and until"),
        (
            'match = "a"\nweekly = "Sat 02:00-04:00"\nfrom = 2026-01-01T00:00:00Z',
            "from and until have their own zone",
        ),
        (
            'match = "a"\nfrom = 2026-01-02T00:00:00Z\nuntil = 2026-01-02T00:00:00Z',
            "until is not later than from",
        ),
        ('match = "a"\nfrom = 2026-01-02T00:00:00\nuntil = 2026-01-02T00:00:00Z', "timezone"),
        ('match = "a"\nweekly = "Sat 02:00"', "weekly = 'Sat 02:00' cannot be read"),
        ('match = "a"\nweekly = "Sat 02:00-25:00"', "cannot be read"),
        ('match = "a"\nweekly = "Son 02:00-03:00"', "cannot be read"),
        ('match = "a"\nweekly = "Sat 02:00-03:00"\nzone = "Berlin"', "there is no time zone 'Berlin'"),
        ('match = "a"\nweekly = "Sat 02:00-03:00"\nzone = "../x"', "there is no time zone '../x'"),
        ('match = "a"\nweekly = "Sat 02:00-03:00"\nseverity_cap = "error"', "severity_cap"),
        ('match = "a"\nweekday = "Sat"', "unknown setting 'weekday'"),
    ],
)
def test_what_is_wrong(lines: str, what: str) -> None:
    """The error says what, and in which window."""
    with pytest.raises(GroupReplayError, match=what) as raised:
        parse_rules(f"[[window]]\n{lines}\n", "rules.toml")
    assert raised.value.where == "rules.toml, [[window]] 1"


def test_a_window_is_taken_while_the_job_runs(tmp_path: Path) -> None:
    """The file is read again when it changes; the difference names the window."""
    path = tmp_path / "rules.toml"
    path.write_text("")
    os.utime(path, (1, 1))
    watch = RulesWatch(RulesSource(path=path))
    path.write_text(FILE)
    os.utime(path, (2, 2))
    assert watch.changed()
    assert watch.policy.windows == WINDOWS
    assert differences(Policy(), watch.policy) == [
        "a-*: window 1970-01-02T00:00:00Z to 1970-01-03T00:00:00Z: as shipped -> WARN",
        "b: window 1970-01-02T00:00:00Z to 1970-01-03T00:00:00Z: as shipped -> WARN",
        "c: window Mon,Wed,Sat,Sun 23:00-01:30 Europe/Berlin: as shipped -> INFO",
    ]
