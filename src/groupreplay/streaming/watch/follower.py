"""``watch``: reads the offsets topic from its begin, follows it, asks the brokers, and hands events on.

It is composed of what ``run`` is composed of: the prober's process, the heartbeat, the watch over the log. Where those
write to topics, this process keeps the messages for its own engine. It writes nothing to the cluster.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.state.events.event import gap_event
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.logs import log_settings
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.log import LogMarks
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.contract.partition_ends import EndsRound
from groupreplay.streaming.contract.partition_ends import TopicEnds as PartitionsOfTopic
from groupreplay.streaming.contract.probe_messages import ProbeMessage, RoundSummary, encode_message
from groupreplay.streaming.delivery.outlet import Outlet
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_check import LogEnds, last_records
from groupreplay.streaming.kafka.log_watch import LogLostError, LogWatch, is_same_topic, lost_log
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.prober.service import ProberProcess, ProberTask
from groupreplay.streaming.run.heartbeat import HeartbeatWriter
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.watch.beginning import (
    TRIGGER_SECONDS,
    LogGoneError,
    WatchSettings,
    first_context,
    identified,
    job_identity,
    owner_of,
    start_ms,
    without_log,
)
from groupreplay.streaming.watch.kept_ends import KeptEnds
from groupreplay.streaming.watch.log_clock import LogClock
from groupreplay.streaming.watch.log_reader import Arrived, LogReader, NoLog
from groupreplay.streaming.watch.own_messages import OWN_TOPIC
from groupreplay.streaming.watch.polls import Outcome, Polls, Read
from groupreplay.streaming.watch.state_file import Memory, Owner, StateFile

log = logging.getLogger(__name__)

#: Of a look through the Admin API alone.
_UNSEEN: Final = (
    "through the Admin API alone: slow and stuck rebalances of classic groups are reported. Not seen are "
    "generations, members that come and go, and why, commits, offsets that expire or are deleted, KIP-848, share and "
    "streams groups, rebalances between two rounds of the prober, and everything from before this start"
)
#: Between two polls; a group costs the same for one commit of a poll as for many.
_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 8.0
#: After a poll it rests this many times as long: the polls take at most a third of a core while they keep up.
_REST: Final = 2.0
#: Between two looks for a topic that is not there.
_MISSING_SECONDS: Final = 2.0


@dataclass(slots=True, kw_only=True)
class Follower:
    """One ``watch``. ``deliver`` gets each poll; when it returns, the events of the poll were delivered.

    Open it with ``opened``.
    """

    settings: WatchSettings
    identity: TopicIdentity
    owner: Owner
    report: JobReport
    polls: Polls
    clock: LogClock
    deliver: Callable[[Outcome], None]
    ends: KeptEnds
    _messages: deque[tuple[bytes, bytes]] = field(default_factory=deque, init=False)
    _job_rows: deque[OutputRow] = field(default_factory=deque, init=False)
    _batches: deque[Batch] = field(default_factory=deque, init=False)
    _number: int = field(default=0, init=False)
    _rights: str = field(default="", init=False)
    _was_caught_up: bool = field(default=False, init=False)
    _admin: Connection | None = field(default=None, init=False)

    def follow(self, stop: StopRequest) -> None:
        """Reads until ``stop``.

        Raises:
            LogGoneError: the topic was created again, or a part of it is gone: open another one after it.
            LogLostError: the same, when nothing was read since the last time.
            GroupReplayError: the brokers refuse the reader.
        """
        if self.polls.pending:
            events = [OutputRow(Output.EVENTS, b"", event) for event in self.polls.pending.values()]
            self._hand_on(Outcome(events, dict(self.polls.pending)))
        log_watch = self._log_watch()
        with ExitStack() as parts:
            reader = self._reader()
            parts.callback(reader.close)
            for part in (self._heartbeat(log_watch).background(), log_watch.background()):
                part.start(at_once=True)
                parts.callback(part.close)
            if self.settings.probe_interval_seconds is not None:
                prober = self._prober(stop)
                prober.start()
                parts.callback(prober.close)
            pause = 0.0
            while not stop.wait(pause):
                self.polls.forget_left()
                if (lost := log_watch.found()) is not None:
                    raise self._gone(lost)
                pause = self._poll(reader, stop)

    def _reader(self) -> LogReader | NoLog:
        if self.settings.admin_only:
            log.warning("%s", _UNSEEN)
            return NoLog()
        return LogReader(Connection(self.settings.source), self.identity.partitions, self.polls.read_to)

    def documents(self) -> Iterator[OutputRow]:
        """The documents of what an earlier process has left."""
        return self.polls.engine.documents()

    def _gone(self, lost: LogLostError) -> LogGoneError | LogLostError:
        # A loss before the first poll would repeat for ever.
        is_repeated = self.owner.gap is not None and not self.polls.read_to
        return lost if is_repeated else LogGoneError(lost, self.owner)

    def _poll(self, reader: LogReader | NoLog, stop: StopRequest) -> float:
        """Takes what is there; returns for how long to rest."""
        read_ms, began = self.clock.now_ms(), time.monotonic()
        arrived = self._read(reader, stop)
        self.clock.learn(arrived.batches)
        taken = time.monotonic()
        messages = [self._messages.popleft() for _ in range(len(self._messages))]
        if arrived.read_to or messages:
            outcome = self.polls.take(
                Read(
                    records=arrived.batches,
                    read_to=arrived.read_to,
                    messages=messages,
                    read_ms=max(read_ms, self.clock.now_ms()),
                    ends=self.ends.take(),
                )
            )
            self._note(arrived, len(messages), outcome, read_ms, time.monotonic() - began)
            job_rows = [self._job_rows.popleft() for _ in range(len(self._job_rows))]
            self._hand_on(outcome._replace(rows=[*outcome.rows, *job_rows]))
        self._say_when_behind()
        rest = _REST * (time.monotonic() - taken)
        return 0.0 if arrived.is_full else min(max(_PAUSE_SECONDS, rest), _LONGEST_PAUSE_SECONDS)

    def _read(self, reader: LogReader | NoLog, stop: StopRequest) -> Arrived:
        """What arrives. Raises what the reader raises, or why: the log is gone, or the right to read it."""
        try:
            return reader.read(_PAUSE_SECONDS)
        except GroupReplayError as error:
            if error.exit_code is ExitCode.AUTHORISATION:
                raise _without_right(error) from None
            lost = self._loss(stop)
            raise error if lost is None else self._gone(lost) from None

    def _loss(self, stop: StopRequest) -> LogLostError | None:
        """What of the log is gone when the reader has failed; waits while the topic is not there. None: nothing."""
        while True:
            try:
                return self._compared(Connection(self.settings.source))
            except GroupReplayError as error:
                log.warning("cannot compare the log with what was read for now: %s", error)
                if error.exit_code is not ExitCode.DATA or stop.wait(_MISSING_SECONDS):
                    return None

    def _compared(self, source: Connection) -> LogLostError | None:
        return lost_log(dict(self.polls.read_to), self.owner, source)

    def _hand_on(self, outcome: Outcome) -> None:
        self.deliver(outcome)
        self.polls.delivered(list(outcome.events))

    def _note(self, arrived: Arrived, messages: int, outcome: Outcome, began_ms: int, seconds: float) -> None:
        self._number += 1
        counts = {
            output.value: sum(row.output is output for row in outcome.rows)
            for output in (Output.EVENTS, Output.STATES, Output.DEAD_LETTERS)
        }
        self._batches.append(
            Batch(
                number=self._number,
                started_ms=began_ms,
                seconds=seconds,
                rows=arrived.records + messages,
                records=arrived.records,
                read_to={OFFSETS_TOPIC: dict(self.polls.read_to)},
                counts=counts,
                groups=self.polls.engine.group_count,
            )
        )

    def _say_when_behind(self) -> None:
        """Once for each time that it falls behind; a poll that took long while nothing was written is no such time."""
        is_caught_up = self.report.phase(self.clock.now_ms()) == "caught_up"
        left = sum(self.report.lag().values())
        if self._was_caught_up and not is_caught_up and left:
            log.warning(
                "more is written than is read: %d records to go; `groupreplay run` reads on several cores and machines",
                left,
            )
        self._was_caught_up = is_caught_up or (self._was_caught_up and not left)

    def _publish(self, topic: str, key: bytes, value: bytes) -> None:
        """What ``run`` would write to its topics stays here."""
        if topic == OWN_TOPIC:
            self._messages.append((key, value))
        else:
            self._job_rows.append(OutputRow(Output.JOB, key, value))

    def _heartbeat(self, log_watch: LogWatch) -> HeartbeatWriter:
        ends = LogEnds(Connection(self.settings.source), OFFSETS_TOPIC, self.identity.partitions)
        return HeartbeatWriter(
            report=self.report,
            topics=TopicNames(probes=OWN_TOPIC),
            partitions=self.identity.partitions,
            ends=lambda: self._answering() if self.settings.admin_only else log_watch.note(ends.stable()),
            high_watermarks=lambda: self.clock.ask(ends.high_watermarks),
            progress=lambda: [self._batches.popleft() for _ in range(len(self._batches))],
            publish=self._publish,
            clock=self.clock,
        )

    def _answering(self) -> Mapping[int, int]:
        """No ends; raises while no broker answers, so that no time passes meanwhile."""
        self._admin = self._admin or Connection(self.settings.source)
        self._admin.metadata("cluster", OFFSETS_TOPIC, seconds=TRIGGER_SECONDS)
        return {}

    def _log_watch(self) -> LogWatch:
        source = Connection(self.settings.source)
        return LogWatch(
            era=self.identity.era,
            is_same=lambda: self.settings.admin_only or is_same_topic(self.owner, source),
            lost=lambda: None if self.settings.admin_only else self._compared(source),
            last_records=lambda ends: last_records(source, OFFSETS_TOPIC, ends),
            load=lambda: None,
            store=_forget,
        )

    def _prober(self, stop: StopRequest) -> ProberProcess:
        level, form = log_settings()
        task = ProberTask(
            source=self.settings.source,
            sink=self.settings.source,
            topic=None,
            cluster_id=self.identity.cluster_id,
            interval_seconds=self.settings.probe_interval_seconds or 0.0,
            job_id=self.report.identity.job_id,
            ends_interval_seconds=self.settings.ends_interval_seconds,
            log_level=level,
            log_format=form,
        )
        answers: list[ProbeMessage] = []

        def take_answer(message: ProbeMessage) -> None:
            if isinstance(message, PartitionsOfTopic | EndsRound):
                self.ends.add(self.clock.dated(message))
            else:
                answers.append(self.clock.dated(message))

        def end_round(summary: RoundSummary) -> None:
            # A round is applied as a whole: the summary follows the answers that it covers.
            summary = self.clock.dated(summary)
            messages = [encode_message(message) for message in (*answers, summary)]
            answers.clear()
            self._messages.extend(messages)
            self.report.last_round = summary
            if summary.rights == "missing" and self._rights != "missing":
                log.warning("the prober cannot see all groups; grant it: %s", GRANT_DESCRIBE)
            self._rights = summary.rights

        def end_process() -> None:
            answers.clear()
            self.report.prober_restarts += 1

        return ProberProcess(task, on_round=end_round, on_exit=end_process, stop=stop, on_answer=take_answer)


def _without_right(error: GroupReplayError) -> GroupReplayError:
    """With what is left without the right to read."""
    return GroupReplayError(
        error.what,
        where=error.where,
        fix=f"{error.fix}; groupreplay watch --admin-only reports without it which classic groups are stuck",
        exit_code=error.exit_code,
    )


def _forget(_: LogMarks) -> None:
    """Marks of the log are not kept."""


@contextmanager
def opened(
    settings: WatchSettings,
    deliver: Callable[[Outcome], None],
    outlets: Sequence[Outlet] = (),
    after: LogGoneError | None = None,
) -> Iterator[Follower]:
    """A follower that goes on where the state file ends; closes the file. ``after``: how the one before ended.

    If the log is not the one that was read, it says so, and begins anew with what the log holds.

    Raises:
        GroupReplayError: the cluster cannot be reached, the topic cannot be seen, or the file cannot be used.
    """
    connection = Connection(settings.source)
    identity = without_log(connection) if settings.admin_only else identified(connection)
    with ExitStack() as parts:
        file = None if settings.state is None else StateFile(settings.state)
        if file is not None:
            parts.callback(file.close)
        clock = LogClock()
        now_ms = clock.now_ms() if settings.admin_only else start_ms(clock, connection, identity.partitions)
        owner = owner_of(settings, connection, identity, file, after, now_ms)
        follower = _restored(settings, deliver, outlets, connection, identity, owner, file, clock)
        # The outlets are closed before.
        parts.callback(follower.polls.forget_left)
        yield follower


def _restored(
    settings: WatchSettings,
    deliver: Callable[[Outcome], None],
    outlets: Sequence[Outlet],
    connection: Connection,
    identity: TopicIdentity,
    owner: Owner,
    file: StateFile | None,
    clock: LogClock,
) -> Follower:
    """A follower with the content of the file, which nobody else keeps in memory.

    Raises:
        GroupReplayError: the file is damaged.
    """
    memory = Memory() if file is None else file.load()
    context = first_context(settings, owner, connection)
    # Once more after a process that was killed before its first poll.
    gap = None if memory.read_to else owner.gap
    first = [] if gap is None else [event_row(gap_event(gap, owner.first_start_ms), context, None)]
    return Follower(
        settings=settings,
        identity=identity,
        owner=owner,
        report=JobReport(job_identity(settings, owner, clock.now_ms())),
        polls=Polls(context, memory, file, outlets, first),
        clock=clock,
        deliver=deliver,
        ends=KeptEnds(identity.cluster_id, memory.ends, has_file=file is not None),
    )
