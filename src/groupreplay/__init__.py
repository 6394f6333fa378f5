"""groupreplay replays Kafka's ``__consumer_offsets`` and reports what happened to every consumer group.

Its rooms, the lowest first; imports go down only:

- ``codecs``: bytes to records and back
- ``state``: records to the snapshot, events and conditions of a group; pure
- ``coordinator``: a model of Kafka's group coordinator with simulated clients, which shares no code with ``state``
- ``timeline``: the history of a group as one document, for pages and terminals; pure
- ``streaming``: the engine, the Spark query, Kafka, the prober and the run
- ``app``: the command line, pages, metrics, and what else a person starts

``api`` and ``spark`` are its Python face: ``groupreplay.replay("tuesday.parquet")`` (docs/python.md). The names below
are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from groupreplay.version import __version__ as __version__

if TYPE_CHECKING:
    from groupreplay.api import (
        Brokers,
        Event,
        GroupReplayError,
        GroupSummary,
        GroupTimeline,
        Simulation,
        Source,
        capture,
        decode,
        decode_record,
        describe,
        group_timeline,
        list_groups,
        log_folders,
        replay,
        simulate,
        topic,
    )

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
    "spark",
    "topic",
]


def __getattr__(name: str) -> Any:
    if name == "spark":
        return import_module("groupreplay.spark")
    if name in __all__:
        return getattr(import_module("groupreplay.api"), name)
    raise AttributeError(f"module 'groupreplay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
