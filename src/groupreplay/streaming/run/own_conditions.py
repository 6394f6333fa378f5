"""The job's own conditions as the driver evaluates them, so that they are reported while the query stands still.

The query evaluates them with its state of the key ``JOB_TAG``. The driver reads the same messages back and applies
the same code to a state of its own, which it takes over from the query (``STATE_KEY``). It publishes only what the
query has not read in time. Both give an event the same id, so what the query writes later is a repeat.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from groupreplay.state.events.event import Event
from groupreplay.state.job.observations import ObservationPlace
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.context import Context
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import JobStateMessage, OutputRow, decode_state_message
from groupreplay.streaming.contract.probe_messages import decode_message
from groupreplay.streaming.engine.json_messages import conditions_row, event_row
from groupreplay.streaming.engine.probe_rows import ProbeFilter, job_observation
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.sinks.job_topic import OwnMessage

log = logging.getLogger(__name__)

#: How long the query may take to read a message, at least; also three triggers.
_LEAST_SECONDS: Final = 15.0
_TRIGGERS: Final = 3
#: Between two attempts, when the topics cannot be read or written.
_PAUSE_SECONDS: Final = 3.0
#: Without a state of the query, conditions are evaluated from so far back.
_BACK_MS: Final = 3_600_000


class OwnMessages(Protocol):
    """``OwnTopics`` as this module uses it. Every method raises GroupReplayError when the topics cannot be read."""

    def last_state(self) -> JobStateMessage | None:
        """The last state that a query has written, of any job."""

    def begin(self, read_to: Mapping[int, int], since_ms: int) -> None:
        """Begins, also anew, behind these offsets of ``group-probes``, or, without any, with what is newer."""

    def new_messages(self) -> list[OwnMessage]:
        """What was written since the last call; waits a moment for the first message."""


@dataclass(frozen=True, slots=True)
class _Untold:
    """An event of a message that the query has not read yet; the driver read it at the second ``read_at``."""

    place: ObservationPlace
    event: Event
    read_at: float


@dataclass(slots=True, kw_only=True)
class OwnConditions:
    """The driver's evaluation; ``tick`` is called often. ``context`` returns that of the present query.

    ``publish`` takes a topic and a row and raises when the broker has not taken it; ``clock`` is the brokers' time.
    """

    messages: OwnMessages
    topics: TopicNames
    probe_filter: ProbeFilter
    report: JobReport
    context: Callable[[], Context]
    publish: Callable[[str, OutputRow], object]
    clock: Callable[[], int]
    seconds: Callable[[], float] = time.monotonic
    _watch: JobWatch | None = field(default=None, init=False)
    _untold: list[_Untold] = field(default_factory=list, init=False)
    _owes_conditions: bool = field(default=False, init=False)
    #: The document that was published last, unless the query has written one since.
    _shown: bytes | None = field(default=None, init=False)

    def background(self) -> Background:
        """The thread that calls ``tick``, which itself waits for messages."""
        return Background(
            name="conditions",
            tick=self.tick,
            pause_seconds=0.0,
            retry_seconds=_PAUSE_SECONDS,
            failing="the job's own conditions are not evaluated for now",
        )

    def tick(self) -> None:
        """Reads what is new, and publishes what the query has not read in time."""
        if self._watch is None:
            self._begin(self.messages.last_state())
        try:
            new = self.messages.new_messages()
        except GroupReplayError:
            self._watch = None
            raise
        for message in new:
            if message.topic == self.topics.probes:
                self._apply(message)
                continue
            state = decode_state_message(message.key, message.value)
            if state is not None and self._is_ours(state):
                self._begin(state)
                # The rest is read again, from where the query's state ends.
                break
        self._forget_read()
        if self._is_due():
            self._publish()

    def _is_ours(self, state: JobStateMessage) -> bool:
        context = self.context()
        ours = (context.cluster_id, context.job_id, context.era)
        return (state.cluster_id, state.job_id, state.era) == ours

    def _begin(self, state: JobStateMessage | None) -> None:
        """Continues from a state of the query; without one, or an unreadable one, from an empty state."""
        context = self.context()
        # Until the reader stands at its place, nothing may be applied.
        self._watch, watch = None, JobWatch(context, sees_log=False)
        if state is not None and self._is_ours(state):
            try:
                stored = JobWatch.from_snapshot(context, state.state, sees_log=False)
                stored.conditions()  # decodes what the state has of them
                watch = stored
            except Exception as error:  # another release, or another program, may have written it
                log.warning("the job's conditions are evaluated without their former state: %s", error)
        read_to = watch.read_to
        self.messages.begin(read_to, max(context.own_since_ms, self.clock() - _BACK_MS))
        # What is behind the state is evaluated again.
        self._untold = [
            one for one in self._untold if one.place.offset <= read_to.get(one.place.partition, -1)
        ]
        self._watch, self._shown = watch, None

    def _apply(self, message: OwnMessage) -> None:
        watch = self._watch
        assert watch is not None
        place = ObservationPlace(message.topic, message.partition, message.offset)
        decoded = decode_message(message.key, message.value)
        seen = job_observation(decoded, place, message.append_ms, self.probe_filter)
        if seen is None:
            return
        watch.context = self.context()
        events = watch.apply([seen], self.clock())
        if place.offset >= self.report.told_to:
            self._untold += [_Untold(place, event, self.seconds()) for event in events]

    def _forget_read(self) -> None:
        """The events of messages that a finished batch has read are the query's."""
        read = self.report.read_of(self.topics.probes)
        self._untold = [one for one in self._untold if one.place.offset >= read.get(one.place.partition, 0)]

    def _is_due(self) -> bool:
        if not self._untold:
            return self._owes_conditions
        limit = max(_LEAST_SECONDS, _TRIGGERS * self.report.identity.trigger_seconds)
        # A query that has finished no batch for so long is not about to read anything.
        return max(self.seconds() - self._untold[0].read_at, self.report.query.quiet_seconds) >= limit

    def _publish(self) -> None:
        watch = self._watch
        assert watch is not None
        self._owes_conditions = True
        row = conditions_row(watch.conditions(), watch.context)
        try:
            self._publish_events(watch.context)
        finally:
            # Also when the topic of events cannot be written: that may be what stops the query.
            if row.value != self._shown:
                self.publish(self.topics.job, row)
            self._shown, self._owes_conditions = row.value, False

    def _publish_events(self, context: Context) -> None:
        while self._untold:
            one = self._untold[0]
            self.publish(self.topics.events, event_row(one.event, context, self.clock()))
            self._untold.pop(0)
            if all(other.place != one.place for other in self._untold):
                self.report.told_to = one.place.offset + 1
