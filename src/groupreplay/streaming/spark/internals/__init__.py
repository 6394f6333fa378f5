"""Everything that touches a private part of PySpark or of its JVM; `docs/internals.md` lists each name.

This module decides whether the private parts of a release of Spark may be used, before one of them is imported; it
imports nothing of PySpark. A release belongs to a line (`platforms.LINES`) on which the tests of every private
part were run, or only Spark's public interface is used with it.
"""

from __future__ import annotations

from typing import Final

from groupreplay.streaming.local.platforms import find_line, line_name

_STREAMING: Final = "org.apache.spark.sql.execution.streaming"
#: Lines before SPARK-52787, which moved the managers of checkpoint files into a package of their own.
_BEFORE_MOVE: Final = frozenset({"3.5", "4.0"})


def has_known_internals(release: str) -> bool:
    """Whether the private parts of this release are those that the job knows."""
    return find_line(release) is not None


def checkpoint_manager(release: str) -> str:
    """The Java class of the manager of checkpoint files that starts few processes; see ``session.LOCAL_FILES``."""
    place = _STREAMING if line_name(release) in _BEFORE_MOVE else f"{_STREAMING}.checkpointing"
    return f"{place}.FileSystemBasedCheckpointFileManager"
