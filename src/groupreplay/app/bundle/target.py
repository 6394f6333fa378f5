"""What an archive is made for: the Spark release, the interpreter and the machines; and the libraries that it contains.

``docs/platforms.md`` is generated from the same tables.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.local import platforms
from groupreplay.streaming.local.platforms import SparkLine

#: The libraries of groupreplay with the extras kafka, spark and serve, as in pyproject.toml; ``pyspark`` is the
#: platform's own.
LIBRARIES: Final[Mapping[str, str]] = {
    "click": ">=8.1",
    "confluent-kafka": ">=2.6",
    "msgspec": ">=0.19",
    "numpy": ">=1.26",
    "packaging": ">=23",
    "pandas": ">=2.2,<3",
    "prometheus-client": ">=0.21",
    "pyarrow": ">=18,<26",
    "starlette": ">=0.41",
    "tomli": ">=2; python_version < '3.11'",
    "tzdata": ">=2024.1",
    "uvicorn": ">=0.32",
}


LINES: Final[Mapping[str, SparkLine]] = {line.name: line for line in platforms.LINES}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRelease:
    """A Spark release with its Scala; ``exact`` is false if only the line was given."""

    line: str
    release: str
    scala: str
    exact: bool

    @property
    def supported(self) -> SparkLine:
        """What its line needs."""
        return LINES[self.line]

    @property
    def requirements(self) -> tuple[str, ...]:
        """The requirements of the archive, in the form that pip reads."""
        ranges = {**LIBRARIES, **self.supported.libraries}
        return tuple(f"{name}{ranges[name]}" for name in sorted(ranges))

    @property
    def connector(self) -> str:
        """The Maven coordinate of Kafka's connector of this release, for ``--packages``."""
        return platforms.connector_coordinate(self.release, self.scala)


def spark_release(text: str, scala: str | None = None) -> SparkRelease:
    """The release for ``3.5`` or ``3.5.4``; ``scala`` None is the default of the line.

    Raises:
        GroupReplayError: the line is unknown, or is not built for this Scala.
    """
    # Platforms add a name of their own: 3.5.6-amzn-1.
    match = re.fullmatch(r"(\d+\.\d+)(\.\d+)?(?:[-+.][\w.-]+)?", text)
    if match is None or match[1] not in LINES:
        raise _unknown(text)
    line = LINES[match[1]]
    scala = scala or line.scala
    if scala not in line.scalas:
        raise unusable(
            f"Spark {match[1]} is not built for Scala {scala}",
            None,
            f"use --scala {' or '.join(line.scalas)}",
        )
    exact = match[2] is not None
    release = f"{match[1]}{match[2]}" if exact else line.connector
    return SparkRelease(line=match[1], release=release, scala=scala, exact=exact)


def _unknown(text: str) -> GroupReplayError:
    what = f"{text!r} is not a Spark line that groupreplay supports"
    return unusable(what, None, f"use --spark {platforms.LINE_NAMES}, or a release of these such as 3.5.4")


MACHINES: Final = ("x86_64", "aarch64")
#: The oldest C library (glibc) that all libraries have wheels for: RHEL 8, Debian 10, Ubuntu 20.04, Amazon Linux 2023.
GLIBC: Final = (2, 28)
_OLDEST_GLIBC: Final = 17
#: Names that ``platform.machine`` gives on other systems.
_ALIASES: Final[Mapping[str, str]] = {"arm64": "aarch64", "AMD64": "x86_64", "amd64": "x86_64"}


@dataclass(frozen=True, slots=True)
class BundleTarget:
    """CPython ``python`` (such as 3.11) on Linux with this machine."""

    python: str
    machine: str

    @property
    def pip_flags(self) -> list[str]:
        """Flags with which pip chooses wheels for this target and never builds one."""
        names = [f"manylinux_2_{minor}" for minor in range(GLIBC[1], _OLDEST_GLIBC - 1, -1)]
        names += ["manylinux2014", "manylinux2010", "manylinux1"]
        platforms = [word for name in names for word in ("--platform", f"{name}_{self.machine}")]
        return [
            *("--only-binary=:all:", "--implementation", "cp", "--python-version", self.python),
            *platforms,
        ]

    @property
    def markers(self) -> dict[str, str]:
        """The values of environment markers there."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def bundle_target(python: str | None, machine: str | None, spark: SparkRelease) -> BundleTarget:
    """The target; what is None is as in this process.

    Raises:
        GroupReplayError: the Spark line does not support this Python, or the machine is unknown.
    """
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    pythons = spark.supported.pythons
    if python not in pythons:
        raise unusable(
            f"groupreplay with Spark {spark.line} does not run on Python {python}",
            None,
            f"use --python {', '.join(pythons)}",
        )
    machine = machine or platform.machine()
    machine = _ALIASES.get(machine, machine)
    if machine not in MACHINES:
        raise unusable(f"there are no wheels for {machine}", None, f"use --platform {' or '.join(MACHINES)}")
    return BundleTarget(python, machine)
