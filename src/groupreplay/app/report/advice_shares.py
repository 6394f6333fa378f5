"""The advice on all groups by several processes: each reads the whole input, and replays its share of the groups.

What is computed of all groups, such as a group's share of the bytes, each process has from all records.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Final
from zlib import crc32

from groupreplay.app.report.advice import AdvisedGroups, advised_groups
from groupreplay.app.report.timelines import TimelineQuery, read_groups
from groupreplay.state import Context
from groupreplay.streaming.base.spawned import spawned, usable_processes
from groupreplay.streaming.contract.log import ProgressCallback
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.capture import CaptureSource
from groupreplay.streaming.sources.capture_columns import capture_places
from groupreplay.streaming.sources.source import Rows

#: To start a process takes a second of CPU time; so much of a capture takes several times that.
_BYTES_OF_PROCESS: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class GroupShare:
    """A container of the ids of one group of ``of``: those whose checksum leaves this rest."""

    number: int
    of: int

    def __contains__(self, group_id: object) -> bool:
        assert isinstance(group_id, str)
        return crc32(group_id.encode()) % self.of == self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedReading:
    """A capture of which all groups are read. ``rows``: of this process, which shows the progress of reading them."""

    source: CaptureSource
    rows: Rows
    context: Context
    query: TimelineQuery


def usual_processes(source: CaptureSource) -> int:
    """One for each CPU that this process may use, if the capture is long enough for so many."""
    size = sum(place.path.stat().st_size for place in capture_places(source.paths))
    return max(1, min(usable_processes(), size // _BYTES_OF_PROCESS))


def shared_advice(
    reading: SharedReading, processes: int, progress: ProgressCallback
) -> tuple[list[AdvisedGroups], Replay]:
    """What was found of the share of each process, and the replay of this one, which counts what was lost in all.

    ``progress`` counts groups of this process's share, then shares. A share whose process has failed is read here, so
    that errors of the input are raised here.

    Raises:
        GroupReplayError: the capture cannot be read.
    """
    # Rows are read once, and belong to this process.
    theirs = replace(reading, rows=Rows("", "", iter(())))
    with spawned(_answer, [(theirs, number, processes) for number in range(1, processes)]) as connections:
        read = read_groups(reading.rows, reading.context, _share(reading.query, 0, processes))
        parts = [advised_groups(read, progress)]
        for number, connection in enumerate(connections, 1):
            parts.append(_received(connection) or _advised(reading, number, processes))
            progress(number + 1, processes)
    read.replay.quarantined = sum(part.quarantined for part in parts)
    return parts, read.replay


def _share(query: TimelineQuery, number: int, of: int) -> TimelineQuery:
    return replace(query, groups=GroupShare(number, of))


def _advised(reading: SharedReading, number: int, of: int) -> AdvisedGroups:
    """What is found of a share in a reading of its own."""
    return advised_groups(
        read_groups(reading.source.open(), reading.context, _share(reading.query, number, of))
    )


def _received(connection: Connection) -> AdvisedGroups | None:
    with suppress(EOFError, OSError):
        answer: AdvisedGroups = connection.recv()
        return answer
    return None


def _answer(connection: Connection, reading: SharedReading, number: int, of: int) -> None:
    """The work of a process."""
    try:
        connection.send(_advised(reading, number, of))
    except Exception:
        # The first process reads this share, and says what is wrong.
        connection.close()
