"""rules.toml: what it may say, what is wrong in it, and when it has changed.

``[[window]]`` in rules.toml: what it may say, and what is wrong in it.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import EPHEMERAL, GroupRule, Once, PlannedWindow, Policy, Weekly
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.rules_file import RulesSource, RulesWatch, differences, parse_rules

EVERYTHING = """
runbook = "https://wiki.example.com/groups"

[rebalance.slow]
threshold_ms = 5000

[rebalance.stuck]
of_timeout = 1

[[group]]
match = ["payments-*", "ledger"]
matters = true
labels = { team = "payments", runbook = "https://wiki.example.com/payments" }
rebalance.stuck.threshold_ms = 120000
rebalance.slow.threshold_ms = 60000

[[group]]
match = "*-test"
ignore = true
severity_cap = "info"
"""
PAYMENTS = GroupRule(
    groups="payments-*",
    matters=True,
    labels={"team": "payments", "runbook": "https://wiki.example.com/payments"},
    thresholds={"rebalance.stuck": {"threshold_ms": 120_000}, "rebalance.slow": {"threshold_ms": 60_000}},
)
POLICY = Policy(
    thresholds={"rebalance.slow": {"threshold_ms": 5_000}, "rebalance.stuck": {"of_timeout": 1.0}},
    groups=(
        *EPHEMERAL,
        PAYMENTS,
        replace(PAYMENTS, groups="ledger"),
        GroupRule(groups="*-test", ignore=True, severity_cap=Severity.INFO),
    ),
    runbook="https://wiki.example.com/groups",
)


def test_everything_that_a_file_can_say() -> None:
    """Defaults, rules for groups in their order behind the shipped ones, and where the runbook is."""
    assert parse_rules(EVERYTHING, "rules.toml") == POLICY


def test_an_empty_file_changes_nothing() -> None:
    """No line is obligatory."""
    assert parse_rules("", "rules.toml") == Policy()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a = ", "the rules are not TOML: "),
        (
            "[rebalence.stuck]",
            "unknown setting 'rebalence' (f): did you mean rebalance? known here: runbook, group, ",
        ),
        ("[defaults]", "unknown setting 'defaults' (f): known here: runbook, group, window, rebalance, "),
        (
            "[rebalance.stucked]\nx = 1",
            "unknown setting 'rebalance.stucked' (f): did you mean stuck? known here: slow, stuck, ",
        ),
        (
            "[rebalance.stuck]\nseconds = 1",
            "unknown setting 'rebalance.stuck.seconds' (f): known here: threshold_ms, of_timeout, ",
        ),
        ("[rebalance.stuck]\nslow = 1", "unknown setting 'rebalance.stuck.slow' (f): known here: "),
        (
            '[rebalance.stuck]\nthreshold_ms = "2m"',
            "rebalance.stuck.threshold_ms: Expected integer, got string (f): deploy/rules.toml shows",
        ),
        (
            "[rebalance.stuck]\nthreshold_ms = true",
            "rebalance.stuck.threshold_ms: Expected integer, got boolean (f): ",
        ),
        ("[rebalance.stuck]\nthreshold_ms = -1", "rebalance.stuck.threshold_ms: Expected integer >= 0 (f): "),
        (
            "[member.flapping]\ntimes = 33",
            "member.flapping: 33 times; it must be at least 1 and at most 32 (",
        ),
        ("rebalance = 1", "rebalance: Expected table, got integer (f): "),
        ("[rebalance]\nstuck = 1", "rebalance.stuck: Expected table, got integer (f): "),
        ("group = 1", "group: Expected array, got integer (f): "),
        ("group = [1]", "group: Expected table, got integer (f, [[group]] 1): "),
        ("[[group]]", "match is missing (f, [[group]] 1): it names the groups: match = "),
        ("[[group]]\nmatch = []", "match is missing (f, [[group]] 1): it names the groups: match = "),
        ("[[group]]\nmatch = 'a[b'", "match = 'a[b' is not a glob (f, [[group]] 1): use *, ?, "),
        ("[[group]]\nmatch = ''", "match = '' is not a glob (f, [[group]] 1): use *, ?, "),
        (
            "[[group]]\nmatch = 7",
            "match: Expected string | array, got integer (f, [[group]] 1): deploy/rules.toml shows",
        ),
        (
            "[[group]]\nmatch = 'a'\nseverity_cap = 'low'",
            "severity_cap: Invalid enum value 'low' (f, [[group]] 1): ",
        ),
        (
            "[[group]]\nmatch = 'a'\n[[group]]\nmatch = 'b'\nlabels = { team = 7 }",
            "labels: Expected string, got integer (f, [[group]] 2): ",
        ),
        (
            "[[group]]\nmatch = 'a'\nignored = true",
            "unknown setting 'ignored' (f, [[group]] 1): did you mean ignore? known here: match, ",
        ),
        (
            "[[group]]\nmatch = 'a'\nrebalance.stuck.seconds = 5",
            "unknown setting 'rebalance.stuck.seconds' (f, [[group]] 1): known here: threshold_ms, ",
        ),
        (
            "[[group]]\nmatch = 'a'\njob.blind.silent_rounds = 5",
            "job is about the job, not about groups (f, [[group]] 1): write [job...] above [[group]]",
        ),
        (
            "[[group]]\nmatch = 'a'\nmatters = 'yes'",
            "matters: Expected boolean, got string (f, [[group]] 1): ",
        ),
        (
            "[member.flapping]\nwindow_ms = 7200000\n[[group]]\nmatch = 'a'\nmember.flapping.times = 99",
            "member.flapping: 99 times; it must be at least 1 and at most 32 (f, [[group]] 1): ",
        ),
    ],
)
def test_mistakes_are_named(text: str, error: str) -> None:
    """Which file, which group, which key, and what could stand there: an error of usage."""
    with pytest.raises(GroupReplayError) as caught:
        parse_rules(text, "f")
    assert str(caught.value).startswith(error)
    assert (caught.value.exit_code, bool(caught.value.fix)) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("glob", ["a[bc]", "a[[]b", "[!a]*", "a]"])
def test_globs_with_brackets(glob: str) -> None:
    """Brackets that are closed are fine, and so is one that stands for itself."""
    assert parse_rules(f"[[group]]\nmatch = '{glob}'", "x").groups[-1] == GroupRule(groups=glob)


def test_numbers_of_flags_win(tmp_path: Path) -> None:
    """Over the file's defaults and over its rules about groups."""
    path = tmp_path / "rules.toml"
    path.write_text(EVERYTHING)
    thresholds = (("rebalance.stuck.threshold_ms", "3000"), ("rebalance.stuck.of_timeout", "0.5"))
    policy = RulesSource(path=path, thresholds=thresholds).load()
    last = GroupRule(groups="*", thresholds={"rebalance.stuck": {"threshold_ms": 3_000, "of_timeout": 0.5}})
    assert policy == replace(POLICY, groups=(*POLICY.groups, last))


def test_numbers_about_the_job(tmp_path: Path) -> None:
    """They are for no group; a flag wins over the file here, too, and leaves its other thresholds."""
    path = tmp_path / "rules.toml"
    path.write_text("[job.blind]\nthreshold_ms = 1\nsilent_rounds = 2\n")
    thresholds = (("job.blind.threshold_ms", "3000"), ("job.behind.lag_ms", "4000"))
    policy = RulesSource(path=path, thresholds=thresholds).load()
    job = {"job.blind": {"threshold_ms": 3_000, "silent_rounds": 2}, "job.behind": {"lag_ms": 4_000}}
    assert policy == Policy(thresholds=job)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("stuck", "1", "'stuck' is not the name of a threshold (--rule stuck=1): such as rebalance.stuck."),
        (
            "rebalance.stuck.ms",
            "1",
            "unknown setting 'rebalance.stuck.ms' (--rule rebalance.stuck.ms=1): known here: threshold_ms, ",
        ),
        (
            "rebalance.slow.least_ms",
            "1s",
            "rebalance.slow.least_ms: Expected integer, got string (--rule rebalance.slow.least_ms=1s): ",
        ),
        ("group.x.y", "1", "group: Expected array, got table (--rule group.x.y=1): "),
    ],
)
def test_wrong_numbers_of_flags(name: str, text: str, error: str) -> None:
    """As in a file, with the flag in the file's place."""
    with pytest.raises(GroupReplayError) as caught:
        RulesSource(thresholds=((name, text),)).load()
    assert str(caught.value).startswith(error)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, or in another encoding: an error of usage that names the file."""
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    for name, what in (("none.toml", "cannot read the rules"), ("latin.toml", "the rules are not UTF-8")):
        with pytest.raises(GroupReplayError, match=what) as caught:
            RulesSource(path=tmp_path / name).load()
        assert caught.value.where == str(tmp_path / name)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file of rules with a time of long ago, so that each later one differs."""
    path = tmp_path / "rules.toml"
    write(path, EVERYTHING, 1)
    return path


def write(path: Path, text: str, second: int) -> None:
    """As an editor does, at this second."""
    path.write_text(text)
    os.utime(path, (second, second))


def test_a_changed_file_is_noticed_once(written: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What differs is logged; a file that was only touched, or only commented, is no change."""
    watch = RulesWatch(RulesSource(path=written))
    assert (watch.changed(), watch.policy) == (False, POLICY)
    write(written, EVERYTHING, 2)
    assert not watch.changed()
    write(written, EVERYTHING + "# a remark\n", 3)
    assert not watch.changed()
    write(written, EVERYTHING.replace("120000", "90000"), 4)
    assert [watch.changed(), watch.changed()] == [True, False]
    changed = {**PAYMENTS.thresholds, "rebalance.stuck": {"threshold_ms": 90_000}}
    assert watch.policy.groups[4].thresholds == changed
    assert (watch.changes, watch.error) == (1, None)
    assert [record.getMessage() for record in caplog.records] == [
        "the rules have changed: payments-*: rebalance.stuck.threshold_ms: 120000 -> 90000; "
        "ledger: rebalance.stuck.threshold_ms: 120000 -> 90000"
    ]


def test_a_wrong_file_is_refused_once(written: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The old rules hold until it is right again; also while the file is away."""
    watch = RulesWatch(RulesSource(path=written))
    write(written, "[rebalance.stucked]\nx = 1", 2)
    assert [watch.changed(), watch.changed()] == [False, False]
    assert watch.error is not None
    assert watch.error.startswith("unknown setting 'rebalance.stucked' (")
    written.unlink()
    assert [watch.changed(), watch.changed()] == [False, False]
    assert (watch.policy, watch.changes) == (POLICY, 0)
    assert len(caplog.records) == 2
    write(written, EVERYTHING, 3)
    assert (watch.changed(), watch.error) == (False, None)


def test_nothing_to_watch() -> None:
    """Without a file nothing ever changes."""
    assert not RulesWatch(RulesSource()).changed()


def test_differences() -> None:
    """Every setting by its name, what was not said as such, and an order if that is all."""
    assert differences(Policy(), replace(Policy(), groups=())) == [
        f"{rule.groups}: matters: False -> as shipped" for rule in EPHEMERAL
    ]
    swapped = replace(POLICY, groups=tuple(reversed(POLICY.groups)))
    assert differences(POLICY, swapped) == ["the order of the rules about groups"]
    assert differences(Policy(), POLICY) == [
        "runbook: docs/runbook.md -> https://wiki.example.com/groups",
        "rebalance.slow.threshold_ms: as shipped -> 5000",
        "rebalance.stuck.of_timeout: as shipped -> 1.0",
        "payments-*: matters: as shipped -> True",
        "payments-*: labels.team: as shipped -> payments",
        "payments-*: labels.runbook: as shipped -> https://wiki.example.com/payments",
        "payments-*: rebalance.stuck.threshold_ms: as shipped -> 120000",
        "payments-*: rebalance.slow.threshold_ms: as shipped -> 60000",
        "ledger: matters: as shipped -> True",
        "ledger: labels.team: as shipped -> payments",
        "ledger: labels.runbook: as shipped -> https://wiki.example.com/payments",
        "ledger: rebalance.stuck.threshold_ms: as shipped -> 120000",
        "ledger: rebalance.slow.threshold_ms: as shipped -> 60000",
        "*-test: ignore: as shipped -> True",
        "*-test: severity_cap: as shipped -> INFO",
    ]


def test_the_runbook_of_a_flag(tmp_path: Path) -> None:
    """It wins over the file, and events link to its sections."""
    path = tmp_path / "rules.toml"
    path.write_text('runbook = "https://file.example.com/"')
    assert RulesSource(path=path).load().runbook == "https://file.example.com/"
    policy = RulesSource(path=path, runbook="https://wiki.example.com/groups").load()
    assert policy == Policy(runbook="https://wiki.example.com/groups")


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
    assert [policy.of(name).windows for name in ("a-1", "b", "c", "d")] == [
        *((window,) for window in WINDOWS),
        (),
    ]
    assert policy.of("a-1").cap_at(86_400_000) is Severity.WARN


def test_zones_are_those_of_flags() -> None:
    """An offset is a zone, too, as with --time-zone; UTC is the default."""
    lines = '[[window]]\nmatch = "a"\nweekly = "Sat 02:00-03:00"\n'
    policies = [parse_rules(lines + zone, "rules.toml") for zone in ("", 'zone = "Z"', 'zone = "+0530"')]
    found = [policy.windows[0].times for policy in policies]
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
