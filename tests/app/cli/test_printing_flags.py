"""What ``--since`` and ``--until`` mean; ``--wide`` and ``--columns`` on the command line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from groupreplay.app.cli.printing_flags import TimeRange, live_end, point_ms, time_range
from groupreplay.app.text.times import GivenTime, given_time
from groupreplay.streaming.base.clock import UTC, time_zone
from groupreplay.streaming.sources.source import DataEnd
from support.job.captures import invoke

DAY = 1_767_225_600_000
HOUR = 3_600_000
END = DataEnd(at_ms=DAY + 2 * HOUR + HOUR // 2, is_live=False)


def given(text: str | None) -> GivenTime | None:
    """The value of a flag, None without it."""
    return None if text is None else given_time(text)


def bounds(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The bounds on a capture that ends at 02:30."""
    found = time_range(given(since), given(until), UTC, lambda: END)
    return found.since_ms, found.until_ms


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, (None, None)),
        ("1h", "30m", (DAY + HOUR + HOUR // 2, DAY + 2 * HOUR)),
        # The data end between both.
        ("02:00", "02:40", (DAY + 2 * HOUR, DAY + 2 * HOUR + 40 * 60_000)),
        ("23:00", "01:00", (DAY - HOUR, DAY + HOUR)),
        (None, "02:40", (None, DAY - 22 * HOUR + 40 * 60_000)),
        ("2025-12-30T02:00", "02:40", (DAY - 46 * HOUR, DAY - 46 * HOUR + 40 * 60_000)),
        ("now", "now", (END.at_ms, None)),
    ],
)
def test_bounds(since: str | None, until: str | None, expected: tuple[int | None, int | None]) -> None:
    """Both count from the end of the data; a time of day of --until follows --since; now is where the data end."""
    assert bounds(since, until) == expected


@pytest.mark.parametrize(
    ("since", "until", "ages"),
    [
        ("30m", "1h", True),
        ("now", "2h", True),
        ("2h", "2h", False),
        ("2026-01-02", "2026-01-01", False),
        ("5", "5", False),
    ],
)
def test_an_end_before_the_begin(since: str, until: str, ages: bool) -> None:
    """A usage error that says what both were read as, and the order that is right for ages."""
    with pytest.raises(click.UsageError) as caught:
        bounds(since, until)
    assert f"--until {until} (" in caught.value.message
    assert f" is not after --since {since} (" in caught.value.message
    assert (f"Ages count back: --since {until} --until {since}?" in caught.value.message) == ages


def test_the_end_is_looked_for_only_if_it_is_needed() -> None:
    """A capture is not opened for times that do not count from its end."""

    def fail() -> DataEnd:
        raise AssertionError

    assert time_range(given("5"), given("2026-01-01"), UTC, fail) == TimeRange(since_ms=5, until_ms=DAY)
    assert time_range(None, given("now"), UTC, fail) == TimeRange()
    assert (point_ms(None, UTC, fail), point_ms(given("7"), UTC, fail)) == (None, 7)
    assert point_ms(given("1h"), UTC, lambda: END) == END.at_ms - HOUR


def test_the_heading() -> None:
    """It says what was counted, from where, and in which zone; without counting there is none."""
    berlin = time_zone("Europe/Berlin")
    assert time_range(given("2h"), given("30m"), berlin, lambda: END).heading() == (
        "from 2026-01-01 01:30:00.000 until 2026-01-01 03:00:00.000 (Europe/Berlin), "
        "counted back from the last record, 2026-01-01 03:30:00.000"
    )
    live = DataEnd(at_ms=END.at_ms, is_live=True)
    assert time_range(given("2h"), None, UTC, lambda: live).heading() == (
        "from 2026-01-01 00:30:00.000 (UTC), counted back from now, 2026-01-01 02:30:00.000"
    )
    assert time_range(given("5"), None, UTC, lambda: END).heading() is None
    # A time of day is not counted back.
    assert time_range(given("02:00"), None, UTC, lambda: live).heading() == (
        "from 2026-01-01 02:00:00.000 (UTC), the latest such time before now, 2026-01-01 02:30:00.000"
    )
    assert time_range(given("02:00"), given("02:20"), UTC, lambda: END).heading() == (
        "from 2026-01-01 02:00:00.000 until 2026-01-01 02:20:00.000 (UTC), "
        "the latest such time before the last record, 2026-01-01 02:30:00.000"
    )
    assert live_end().is_live


def test_columns(capture: Path) -> None:
    """Those that are named, in that order, in a pipe and in CSV; a name needs neither # nor capitals."""
    words = ["list", "--from-file", capture, "--columns", "members,State,GROUP"]
    assert invoke(*words).stdout == "#MEMBERS\tSTATE\tGROUP\n2\tStable\tg\n"
    assert invoke(*words, "-o", "csv").stdout == "#MEMBERS,STATE,GROUP\n2,Stable,g\n"


def test_columns_of_verbose(capture: Path) -> None:
    """A column that only --verbose shows may be named without it."""
    words = ["describe", "--from-file", capture, "--group", "g", "--state"]
    assert invoke(*words, "--columns", "coordinator,history").stdout == "COORDINATOR (ID)\tHISTORY\n-\tfull\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--columns", "stat"],
            "There is no column 'stat'; there are group, type, protocol, state, #members,",
        ),
        (["--columns", "state", "-o", "json"], "leave it out with -o json"),
    ],
)
def test_wrong_columns(capture: Path, words: list[str], says: str) -> None:
    """An unknown name is an error that has the known ones."""
    result = invoke("list", "--from-file", capture, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in " ".join(result.stderr.split())


def test_a_width_that_is_given(capture: Path) -> None:
    """COLUMNS makes a pipe like a terminal of that width, as ``watch`` sets it; --wide has no width at all."""
    env = {"COLUMNS": "80"}
    words = ["describe", "--from-file", capture, "--group", "g", "--members"]
    assert invoke(*words, env=env).stdout == (
        "GROUP g\n"
        "CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS\n"
        "a            -                  /10.0.0.1  client-a   1\n"
        "b            -                  /10.0.0.1  client-b   1\n"
    )
    assert invoke(*words, "--wide").stdout == invoke(*words, "--wide", env=env).stdout
