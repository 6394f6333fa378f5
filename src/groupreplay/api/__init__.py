"""Captures and topics in Python: what the commands print, as values. ``import groupreplay`` has everything in here.

Each function calls what the command of the same name calls, so that events, ids, rows and documents are the same. A
``source`` is the path of a capture, a list of paths, or the result of ``capture``, ``log_folders`` or ``topic``. Times
are aware datetimes, or milliseconds since 1970. Every expected failure is a ``GroupReplayError`` with ``what``,
``where`` and ``fix``. Nothing is printed; what the commands print beside their results is logged.

The examples read the capture that ``groupreplay.simulate("deployment", "tuesday.parquet", groups=3, seconds=7200)``
writes.
"""

from groupreplay.api.reading import (
    Event,
    GroupSummary,
    GroupTimeline,
    decode,
    decode_record,
    describe,
    group_timeline,
    list_groups,
    replay,
)
from groupreplay.api.sources import Simulation, Source, capture, log_folders, simulate, topic
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.retention import Brokers

__all__ = [
    "Brokers",
    "Event",
    "GroupReplayError",
    "GroupSummary",
    "GroupTimeline",
    "Simulation",
    "Source",
    "capture",
    "decode",
    "decode_record",
    "describe",
    "group_timeline",
    "list_groups",
    "log_folders",
    "replay",
    "simulate",
    "topic",
]
