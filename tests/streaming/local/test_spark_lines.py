"""The lines of Spark and what belongs to each."""

from __future__ import annotations

from importlib import metadata

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.local import spark_lines
from groupreplay.streaming.local.jars import SETS
from groupreplay.streaming.local.spark_lines import (
    LINES,
    connector_coordinate,
    find_line,
    is_newer,
    javas_of,
    line_name,
)
from support.paths import ROOT


@pytest.mark.parametrize(
    ("release", "line", "newer"),
    [
        ("3.5.7", "3.5", False),
        ("3.5.2-amzn-1", "3.5", False),
        ("4.0.0", "4.0", False),
        ("4.2.1", "4.2", False),
        ("4.2.0.dev0", "4.2", False),
        ("3.4.4", None, False),
        ("4.3.0", None, True),
        ("4.10.0", None, True),
        ("5.0.0", None, True),
        ("a fork", None, False),
    ],
)
def test_the_line_of_a_release(release: str, line: str | None, newer: bool) -> None:
    """Maintenance releases and those of platforms belong to the line of their first two numbers."""
    found = find_line(release)
    assert ((found.name if found else None), is_newer(release)) == (line, newer)


def test_each_line_has_its_connector() -> None:
    """Its jars are of that line and of the Scala that pip's Spark of that line has."""
    for line in LINES:
        coordinate = connector_coordinate(line.connector)
        assert line_name(line.connector) == line.name
        assert coordinate in SETS[line.jar_set].alone
        assert coordinate.split(":")[1].endswith(f"_{line.scala}")


def test_another_scala_is_another_coordinate() -> None:
    """Spark 3.5 exists for two versions of Scala; a release of a platform keeps its own name."""
    assert connector_coordinate("3.5.7", "2.13") == "org.apache.spark:spark-sql-kafka-0-10_2.13:3.5.7"
    assert connector_coordinate("4.3.0") == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"


@pytest.mark.parametrize(
    ("release", "javas"),
    [
        ("3.5.7", (8, 11, 17)),
        ("4.0.1", (17, 21)),
        ("4.9.0", (17, 21)),
        ("a fork", (17, 21)),
        (None, (17, 21)),
    ],
)
def test_the_javas_of_a_release(release: str | None, javas: tuple[int, ...]) -> None:
    """Those of its line; of a release that is not known, and without a Spark, those of the newest line."""
    assert javas_of(release) == javas


def test_a_missing_pyspark_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the command that installs it."""

    def none(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", none)
    with pytest.raises(GroupReplayError) as error:
        spark_lines.installed_release()
    assert (error.value.exit_code, "pip install 'groupreplay[spark]'" in str(error.value)) == (
        ExitCode.USAGE,
        True,
    )


def test_each_python_can_install_the_package() -> None:
    """The oldest one is the package's own limit; platforms' older ones are replaced."""
    assert {line.pythons[0] for line in LINES} == {"3.10"}
    assert metadata.metadata("groupreplay")["Requires-Python"] == ">=3.10"


def test_which_pairs_were_run() -> None:
    """The connector with itself, and with the releases that docs/operations.md names."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = page.partition("What was run, each with the connector above:")[2].partition("\n## ")[0]
    for line in LINES:
        assert {line_name(release) for release in line.run_with} == {line.name}
        assert [release for release in line.run_with if release not in section] == []
        assert [line.was_run(release) for release in (line.connector, *line.run_with, f"{line.name}.99")] == [
            *[True] * (1 + len(line.run_with)),
            False,
        ]
