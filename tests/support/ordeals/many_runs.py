"""Several jobs on one topic ``group-job``, in simulated time: each in a thread of its own, one of them at a time.

Every read and every wait gives the turn to whoever is next. So a history of starts, kills, pauses and outages takes no
time and is the same each time.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.contract.messages import STOPPED, JobDocument, OwnerClaim
from groupreplay.streaming.run.standby import JobHistory, Standby, Turns
from groupreplay.streaming.run.topic_owner import TopicOwner
from groupreplay.streaming.sinks.job_topic import RunMessage

#: A run with this trigger counts as ended after thirty seconds.
TRIGGER_SECONDS = 10.0
#: How long a driver needs at most to write again after an outage: its pauses grow with the outage, up to a limit.
MOST_RECOVERY_SECONDS = 20.0
_TICK_SECONDS = 0.5


class KilledError(BaseException):
    """The end of a process by ``kill -9``."""


class AwayError(GroupReplayError):
    """No broker answers."""

    def __init__(self) -> None:
        super().__init__("no broker answers", exit_code=ExitCode.CONNECTION)


@dataclass
class Runs:
    """The topic, the time, and the processes."""

    random: random.Random
    now: float = 0.0
    log: list[RunMessage] = field(default_factory=list)
    away_until: float = 0.0
    outage_seconds: float = 0.0
    processes: list[Process] = field(default_factory=list)
    #: What should not have been.
    faults: list[str] = field(default_factory=list)
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def is_away(self) -> bool:
        """Whether no broker answers."""
        return self.now < self.away_until

    def start(self, *, standby: bool = True, take_over: bool = False) -> Process:
        """Starts one more process."""
        process = Process(self, f"p{len(self.processes)}", standby=standby, take_over=take_over)
        self.processes.append(process)
        return process

    def run_to(self, second: float) -> None:
        """Lets the processes work until this time."""
        while True:
            waiting = [one for one in self.processes if not one.has_ended and one.wakes_at <= second]
            if not waiting:
                self.now = second
                return
            first = min(waiting, key=lambda one: one.wakes_at)
            self.now = max(self.now, first.wakes_at)
            first.resume(self.turn)

    def lose_brokers(self, seconds: float) -> None:
        """No broker answers for this time."""
        self.away_until, self.outage_seconds = self.now + seconds, seconds

    def end(self) -> None:
        """Ends all threads."""
        for process in self.processes:
            process.kill()
        self.run_to(self.now)

    def alive(self) -> list[Process]:
        """The processes that have not ended."""
        return [one for one in self.processes if not one.has_ended]

    def working(self) -> list[Process]:
        """Those that run a query."""
        return [one for one in self.alive() if one.run_id is not None]


class Process:
    """One job: ``run``, ``run --standby`` or ``run --take-over``."""

    def __init__(self, runs: Runs, name: str, *, standby: bool, take_over: bool) -> None:
        self.runs, self.name, self.wakes_at = runs, name, runs.now
        self.run_id: str | None = None
        self.error: GroupReplayError | None = None
        self.has_ended = self.is_killed = False
        self.suspended_until = 0.0
        self._writes_from = 0.0
        self.stop = Stop(self)
        self._is_standby, self._take_over = standby, take_over
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """``kill -9``."""
        self.is_killed, self.run_id = True, None
        self.wakes_at = min(self.wakes_at, self.runs.now)

    def suspend(self, seconds: float) -> None:
        """``kill -STOP``, and later ``-CONT``."""
        self.wakes_at = max(self.wakes_at, self.runs.now) + seconds
        self.suspended_until = self.wakes_at

    def resume(self, turn: threading.Semaphore) -> None:
        """Gives it the turn until it waits again or ends."""
        self._go.release()
        turn.acquire()

    def wait(self, seconds: float) -> None:
        """Gives the turn to others for this time."""
        self.wakes_at = self.runs.now + seconds
        self.runs.turn.release()
        self._go.acquire()
        if self.is_killed:
            raise KilledError

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.is_killed:
                self._main()
        except GroupReplayError as error:
            self.error = error
        except KilledError:
            pass
        finally:
            self.has_ended, self.run_id = True, None
            self.runs.turn.release()

    def _main(self) -> None:
        clock: Callable[[], float] = lambda: self.runs.now  # noqa: E731
        if self._is_standby:
            Turns(topic=self._reader, run=self._turn, stop=self.stop, show=_silent, clock=clock).take()  # type: ignore[arg-type]
            return
        owner = TopicOwner(messages=self._reader(), stop=self.stop, show=_silent, clock=clock)
        if not self._take_over:
            owner.require_free()
        self._work(owner)

    def _turn(self, owner: TopicOwner, _: JobHistory) -> None:
        Standby(
            owner=owner,
            take_lock=lambda: True,
            lock_owner=lambda: "nobody",
            has_ended=lambda _: False,
            require_alive=lambda: None,
            ready=lambda: None,
            stop=self.stop,
            show=_silent,
            clock=lambda: self.runs.now,
        ).wait()
        self.wait(self.runs.random.uniform(0, 2))
        if not self.stop.made:
            self._work(owner)

    def _work(self, owner: TopicOwner) -> None:
        """Claims the topics and writes until another run has claimed them."""
        run_id = f"{self.name}-{owner.new_run()}"
        owner._own_runs.add(run_id)
        owner.claim(OwnerClaim(run_id=run_id, job_id=self.name), self._write_claim)
        next_document = 0.0
        try:
            while not self.stop.made:
                replaced = owner.replaced()
                if replaced is not None:
                    raise replaced
                # From here on events may be written until the next look.
                self.run_id = run_id
                self._check_alone(owner)
                if self.runs.now >= next_document and self._can_write():
                    self._write(run_id, "caught_up")
                    next_document = self.runs.now + TRIGGER_SECONDS
                self.wait(_TICK_SECONDS)
        finally:
            self.run_id = None
            if not self.is_killed and not self.runs.is_away:
                self._write(run_id, STOPPED)

    def _can_write(self) -> bool:
        if self.runs.is_away:
            most = min(2 * self.runs.outage_seconds, MOST_RECOVERY_SECONDS)
            self._writes_from = self.runs.away_until + self.runs.random.uniform(0, most)
        return self.runs.now >= self._writes_from

    def _write(self, run_id: str, phase: str) -> None:
        self.runs.log.append(
            JobDocument(
                run_id=run_id, job_id=self.name, phase=phase, heartbeat_ms=0, trigger_seconds=TRIGGER_SECONDS
            )
        )

    def _write_claim(self, claim: OwnerClaim) -> None:
        if self.runs.is_away:
            raise AwayError
        if self._is_standby:
            self._check_silence()
        self.runs.log.append(claim)

    def _check_silence(self) -> None:
        """A standby must not claim the topics of a run that lives; a suspended one does not."""
        for other in self.runs.working():
            if other is not self and self.runs.now - other.suspended_until > 1.0:
                self.runs.faults.append(
                    f"{self.runs.now:.1f}: {self.name} replaces {other.name}, which lives"
                )

    def _check_alone(self, owner: TopicOwner) -> None:
        """Nobody else works who has read everything, as this process has."""
        if not owner.messages.is_read_to_end():
            return
        for other in self.runs.working():
            claims = [one.job_id for one in self.runs.log if isinstance(one, OwnerClaim)]
            if other is not self and claims[-1] != self.name:
                self.runs.faults.append(f"{self.runs.now:.1f}: {self.name} works beside {other.name}")

    def _reader(self) -> ProcessReader:
        return ProcessReader(self)


class ProcessReader:
    """The topic from its end on, as a process reads it; messages arrive a moment after they were written."""

    topic = "group-job"

    def __init__(self, process: Process) -> None:
        self._process, self._runs = process, process.runs
        if self._runs.is_away:
            raise AwayError
        self._first = self._place = len(self._runs.log)

    def close(self) -> None:
        """Nothing is open."""

    def tails(self) -> Iterator[list[RunMessage]]:
        """Everything before the end that it had at first."""
        yield self._runs.log[: self._first]

    def last_messages(self) -> dict[str, RunMessage]:
        """The last message of each run since the last claim."""
        found: dict[str, RunMessage] = {}
        for one in self._runs.log[: self._first]:
            if isinstance(one, OwnerClaim):
                found.clear()
            found[one.run_id] = one
        return found

    def new_messages(self, seconds: float) -> list[RunMessage]:
        """What has arrived; time passes when there is nothing."""
        if seconds and self._place == len(self._runs.log):
            self._process.wait(seconds)
        # An outage is no error of a reader, and a fetch may come too late for this call.
        if self._runs.is_away or (seconds == 0 and self._runs.random.random() < 0.3):
            return []
        found = self._runs.log[self._place :]
        self._place = len(self._runs.log)
        return found

    def is_read_to_end(self) -> bool:
        """Whether there is nothing more."""
        if self._runs.is_away:
            self._process.wait(self._runs.random.uniform(0, 10))
            raise AwayError
        return self._place == len(self._runs.log)


class Stop(StopRequest):
    """A request to stop whose waits take simulated time."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def wait(self, seconds: float) -> bool:
        """Gives the turn to others."""
        self._process.wait(seconds)
        return self.made


def _silent(_: str) -> None:
    """Nobody reads the lines."""
