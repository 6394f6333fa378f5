"""Finds the files of a capture, and what their paths say: Hive folders, and the names that Kafka Connect gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

_FOLDER: Final = re.compile(r"([A-Za-z_][\w.]*)=(.*)")
#: ``topic+partition+start`` (Confluent's S3 sink), with ``+end`` (its HDFS sink); ``topic-partition-start`` (Aiven's).
_CONNECT_NAMES: Final = (
    re.compile(r"(?P<topic>[^+]+)\+(?P<partition>\d+)\+\d+(\+\d+)?(\.\w+)*\.parquet"),
    re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-\d+(\.\w+)*\.parquet"),
)


@dataclass(frozen=True, slots=True)
class CapturePlace:
    """A Parquet file, and values for columns that it may lack, by lower-case name."""

    path: Path
    values: Mapping[str, str] = field(default_factory=dict)


def capture_places(paths: Iterable[Path]) -> list[CapturePlace]:
    """The files that these paths name; of a folder all ``*.parquet`` files below it.

    Raises:
        GroupReplayError: a folder contains no such file.
    """
    return [place for path in paths for place in (_in_folder(path) if path.is_dir() else [_place(path)])]


def _in_folder(folder: Path) -> list[CapturePlace]:
    found = sorted(
        path for path in folder.rglob("*.parquet") if path.is_file() and not _is_hidden(path, folder)
    )
    if not found:
        raise GroupReplayError(
            "no .parquet file in the folder",
            where=str(folder),
            fix="give the capture file itself",
            exit_code=ExitCode.DATA,
        )
    return [_place(path, folder) for path in found]


def _is_hidden(path: Path, folder: Path) -> bool:
    """Unfinished files and files about the data, as Spark and Hive name them: ``.x``, ``_temporary``, ``_delta_log``.

    Kafka Connect names folders and files after the topic, whose own name begins with an underscore.
    """
    parts = path.relative_to(folder).parts
    return any(
        part.startswith(".")
        or (part.startswith("_") and "=" not in part and not part.startswith(OFFSETS_TOPIC))
        for part in parts
    )


def _place(path: Path, folder: Path | None = None) -> CapturePlace:
    parts = path.parts if folder is None else (folder.name, *path.relative_to(folder).parts)
    return CapturePlace(path, {**_of_name(path.name), **dict(_of_folders(parts[:-1]))})


def _of_folders(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if found := _FOLDER.fullmatch(part):
            yield found[1].lower(), unquote(found[2])


def _of_name(name: str) -> dict[str, str]:
    for pattern in _CONNECT_NAMES:
        if found := pattern.fullmatch(name):
            return {"topic": found["topic"], "partition": found["partition"]}
    return {}
