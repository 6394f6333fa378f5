"""Wrong input never reads like "all is quiet": every reading command with every kind of nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groupreplay.app.cli.nothing_found import LogRead, events_read, groups_read, no_such
from groupreplay.app.text.times import UTC
from groupreplay.streaming.contract.log import LogExtent
from groupreplay.streaming.engine.replay import EventHead, EventTally
from support.histories.builders import commit, generation, member
from support.job.captures import invoke, raw, write_capture

AT = 1_767_225_600_000
EXTENT = "4 records from 2026-01-01 00:00:00.000 to 2026-01-01 00:00:03.000 (UTC)"

#: Commands that read a capture -> whether they take groups, and the flags of a time; ``{out}`` is a file to write.
COMMANDS = {
    "replay": ("replay",),
    "list": ("list",),
    "offsets": ("describe",),
    "members": ("describe", "--members"),
    "state": ("describe", "--state", "--verbose"),
    "history": ("describe", "--history"),
    "states": ("describe", "--states"),
    "report": ("report", "-o", "{out}"),
    "decode": ("decode",),
}
#: Those that print the past, and those that print a point in time.
PAST = ("replay", "history", "states", "decode")
PRESENT = ("list", "offsets", "members", "state")
TYPES = ("list", "offsets", "history", "states")


def run(
    name: str, capture: Path, tmp_path: Path, *more: str, group: str | None = "g"
) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command; ``group`` None: of all groups."""
    out = tmp_path / "out.html"
    words = [word.format(out=out) for word in COMMANDS[name]]
    chosen = ["--group", group] if group is not None else []
    if group is None and words[0] in ("describe", "report"):
        chosen = ["--all-groups"]
    result = invoke(*words, "--from-file", capture, *chosen, *more)
    assert not out.exists() or result.exit_code == 0
    return result.exit_code, result.stdout, result.stderr


def unassumed(stderr: str) -> list[str]:
    """The lines without that about assumptions, which belongs to what is shown."""
    return [line for line in stderr.splitlines() if not line.startswith("assumed, because ")]


def nothing(found: tuple[int, str, str], line: str) -> None:
    """Flags have selected nothing: exit code 5, nothing on stdout, and one line on stderr."""
    assert found == (5, "", f"nothing found: {line}\n")


def all_quiet(found: tuple[int, str, str], line: str) -> None:
    """An answer that is empty and whole: exit code 0, no row on stdout, and the line on stderr."""
    assert (found[0], found[2]) == (0, f"{line}\n")
    assert len(found[1].splitlines()) <= 1  # the heading of a table


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A capture without records."""
    return write_capture(tmp_path / "empty.parquet", [])


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_capture(name: str, empty: Path, tmp_path: Path) -> None:
    """It says that there are no records: an empty answer if no group is asked for, and a picture is not drawn."""
    nothing(run(name, empty, tmp_path), f"there is no group 'g' in {empty}: no records")
    what = {"replay": "event", "history": "event", "states": "state", "decode": "record"}.get(name, "group")
    answer = run(name, empty, tmp_path, group=None)
    (nothing if name == "report" else all_quiet)(answer, f"no {what} in {empty}: there are no records")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_time_that_counts_from_the_end_of_nothing(name: str, empty: Path, tmp_path: Path) -> None:
    """An age needs a last record."""
    flag = "--at" if name in PRESENT else "--since"
    code, stdout, stderr = run(name, empty, tmp_path, flag, "2h")
    assert (code, stdout, stderr.count("\n")) == (5, "", 2)
    assert stderr.startswith("error: there are no records, so no age or time of day can count back")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_such_group(name: str, capture: Path, tmp_path: Path) -> None:
    """The nearest names, or those that there are, and the extent of the data; also for a glob."""
    nothing(
        run(name, capture, tmp_path, group="paymnts"),
        f"there is no group 'paymnts' in {capture}: 1 group: g; {EXTENT}",
    )
    nothing(
        run(name, capture, tmp_path, group="G"),
        f"there is no group 'G' in {capture}: did you mean g? 1 group; {EXTENT}",
    )
    nothing(
        run(name, capture, tmp_path, group="x*"), f"no group matches 'x*' in {capture}: 1 group: g; {EXTENT}"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_glob_finds_the_group(name: str, capture: Path, tmp_path: Path) -> None:
    """Where an id is taken, a glob is taken."""
    code, _, stderr = run(name, capture, tmp_path, group="[fg]*")
    assert (code, "nothing found" in stderr) == (0, False)


@pytest.mark.parametrize("name", [*PAST, *PRESENT])
def test_what_is_found_is_printed(name: str, capture: Path, tmp_path: Path) -> None:
    """Of two groups, one is there: it is printed, and the other one is named."""
    code, stdout, stderr = run(name, capture, tmp_path, "--group", "h")
    assert (code, stdout != "") == (5, True)
    assert unassumed(stderr) == [f"nothing found: there is no group 'h' in {capture}: 1 group: g; {EXTENT}"]


@pytest.mark.parametrize("name", PAST)
@pytest.mark.parametrize(
    ("flag", "text", "shown"),
    [
        ("--since", "2026-02-01", "2026-02-01 00:00:00.000"),
        ("--until", "2025-12-31", "2025-12-31 00:00:00.000"),
    ],
)
def test_no_such_time(name: str, flag: str, text: str, shown: str, capture: Path, tmp_path: Path) -> None:
    """The flag as it was read, and the extent of the data."""
    # The last state holds at the end, so it also holds later.
    if (name, flag) == ("states", "--since"):
        assert run(name, capture, tmp_path, flag, text)[0] == 0
        return
    code, stdout, stderr = run(name, capture, tmp_path, flag, text)
    assert (code, stdout, stderr.count("\n")) == (5, "", 1)
    assert re.match(rf"nothing found: no (event|record|state) for .*{flag} {re.escape(shown)} in ", stderr)
    assert "2026-01-01 00:00:00.000 to 2026-01-01 00:00:03.000 (UTC)" in stderr


@pytest.mark.parametrize("words", [("explain",), ("advise",), ("report", "-o", "{out}")])
@pytest.mark.parametrize("chosen", [("--group", "g"), ("--all-groups",)])
@pytest.mark.parametrize(("flag", "text"), [("--since", "2026-02-01"), ("--until", "2025-12-31")])
def test_no_conclusion_of_a_time_that_the_log_does_not_have(
    words: tuple[str, ...], chosen: tuple[str, ...], flag: str, text: str, capture: Path, tmp_path: Path
) -> None:
    """A day that was mistyped is no day without a problem, and no file is written about it."""
    out = tmp_path / "out.html"
    told = invoke(*(word.format(out=out) for word in words), "--from-file", capture, *chosen, flag, text)
    assert (told.exit_code, told.stdout, out.exists()) == (5, "", False)
    assert re.match(
        rf"nothing found: no (record that can be read|group) for .*{flag} {text} 00:00", told.stderr
    )
    assert told.stderr.endswith(f"there are {EXTENT}\n")


@pytest.mark.parametrize("words", [("explain",), ("advise",)])
def test_a_quiet_time_at_the_end_is_known(words: tuple[str, ...], capture: Path) -> None:
    """What has happened before it still holds: the last moment of the log is explained."""
    told = invoke(*words, "--from-file", capture, "--group", "g", "--since", "now")
    assert (told.exit_code, "g: classic group, " in told.stdout) == (0, True)


@pytest.mark.parametrize("name", PRESENT)
def test_before_the_first_record(name: str, capture: Path, tmp_path: Path) -> None:
    """At that time there was no group."""
    found = run(name, capture, tmp_path, "--at", "2025-12-31", group=None)
    nothing(found, f"no group for --at 2025-12-31 00:00:00.000 in {capture}: there are {EXTENT}")


@pytest.mark.parametrize("name", [*PAST, "report"])
def test_an_end_before_the_begin(name: str, capture: Path, tmp_path: Path) -> None:
    """A wrong command line, and not an empty answer."""
    code, stdout, stderr = run(name, capture, tmp_path, "--since", "2026-01-02", "--until", "2026-01-01")
    assert (code, stdout) == (2, "")
    assert "--until 2026-01-01 (2026-01-01 00:00:00.000) is not after --since 2026-01-02" in stderr


@pytest.mark.parametrize("name", TYPES)
def test_no_group_of_a_type(name: str, capture: Path, tmp_path: Path) -> None:
    """Types that there are; a type that nobody knows is a wrong command line with the known ones."""
    code, stdout, stderr = run(name, capture, tmp_path, "--type", "share", group=None)
    assert (code, stdout, stderr.count("\n")) == (5, "", 1)
    assert f" for --type share in {capture}: there is 1 group (classic" in stderr
    code, stdout, stderr = run(name, capture, tmp_path, "--type", "clasic", group=None)
    assert (code, stdout) == (2, "")
    assert (
        "unknown name 'clasic'; did you mean classic? known are classic, consumer, share, streams"
        in " ".join(stderr.split())
    )


def test_no_group_in_a_state(capture: Path, tmp_path: Path) -> None:
    """As for types; case and underscores do not matter."""
    found = run("list", capture, tmp_path, "--state", "empty,preparing_rebalance", group=None)
    nothing(
        found,
        f"no group for --state Empty --state PreparingRebalance in {capture}: "
        f"there is 1 group (classic Stable 1); {EXTENT}",
    )
    code, _, stderr = run("list", capture, tmp_path, "--state", "stabel", group=None)
    assert (code, "did you mean Stable?" in stderr) == (2, True)


def test_other_filters(capture: Path, tmp_path: Path) -> None:
    """Severity, event, kind and place of a record, expiry: the flag, and what there is."""
    found = "3 events: rebalance.completed 2, group.created 1; INFO 3"
    times = "from 2026-01-01 00:00:00.000 to 2026-01-01 00:00:03.000 (UTC)"
    for flag, value in (("--min-severity", "error"), ("--type", "rebalance.stuck")):
        nothing(
            run("replay", capture, tmp_path, flag, value, group=None),
            f"no event for {flag} {value} in {capture}: there are {found}; {times}",
        )
    code, stdout, stderr = run("history", capture, tmp_path, "--min-severity", "error")
    assert (code, stdout, "no event for --group g --min-severity error" in stderr) == (5, "", True)
    for flags in (("--offset", "99"), ("--partition", "49")):
        assert run("decode", capture, tmp_path, *flags)[:2] == (5, "")
    nothing(
        run("list", capture, tmp_path, "--expiring", "1s", group=None),
        f"no group for --expiring 1.0 s in {capture}: there is 1 group (classic Stable 1); {EXTENT}",
    )


@pytest.mark.parametrize(("count", "there"), [(1, "there is 1 {}"), (2, "there are 2 {}s")])
def test_one_and_several_of_a_kind(count: int, there: str) -> None:
    """What there is instead is counted in the singular and in the plural."""
    extent, tally = LogExtent(), EventTally(lambda _: False)
    extent.records = count
    for _ in range(count):
        tally(EventHead("groupreplay.group.created.v1", "2026-01-01T00:00:00.000Z", "0", 9))
    log = LogRead("night", extent, UTC)
    at = "2026-01-01 00:00:00.000"
    groups = groups_read(["classic Stable"] * count, log)
    assert no_such("group", [], "night", groups).text == (
        f"no group in night: {there.format('group')} (classic Stable {count}); {log.text()}"
    )
    assert no_such("record", ["--offset", "9"], "night", log.text()).text == (
        f"no record for --offset 9 in night: {there.format('record')}"
    )
    assert no_such("event", ["--type", "a.b"], "night", events_read(tally, UTC)).text == (
        f"no event for --type a.b in night: {there.format('event')}: group.created {count}; INFO {count}; "
        f"from {at} to {at} (UTC)"
    )


def test_a_deleted_group(tmp_path: Path) -> None:
    """Its history is there, and the line says so; JSON stays JSON."""
    from support.histories.builders import emptied, gone

    life = [generation(1, member("a", [0]), at=AT), emptied(2, at=AT + 1_000), gone(at=AT + 2_000)]
    capture = write_capture(tmp_path / "a.parquet", raw(life))
    code, stdout, stderr = run("offsets", capture, tmp_path, "-o", "json")
    assert (code, stdout) == (5, "[]\n")
    assert "there is no group 'g'" in stderr
    assert "it was deleted, and describe --history shows what happened" in stderr
    assert run("history", capture, tmp_path)[0] == 0


def test_records_without_events(tmp_path: Path) -> None:
    """A commit whose group may be older is no event: a healthy log, also of one group; 5 for an event or a time."""
    capture = write_capture(tmp_path / "a.parquet", raw([commit("t", 0, 5, at=AT)]))
    why = "there is 1 record from 2026-01-01 00:00:00.000 to 2026-01-01 00:00:00.000 (UTC)"
    all_quiet(run("replay", capture, tmp_path, group=None), f"no event in {capture}: {why}")
    all_quiet(run("replay", capture, tmp_path), f"no event for --group g in {capture}: {why}")
    for flag, value in (("--type", "rebalance.stuck"), ("--since", "2025-12-31")):
        code, stdout, stderr = run("replay", capture, tmp_path, flag, value)
        assert (code, stdout) == (5, "")
        assert stderr.startswith(f"nothing found: no event for --group g {flag} {value}")
        assert stderr.endswith(f" in {capture}: {why}\n")


def test_all_groups_are_gone(tmp_path: Path) -> None:
    """Records of groups that no longer exist: an empty list is the whole answer."""
    from support.histories.builders import emptied, gone

    life = [generation(1, member("a", [0]), at=AT), emptied(2, at=AT + 1_000), gone(at=AT + 2_000)]
    capture = write_capture(tmp_path / "a.parquet", raw(life))
    for name in PRESENT:
        code, _, stderr = run(name, capture, tmp_path, group=None)
        assert (code, stderr.startswith(f"no group in {capture}: there are 3 records")) == (0, True)


def test_a_glob_that_matches_several(tmp_path: Path) -> None:
    """A picture shows one group: the others are named."""
    lives = [raw([generation(1, member("a", [0]), at=AT)], partition=number) for number in (0, 1)]
    renamed = [
        record._replace(key=record.key.replace(b"\0\1g", b"\0\1h")) for record in lives[1] if record.key
    ]
    capture = write_capture(tmp_path / "a.parquet", [*lives[0], *renamed])
    code, stdout, stderr = run("report", capture, tmp_path, group="[gh]")
    assert (code, stdout) == (2, "")
    assert unassumed(stderr) == [
        "error: 2 groups match '[gh]': g, h",
        "  give one of them, or report --all-groups",
    ]


@pytest.mark.parametrize("name", ["list", "offsets", "state"])
def test_flags_of_the_past(name: str, capture: Path, tmp_path: Path) -> None:
    """Where a point in time is shown, --since is refused, and --at is named where it is known."""
    assert run(name, capture, tmp_path, "--since", "2h")[0] == 2


def test_the_time_zone_of_the_line(capture: Path, tmp_path: Path) -> None:
    """Its times are in the zone that was asked for."""
    _, _, stderr = run("list", capture, tmp_path, "--time-zone", "Asia/Kolkata", group="x")
    assert "from 2026-01-01 05:30:00.000 to 2026-01-01 05:30:03.000 (Asia/Kolkata)" in stderr
    assert run("list", capture, tmp_path, "--time-zone", "Mars/Olympus")[0] == 2


def test_the_heading_says_what_was_counted(capture: Path, tmp_path: Path) -> None:
    """Ages count back from the last record of a capture; other times need no line, and other formats have none."""
    counted = "counted back from the last record, 2026-01-01 00:00:03.000"
    for name in ("replay", "history", "states"):
        _, stdout, _ = run(name, capture, tmp_path, "--since", "2s")
        assert stdout.splitlines()[0] == f"from 2026-01-01 00:00:01.000 (UTC), {counted}"
    for name in PRESENT:
        _, stdout, _ = run(name, capture, tmp_path, "--at", "1s")
        assert stdout.splitlines()[0] == f"until 2026-01-01 00:00:02.000 (UTC), {counted}"
    for more in (("--at", "2026-01-01T00:00:02Z"), ("--at", "1s", "-o", "csv"), ("--at", "now")):
        assert "counted" not in run("list", capture, tmp_path, *more)[1]
