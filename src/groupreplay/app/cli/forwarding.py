"""``events --follow --webhook``: the events of the topic to a receiver, going on where an earlier process ended."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from groupreplay.state.phrases import counted
from groupreplay.streaming.delivery.outlet import Outlet, RunningOutlet
from groupreplay.streaming.sinks.event_topic import EventTopic
from groupreplay.streaming.watch.state_file import Change, Memory, Owner, StateFile

log = logging.getLogger(__name__)


def forwarded(
    topic: EventTopic, outlet: RunningOutlet, path: Path | None, parts: ExitStack
) -> Iterator[bytes]:
    """The new events of the topic, each after it was given to the outlet, until an interrupt; ``parts`` ends it.

    ``path`` None: nothing outlives the process.

    Raises:
        GroupReplayError: the topic cannot be read, or the file cannot be used.
    """
    identity = topic.identify()
    file = None if path is None else StateFile(path)
    memory = Memory()
    if file is not None:
        parts.callback(file.close)
        # Topics of events may get more partitions.
        owner = Owner(
            cluster_id=identity.cluster_id, era=identity.era, partitions=0, first_start_ms=0, job_id=""
        )
        file.claim(owner)
        memory = file.load()
    position = _Position(outlet, file, memory)
    # After the outlet was closed, which may take what waits.
    parts.callback(position.forget_arrived)
    starts = topic.starts(memory.read_to)
    lost = sum(max(0, first - memory.read_to.get(number, first)) for number, first in starts.items())
    if lost:
        removed = counted(lost, "event")
        log.error("the topic removed %s unread, because its retention is shorter", removed)
    position.note(starts, [])
    outlet.start()
    parts.callback(outlet.close)
    return _following(topic, starts, position)


def _following(topic: EventTopic, starts: Mapping[int, int], position: _Position) -> Iterator[bytes]:
    for read_to, events in topic.follow_from(starts, position.forget_arrived):
        position.note(read_to, events)
        yield from events


class _Position:
    """What was read and has not arrived."""

    def __init__(self, outlet: Outlet, file: StateFile | None, memory: Memory) -> None:
        self._outlet, self._file = outlet, file
        self._change = Change()
        waiting = memory.outgoing.get(outlet.name, {})
        self._next_number = max(waiting, default=0) + 1
        outlet.send(waiting)

    def note(self, read_to: Mapping[int, int], events: list[bytes]) -> None:
        """Remembers both together, then sends the events."""
        chosen = dict(enumerate(self._outlet.choose((), events), self._next_number))
        self._next_number += len(chosen)
        self._change.read_to.update(read_to)
        self._change.outgoing.update(((self._outlet.name, number), event) for number, event in chosen.items())
        self._write()
        self._outlet.send(chosen)

    def forget_arrived(self) -> bool:
        """Forgets what has arrived; False, for whoever asks whether to end."""
        arrived = self._outlet.arrived()
        for number in arrived:
            self._change.leave(self._outlet.name, number)
        if arrived:
            self._write()
        return False

    def _write(self) -> None:
        if self._file is None or self._file.write(self._change):
            self._change = Change()
