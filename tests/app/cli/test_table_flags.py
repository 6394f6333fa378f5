"""``--wide`` and ``--columns`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.job.captures import invoke


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
