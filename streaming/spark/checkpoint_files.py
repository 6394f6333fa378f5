"""The files of Spark in a checkpoint: whether a query has run on it, and whether they go together.

Spark notes what a batch will read in ``offsets``, keeps what came of it in ``state``, and then writes the batch into
``commits``: at most one batch is in the first and not in the last. Knows that and the files' form; must not know how
they are reached, nor what the batches hold.
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


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """The way to the files, by names like ``offsets/7``; ``text`` raises ValueError for one that cannot be read."""

    exists: Callable[[str], bool]
    numbers: Callable[[str], list[int]]
    text: Callable[[str], str]


class Damage(NamedTuple):
    """What is wrong, and with which file."""

    what: str
    name: str


def in_folder(folder: Path) -> SparkFiles:
    """Those in a local folder."""
    return SparkFiles(
        exists=lambda name: (folder / name).exists(),
        numbers=lambda name: sorted(
            int(file.name) for file in folder.glob(f"{name}/*") if file.name.isdigit()
        ),
        text=lambda name: (folder / name).read_text("utf-8"),
    )


def has_run(files: SparkFiles) -> bool:
    """Whether a query has run here."""
    return any(map(files.exists, _FOLDERS))


def damage(files: SparkFiles) -> Damage | None:
    """What would make Spark begin again from nothing or go back in silence, or fail without a word about it."""
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


def _unreadable(files: SparkFiles, name: str) -> str | None:
    """Why a file is not what it was: lines of JSON, behind one that says which version."""
    try:
        lines = [line for line in files.text(name).splitlines() if not _VERSION.fullmatch(line)]
        for line in lines:
            # What a source has not begun to read is a hyphen.
            if line != "-":
                msgspec.json.decode(line)
    except ValueError as error:
        return str(error)
    return None if lines else "it holds nothing"
