"""Opens a prober and runs it, at an interval or once, and prints its rounds; for ``probe`` and ``run``.

``run`` has it in a process of its own, which librdkafka may abort without ending the job: its assertion fails when
a broker dies during a request about groups (librdkafka issue 4605). ``python -m
groupreplay.streaming.prober.service`` reads its settings as JSON from standard input, because they may contain
passwords, which must not be in a command line or environment. It writes the answers to the probes topic, and the
summary of each round to standard output, one JSON object per line; without a topic the answers go there, too.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.clock import AppendedMessage, BrokerClock, now_ms
from groupreplay.streaming.base.process import StopRequest, hide_pandas, stop_requests, watch_signals
from groupreplay.streaming.config.logs import LogFormat, StatusReport, configure_logs
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    ProbeMessage,
    RoundSummary,
    encode_message,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher, publish_smaller
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.prober.ends import ends_recorder, ends_thread
from groupreplay.streaming.prober.last_rounds import LastRounds, last_rounds
from groupreplay.streaming.prober.packed_ends import EndsPacker
from groupreplay.streaming.prober.prober import Prober, ProbeRound, prober_thread, round_line

log = logging.getLogger(__name__)


#: How far back a starting prober reads its topic to find groups that were rebalancing.
_MEMORY_MS: Final = 3_600_000


def read_clock(publisher: Publisher, topic: str, cluster_id: str, clock: BrokerClock) -> None:
    """Write one message to learn the brokers' time from its append time.

    Raises:
        GroupReplayError: the message was not delivered in time.
        KafkaException: the broker rejected it.
    """
    reading = ClockReading(cluster_id=cluster_id, at_ms=clock.now_ms())
    clock.note(publisher.publish(topic, [encode_message(reading)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """The cluster to probe, the interval, and the topic of another cluster or the same that gets the rounds.

    ``topic`` None: nothing is written to any cluster, and nothing is known of rounds of earlier processes.
    ``ends_interval_seconds`` None: the ends of partitions are not recorded.
    """

    source: Cluster
    sink: Cluster
    topic: str | None
    cluster_id: str
    interval_seconds: float
    job_id: str | None = None
    ends_interval_seconds: float | None = None


def open_prober(target: ProbeTarget, clock: BrokerClock) -> Prober:
    """A prober that continues where the previous one ended, according to the topic.

    Raises:
        GroupReplayError: the topic cannot be read.
    """
    memory = LastRounds()
    if target.topic is not None:
        since_ms = clock.now_ms() - _MEMORY_MS
        memory = last_rounds(Connection(target.sink), target.topic, target.cluster_id, since_ms)
    return Prober(
        GroupAdmin(Connection(target.source)),
        cluster_id=target.cluster_id,
        clock=clock.now_ms,
        interval_ms=round(1_000 * target.interval_seconds),
        job_id=target.job_id,
        in_progress=memory.in_progress,
        listed_ms=memory.listed_ms,
        transactions=memory.transactions,
        ahead_ms=lambda: clock.ahead_ms,
    )


def probe(
    source: Cluster,
    sink: Cluster,
    topics: TopicNames,
    interval_seconds: float,
    ends_interval_seconds: float | None,
) -> int:
    """Probe until SIGTERM or Ctrl-C; returns the exit code (128 + the signal's number).

    Raises:
        GroupReplayError: at the start, a cluster cannot be reached, or the topic does not exist and cannot be created.
    """
    with stop_requests() as stop:
        target = ProbeTarget(
            source=source,
            sink=sink,
            topic=topics.probes,
            cluster_id=Connection(source).cluster_id(),
            interval_seconds=interval_seconds,
            ends_interval_seconds=ends_interval_seconds,
        )
        ensure_topics(Connection(sink), topics, only=("probes",))
        status = StatusReport()

        def reported(taken: ProbeRound) -> None:
            line = round_line(taken.summary)
            status(line.partition(": ")[2], line)

        try:
            keep_probing(target, reported, stop)
        finally:
            status.close()
        return stop.exit_code


def keep_probing(
    target: ProbeTarget,
    on_round: Callable[[ProbeRound], None],
    stop: StopRequest,
    on_ends: Callable[[Sequence[ProbeMessage]], None] = lambda _: None,
) -> None:
    """Probe and write the rounds until ``stop``; ``on_round`` receives each one that was written.

    ``on_ends`` gets the ends of partitions, from a thread of its own, if they go to no topic.
    """
    clock = BrokerClock()
    publish = None if target.topic is None else _Publishing.of(target, target.topic, clock)

    def opened() -> Prober:
        if publish is not None:
            publish.learn_clock()
        return open_prober(target, clock)

    prober = prober_thread(
        opened,
        interval_seconds=target.interval_seconds,
        write=publish or (lambda _: None),
        on_round=on_round,
    )
    threads = [prober, *_ends_threads(target, clock, on_ends)]
    for thread in threads:
        thread.start(at_once=True)
    while not stop.wait(1.0):
        pass
    for thread in threads:
        thread.close(2.0)


def _ends_threads(
    target: ProbeTarget, clock: BrokerClock, on_ends: Callable[[Sequence[ProbeMessage]], None]
) -> Iterator[Background]:
    """The thread that records the ends of partitions, with clients of its own; none if they are not recorded."""
    seconds, topic = target.ends_interval_seconds, target.topic
    if seconds is None:
        return
    publish = None if topic is None else _Publishing.of(target, topic, clock)
    recorder = ends_recorder(
        Connection(target.source),
        cluster_id=target.cluster_id,
        clock=clock.now_ms if publish is None else publish.now_ms,
        interval_seconds=seconds,
        left_out=() if topic is None else {topic},
    )
    yield ends_thread(recorder, publish or on_ends, seconds, None if publish is None else EndsPacker())


@dataclass(frozen=True, slots=True)
class _Publishing:
    """Writes rounds to a topic; the clock learns from the times of the broker."""

    publisher: Publisher
    topic: str
    cluster_id: str
    clock: BrokerClock

    @classmethod
    def of(cls, target: ProbeTarget, topic: str, clock: BrokerClock) -> _Publishing:
        """With a client of its own."""
        return cls(Publisher(target.sink), topic, target.cluster_id, clock)

    def learn_clock(self) -> None:
        """What ``read_clock`` does and raises, before the first round of any thread."""
        if self.clock.off_ms is None:
            read_clock(self.publisher, self.topic, self.cluster_id, self.clock)

    def now_ms(self) -> int:
        """By the brokers' time: a round that is dated by this machine would be wrong for ever. Raises as above."""
        self.learn_clock()
        return self.clock.now_ms()

    def __call__(self, messages: Sequence[ProbeMessage]) -> None:
        self.clock.note(_written(self.publisher, self.topic, messages))


def _written(publisher: Publisher, topic: str, messages: Sequence[ProbeMessage]) -> list[AppendedMessage]:
    """Write a round; answers that the topic refuses as too large are shortened."""
    try:
        return publisher.publish(topic, map(encode_message, messages))
    except MessageTooLargeError:
        appended: list[AppendedMessage] = []
        # In order: the summary follows the answers.
        for message in messages:
            publish_smaller(
                lambda key, value: appended.extend(publisher.publish(topic, [(key, value)])),
                partial(encode_message, message),
            )
        return appended


def probe_once(source: Cluster) -> ProbeRound:
    """Probe once, without writing the result.

    Raises:
        GroupReplayError: the cluster cannot be reached.
    """
    connection = Connection(source)
    return Prober(GroupAdmin(connection), cluster_id=connection.cluster_id(), clock=now_ms).take()


_COMMAND: Final = (sys.executable, "-m", "groupreplay.streaming.prober.service")
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOMENT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProberTask(ProbeTarget):
    """The settings of a prober process."""

    log_level: str
    log_format: LogFormat


class ProberProcess:
    """Runs a prober process in the background until closed, and starts it again whenever it ends.

    ``on_round`` receives the summary of every round that was written, ``on_answer`` before it the answers of one that
    goes to no topic, and ends. ``on_exit`` is called when the process ended by itself, not after ``stop``. The pause
    before a restart grows while the process ends without a round.
    """

    def __init__(
        self,
        task: ProberTask,
        *,
        on_round: Callable[[RoundSummary], None],
        on_exit: Callable[[], None],
        stop: StopRequest,
        on_answer: Callable[[ProbeMessage], None] = lambda _: None,
        command: Sequence[str] = _COMMAND,
        shortest_pause_seconds: float = 1.0,
    ) -> None:
        self._task = msgspec.json.encode(task)
        self._on_round = on_round
        self._on_answer = on_answer
        self._on_exit = on_exit
        self._stop = stop
        self._command = command
        self._shortest_pause = shortest_pause_seconds
        self._closed = threading.Event()
        self._process: GuardedProcess | None = None
        self._thread = threading.Thread(target=self._keep, name="groupreplay-prober", daemon=True)

    def start(self) -> None:
        """Start the process; its first round begins at once."""
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Start no further round; a round in progress may take ``seconds`` more."""
        self._closed.set()
        process = self._process
        if process is not None:
            process.ask_to_end()
        if self._thread.is_alive():
            self._thread.join(seconds)
        if process is not None:
            process.end(0)

    def _keep(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            try:
                rounds, end = self._live()
            except OSError as error:  # no process can be started at the moment
                rounds, end = 0, str(error)
            # A service manager may terminate all processes of a job at once.
            if self._closed.wait(_MOMENT_SECONDS) or self._stop.made:
                return
            pause = min(max(2 * pause, self._shortest_pause), _LONGEST_PAUSE_SECONDS)
            if rounds:
                pause = self._shortest_pause
            self._on_exit()
            log.warning(
                "the prober has ended (%s) after %d rounds: started again in %g s", end, rounds, pause
            )

    def _live(self) -> tuple[int, str]:
        """Run the process until it ends; returns its number of rounds, and how it ended."""
        rounds = 0
        with GuardedProcess(self._command, subprocess.PIPE, given=self._task) as process:
            self._process = process
            assert process.answers is not None
            for line in process.answers if not self._closed.is_set() else ():
                try:
                    message = msgspec.json.decode(line, type=ProbeMessage)
                except msgspec.DecodeError:  # a line that was cut off when the process ended
                    continue
                if not isinstance(message, RoundSummary):
                    self._on_answer(message)
                    continue
                self._on_round(message)
                rounds += 1
            # Its output may end shortly before the process: without the wait, leaving the block would kill it.
            process.wait()
        code = process.exit_code
        return rounds, signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


def main() -> None:
    """The process: probes until SIGTERM, or until the reader of its standard output is gone."""
    hide_pandas()
    # The process that has started it says what has happened.
    watch_signals(lambda _: None)
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=ProberTask)
    configure_logs(task.log_level, task.log_format)
    with stop_requests() as stop:
        lock = threading.Lock()

        def write(messages: Sequence[ProbeMessage]) -> None:
            # Two threads write: a line is whole, and answers stand before their round with at most ends between.
            lines = b"".join(msgspec.json.encode(message) + b"\n" for message in messages)
            try:
                with lock:
                    sys.stdout.buffer.write(lines)
                    sys.stdout.buffer.flush()
            except BrokenPipeError:
                stop.make()

        def on_round(taken: ProbeRound) -> None:
            write([taken.summary] if task.topic is not None else taken.messages)

        keep_probing(task, on_round, stop, write)


if __name__ == "__main__":
    main()
