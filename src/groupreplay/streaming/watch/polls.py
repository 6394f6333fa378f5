"""One poll after the other: what was read goes through the engine, and what it has changed into the state file.

Knows no Kafka client and no clock. The engine is that of ``replay`` and of the pages of ``serve``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from groupreplay.state import Context
from groupreplay.state.phrases import counted_verb
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, ProbeMessage, decode_message
from groupreplay.streaming.delivery.outlet import Outlet
from groupreplay.streaming.engine.live import Live
from groupreplay.streaming.engine.replay import Filter, events_in_order
from groupreplay.streaming.sources.source import Rows
from groupreplay.streaming.watch.incidents import PolledIncidents
from groupreplay.streaming.watch.kept_ends import Rounds
from groupreplay.streaming.watch.own_messages import OWN_TOPIC, MessageLog, OpenAnswers
from groupreplay.streaming.watch.state_file import Change, Memory, StateFile

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What one poll has read. ``records``: batches of one partition each; ``read_to``: their next offsets.

    ``messages`` are keys and values of answers, rounds and heartbeats, all from before ``read_ms``. ``ends``: what the
    prober has recorded since the last poll.
    """

    records: Sequence[pa.RecordBatch] = ()
    read_to: Mapping[int, int] = field(default_factory=dict)
    messages: Sequence[tuple[bytes, bytes]] = ()
    read_ms: int = 0
    ends: Rounds = field(default_factory=Rounds)


class Outcome(NamedTuple):
    """All messages that the job would write, its events in order by number, and the own messages that were applied."""

    rows: Sequence[OutputRow]
    events: Mapping[int, bytes]
    messages: Sequence[pa.RecordBatch] = ()


class Polls:
    """The engine with its memory: ``take`` each poll, then say which events were ``delivered``.

    ``file`` None: nothing outlives the process. ``outlets`` get what they choose after it was written there. ``first``
    is what is to be said before anything else.
    """

    def __init__(
        self,
        context: Context,
        memory: Memory,
        file: StateFile | None = None,
        outlets: Sequence[Outlet] = (),
        first: Sequence[OutputRow] = (),
    ) -> None:
        self.engine = Live(context)
        self._first = first
        self.engine.restore(memory.states, memory.waiting)
        self.read_to = dict(memory.read_to)
        #: Events of an earlier process that may not have been delivered.
        self.pending = dict(memory.pending)
        self._own = MessageLog(memory.next_message)
        self._file = file
        self._change = Change()
        self._next_number = max(chain(memory.pending, *memory.outgoing.values()), default=0) + 1
        self._open_answers = OpenAnswers(memory.answers)
        self._incidents = PolledIncidents(context, memory.incidents)
        self._outlets = outlets
        for outlet in outlets:
            outlet.send(memory.outgoing.get(outlet.name, {}))
        for name in memory.outgoing.keys() - {outlet.name for outlet in outlets}:
            waiting = counted_verb(len(memory.outgoing[name]), "message", "waits", "wait")
            log.warning("%s for --%s, which is not given", waiting, name)

    def take(self, read: Read) -> Outcome:
        """Applies a poll, and writes what it has changed with the events before anybody gets them."""
        context = self.engine.context
        own = self._own.batch(read.messages, read.read_ms)
        rows = Rows(context.cluster_id, context.era, iter(read.records), probes=own, probes_topic=OWN_TOPIC)
        heard = [message for pair in read.messages if (message := decode_message(*pair)) is not None]
        passed_ms = _caught_up_ms(heard)
        passed = () if passed_ms is None else self.engine.tick(passed_ms)
        written = list(chain(self._first, self.engine.take(rows, read.read_ms), passed))
        self._first = ()
        written += self._incidents.found(written, heard, passed_ms)
        events = dict(enumerate(events_in_order(written, Filter()), self._next_number))
        self._next_number += len(events)
        self.read_to.update(read.read_to)
        outgoing = [self._chosen(outlet, written, events) for outlet in self._outlets]
        if passed_ms is not None:
            self._change.passed_ms = passed_ms
        self._change.answers.update(self._open_answers.take(read.messages, written))
        self._remember(read, events)
        for outlet, messages in zip(self._outlets, outgoing, strict=True):
            outlet.send(messages)
        return Outcome(written, events, own)

    def _chosen(
        self, outlet: Outlet, written: Sequence[OutputRow], events: Mapping[int, bytes]
    ) -> Mapping[int, bytes]:
        chosen = dict(enumerate(outlet.choose(written, events.values()), self._next_number))
        self._next_number += len(chosen)
        self._change.outgoing.update(((outlet.name, number), message) for number, message in chosen.items())
        return chosen

    def forget_left(self) -> None:
        """What has left by the outlets since the last call is forgotten."""
        left = [(outlet.name, number) for outlet in self._outlets for number in outlet.arrived()]
        for place in left:
            self._change.leave(*place)
        if left:
            self._write()

    def delivered(self, numbers: Sequence[int]) -> None:
        """These events have reached their readers, and are forgotten: a process killed before that repeats them."""
        for number in numbers:
            self.pending.pop(number, None)
            if self._file is not None:
                self._change.forget(number)
        if numbers:
            self._write()

    def _remember(self, read: Read, events: Mapping[int, bytes]) -> None:
        if self._file is None:
            self._change = Change()
            return
        change = self._change
        change.read_to.update(read.read_to)
        change.states.update((state.key, state) for state in self.engine.changes())
        change.pending.update(events)
        change.record(read.ends)
        change.incidents = self._incidents.to_store(read.read_ms) or change.incidents
        self._write()

    def _write(self) -> None:
        if self._file is None:
            self._change = Change()
            return
        self._change.waiting = self.engine.waiting()
        self._change.next_message = self._own.next_offset
        if self._file.write(self._change):
            self._change = Change()


def _caught_up_ms(messages: Sequence[ProbeMessage]) -> int | None:
    """Everything from before that time was applied, as the last heartbeat says; None: none says so."""
    heartbeats = [message for message in messages if isinstance(message, HeartbeatMessage)]
    return next((beat.caught_up_ms for beat in reversed(heartbeats) if beat.caught_up_ms is not None), None)
