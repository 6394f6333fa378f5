"""What an archive for each Spark line contains. ``docs/platforms.md`` is generated from the same table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.local import spark_lines
from groupreplay.streaming.local.spark_lines import SparkLine

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
    "rich": ">=13.9",
    "starlette": ">=0.41",
    "tomli": ">=2; python_version < '3.11'",
    "tzdata": ">=2024.1",
    "uvicorn": ">=0.32",
}


LINES: Final[Mapping[str, SparkLine]] = {line.name: line for line in spark_lines.LINES}


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
        return spark_lines.connector_coordinate(self.release, self.scala)


def spark_release(text: str, scala: str | None = None) -> SparkRelease:
    """The release for ``3.5`` or ``3.5.4``; ``scala`` None is the default of the line.

    Raises:
        GroupReplayError: the line is unknown, or is not built for this Scala.
    """
    # Platforms add a name of their own: 3.5.6-amzn-1.
    found = re.fullmatch(r"(\d+\.\d+)(\.\d+)?(?:[-+.][\w.-]+)?", text)
    if found is None or found[1] not in LINES:
        raise _unknown(text)
    line = LINES[found[1]]
    scala = scala or line.scala
    if scala not in line.scalas:
        raise unusable(
            f"Spark {found[1]} is not built for Scala {scala}",
            None,
            f"use --scala {' or '.join(line.scalas)}",
        )
    exact = found[2] is not None
    release = f"{found[1]}{found[2]}" if exact else line.connector
    return SparkRelease(line=found[1], release=release, scala=scala, exact=exact)


def _unknown(text: str) -> GroupReplayError:
    what = f"{text!r} is not a Spark line that groupreplay supports"
    return unusable(what, None, f"use --spark {spark_lines.LINE_NAMES}, or a release of these such as 3.5.4")
