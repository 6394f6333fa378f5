"""Spark's files in a checkpoint: whether a query has run on it, and whether the files are complete.

 Spark writes what a batch will read into ``offsets``, its result into ``state``, and then the batch into
``commits``: at most one batch is in the first and not in the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

_FOLDERS: Final = ("offsets", "commits", "state")
_VERSION: Final = re.compile(r"v\d+")
#: A source of version 2; JSON itself never has a colon behind its first word.
_NAMED_SOURCE: Final = re.compile(r"[\w.-]+:(?=[-{])")


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Access to the files by names like ``offsets/7``; ``text`` raises ValueError for a file that cannot be read."""

    exists: Callable[[str], bool]
    numbers: Callable[[str], list[int]]
    text: Callable[[str], str]


class Damage(NamedTuple):
    """A fault, and the file that has it."""

    what: str
    name: str


def in_folder(folder: Path) -> SparkFiles:
    """The files in a local folder."""
    return SparkFiles(
        exists=lambda name: (folder / name).exists(),
        numbers=lambda name: sorted(
            int(file.name) for file in folder.glob(f"{name}/*") if file.name.isdigit()
        ),
        text=lambda name: (folder / name).read_text("utf-8"),
    )


def has_run(files: SparkFiles) -> bool:
    """Whether a query has run on this checkpoint."""
    return any(map(files.exists, _FOLDERS))


def damage(files: SparkFiles) -> Damage | None:
    """A fault that would make Spark start again from nothing, go back silently, or fail without naming the file."""
    if not has_run(files):
        return None
    if not files.exists("metadata"):
        return Damage("the checkpoint has lost its metadata file", "metadata")
    planned, finished = files.numbers("offsets"), files.numbers("commits")
    last = finished[-1] if finished else -1
    missing = [f"offsets/{last}"] if finished and last not in planned else []
    missing += [f"commits/{planned[-1] - 1}"] if planned and planned[-1] > last + 1 else []
    missing += ["state"] if finished and not files.exists("state") else []
    if missing:
        return Damage("the checkpoint is damaged: this is missing", missing[0])
    present = [
        "metadata",
        *(f"offsets/{one}" for one in planned[-2:]),
        *(f"commits/{one}" for one in finished[-1:]),
    ]
    reasons = ((name, _unreadable(files, name)) for name in present)
    return next((Damage(f"the checkpoint is damaged: {why}", name) for name, why in reasons if why), None)


def source_line(line: str) -> str:
    """A line of a log of Spark without the number or name of its source, which version 2 puts before the JSON.

    The lines of version 2 (Spark 4.2, ``spark.sql.streaming.offsetLog.formatVersion=2``) have no order.
    """
    named = _NAMED_SOURCE.match(line)
    return line[named.end() :] if named else line


def _unreadable(files: SparkFiles, name: str) -> str | None:
    """Why a file is damaged; None for one that has a line with its version and then lines of JSON."""
    try:
        lines = [line for line in files.text(name).splitlines() if not _VERSION.fullmatch(line)]
        for line in map(source_line, lines):
            # A hyphen stands for a source that was not read yet.
            if line != "-":
                msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None if lines else "it holds nothing"
