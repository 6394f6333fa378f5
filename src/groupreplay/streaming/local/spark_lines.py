"""The lines of Spark that the job was run on: a line is a minor release with its maintenance releases, such as 4.1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

_RELEASE: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLine:
    """One line, for example 4.1.

    ``connector`` is the release of the Kafka connector in `jars.json`, and ``run_with`` are the releases of pyspark
    with which it was run: not every maintenance release has a connector that could be resolved. ``scalas`` are the
    versions of Scala that Spark is built for, that of pip's pyspark first. ``javas`` are the feature versions of Java
    that Spark's documentation names, ``pythons`` the versions of Python on which both Spark and groupreplay run.
    ``libraries`` are narrower ranges of groupreplay's libraries than its own.
    """

    name: str
    connector: str
    run_with: tuple[str, ...]
    scalas: tuple[str, ...] = ("2.13",)
    javas: tuple[int, ...] = (17, 21)
    pythons: tuple[str, ...] = ("3.10", "3.11", "3.12", "3.13", "3.14")
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def scala(self) -> str:
        """The Scala of pip's pyspark."""
        return self.scalas[0]

    def was_run(self, release: str) -> bool:
        """Whether the connector was run with this release of pyspark, or is of the same release."""
        return release == self.connector or release in self.run_with

    @property
    def jar_set(self) -> str:
        """The connector and what it needs, in `jars.json`."""
        return f"spark-connector-{self.connector}"


#: Oldest first. `make test` runs on the last one, `make test-lines` on the others.
LINES: Final = (
    SparkLine(
        name="3.5",
        connector="3.5.7",
        run_with=("3.5.7", "3.5.9"),
        scalas=("2.12", "2.13"),
        javas=(8, 11, 17),
        # On 3.12 it needs the module distutils, which is gone from Python: setuptools and archives have a substitute.
        pythons=("3.10", "3.11", "3.12"),
        # pyspark 3.5 declares this limit.
        libraries={"numpy": ">=1.26,<2"},
    ),
    SparkLine(name="4.0", connector="4.0.0", run_with=("4.0.5",), pythons=("3.10", "3.11", "3.12", "3.13")),
    SparkLine(name="4.1", connector="4.1.2", run_with=("4.1.2", "4.1.4")),
    SparkLine(name="4.2", connector="4.2.0", run_with=("4.2.0", "4.2.1")),
)
NEWEST: Final = LINES[-1]
#: What any of them runs on; programs beside Spark that run on all of these need no Java of their own.
JAVAS: Final = tuple(sorted({java for line in LINES for java in line.javas}))
#: For messages.
LINE_NAMES: Final = ", ".join(line.name for line in LINES)


def line_name(release: str) -> str:
    """``4.1`` for ``4.1.2`` and for ``4.1.0-amzn-1``; empty for what is no release."""
    found = _RELEASE.match(release)
    return f"{found[1]}.{found[2]}" if found else ""


def find_line(release: str) -> SparkLine | None:
    """The line of a release; None: the job was never run on it."""
    name = line_name(release)
    return next((line for line in LINES if line.name == name), None)


def javas_of(release: str | None) -> tuple[int, ...]:
    """The versions of Java that a release of Spark runs on.

    Those of the newest line for a release that is not known, and for None: there is no Spark.
    """
    line = find_line(release) if release is not None else None
    return (line or NEWEST).javas


def is_newer(release: str) -> bool:
    """Whether a release belongs to a line after the last one that is known."""
    found = _RELEASE.match(release)
    return found is not None and (int(found[1]), int(found[2])) > _numbers(NEWEST.name)


def connector_coordinate(release: str, scala: str | None = None) -> str:
    """The Maven coordinate of the Kafka connector of a release of Spark, for ``--packages``.

    ``scala`` None: that of pip's Spark.
    """
    line = find_line(release)
    return f"org.apache.spark:spark-sql-kafka-0-10_{scala or (line or NEWEST).scala}:{release}"


def installed_release() -> str:
    """The release of the pyspark that is installed.

    Raises:
        GroupReplayError: there is none.
    """
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError as error:
        raise GroupReplayError(
            "pyspark is not installed",
            fix="pip install 'groupreplay[spark]' (on a cluster: use the platform's Spark)",
            exit_code=ExitCode.USAGE,
        ) from error


def _numbers(name: str) -> tuple[int, int]:
    major, minor = name.split(".")
    return int(major), int(minor)
