"""``run --standby``: waits beside the job that writes to the topics, and goes on in its place when it is gone.

The process reads ``group-job``, which says whether the other run lives, and up to which time it has emitted all
events. While it waits it writes nothing, but for one message to learn the brokers' time when the other run is
nearly silent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.contract.messages import JobDocument, OwnerClaim
from groupreplay.streaming.run.identity import Identity, topic_era
from groupreplay.streaming.run.interface import Store
from groupreplay.streaming.run.topic_owner import OtherRunError, TopicOwner
from groupreplay.streaming.sinks.job_topic import JobTopic, RunMessage

log = logging.getLogger(__name__)

_Ready = TypeVar("_Ready")

_POLL_SECONDS: Final = 0.5
#: The last wait is for the end of the silence; while that cannot be proved, the next ones are not much longer.
_LEAST_POLL_SECONDS: Final = 0.05
#: So long before the end of a silence a standby begins with its own checks, which take a second or two.
_READY_SECONDS: Final = 5.0
_LINE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 5.0
#: A job may have died this many batches before it has emitted what lies before its caught-up time; and bounds of that.
_BATCHES: Final = 3
_LEAST_UNSAID_SECONDS: Final = 10.0
_MOST_UNSAID_SECONDS: Final = 600.0
#: Jobs that are remembered: anybody may write documents of ever new ones.
_JOBS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerJob:
    """What the messages of a job say about it.

    ``emitted_to_ms``: events of an earlier time were emitted, by this job or by those before it. ``is_reported``: the
    job has said so itself. ``batch``: the last finished batch that it has reported; None: none since its state began.
    """

    job_id: str
    cluster_id: str
    era: str
    first_start_ms: int
    emitted_to_ms: int
    is_reported: bool = False
    batch: int | None = None


class JobHistory:
    """The jobs that wrote to the topics, from their messages in the order of ``group-job``."""

    def __init__(self, messages: Iterable[RunMessage] = ()) -> None:
        self._jobs: dict[str, FormerJob] = {}
        self._owner: str | None = None
        self._is_claimed = False
        for message in messages:
            self.take(message)

    @property
    def owner(self) -> FormerJob | None:
        """The job that claimed the topics last; None: nobody has written."""
        return None if self._owner is None else self._jobs.get(self._owner)

    def take(self, message: RunMessage) -> None:
        """Takes the next message."""
        self._jobs[message.job_id] = _updated(self._jobs.pop(message.job_id, None), message, self.owner)
        if len(self._jobs) > _JOBS:
            del self._jobs[next(iter(self._jobs))]
        if isinstance(message, OwnerClaim):
            self._owner, self._is_claimed = message.job_id, True
        elif not self._is_claimed:
            # After a claim, the documents of others are the last ones of runs that end.
            self._owner = message.job_id


def _updated(known: FormerJob | None, message: RunMessage, owner: FormerJob | None) -> FormerJob:
    """What is known of a job after one more of its messages."""
    first_start_ms = message.first_start_ms
    is_new = known is None or (first_start_ms and first_start_ms != known.first_start_ms)
    before_ms = known.emitted_to_ms if known else 0
    # A claim of an earlier release does not say where its events begin.
    emitted_to_ms = max(first_start_ms, before_ms) or (owner.emitted_to_ms if owner else 0)
    is_reported, batch = (False, None) if is_new or known is None else (known.is_reported, known.batch)
    if isinstance(message, JobDocument):
        # Before that, a deadline that passed while no query ran may not have had its event.
        if message.caught_up_ms is not None and message.settled:
            emitted_to_ms, is_reported = max(first_start_ms, message.caught_up_ms - _unsaid_ms(message)), True
        batch = batch if message.batch is None else message.batch.id
    return FormerJob(
        job_id=message.job_id,
        cluster_id=message.cluster_id,
        era=message.era or (known.era if known else ""),
        first_start_ms=first_start_ms or (known.first_start_ms if known else 0),
        emitted_to_ms=emitted_to_ms,
        is_reported=is_reported,
        batch=batch,
    )


def _unsaid_ms(message: JobDocument) -> int:
    """How long before its caught-up time a job has emitted everything.

    Timers pass a caught-up time one batch after the heartbeat that says it, and a coordinator dates a record a moment
    before it writes it. What is emitted twice has one id.
    """
    batch_seconds = message.batch.seconds if message.batch else 0.0
    seconds = _BATCHES * (message.trigger_seconds + batch_seconds)
    return round(1000 * max(min(seconds, _MOST_UNSAID_SECONDS), _LEAST_UNSAID_SECONDS))


def read_history(topic: JobTopic) -> JobHistory:
    """The history from as many of the last messages as it needs.

    Raises:
        GroupReplayError: the topic cannot be read.
    """
    history = JobHistory()
    for messages in topic.tails():
        history = JobHistory(messages)
        if history.owner is not None and history.owner.is_reported:
            break
    return history


def continued(
    former: FormerJob | None, wanted: Identity, known: Identity | None, batch: int
) -> Identity | None:
    """The identity of a state that is built anew, to go on where another job ended; None: the checkpoint goes on.

    ``known`` is the identity in the checkpoint, ``batch`` its last finished batch. The checkpoint goes on if that other
    job wrote it: its state is then the one whose documents are in the topics. A copy of it lacks batches.
    """
    if former is None or former.cluster_id != wanted.cluster_id:
        return None
    if known is not None and known.job_id == former.job_id:
        is_same_era = former.era in ("", known.event_era or known.era)
        if is_same_era and (former.batch is None or former.batch <= batch):
            return None
    now_ms = wanted.first_start_ms
    # Events of both jobs have the same ids, unless the topic was created again meanwhile.
    is_same_topic = topic_era(former.era) == wanted.era
    return msgspec.structs.replace(
        wanted,
        # Neither is the clock of the other job believed beyond the brokers'.
        first_start_ms=min(former.emitted_to_ms, now_ms) or now_ms,
        event_era=former.era if is_same_topic else wanted.era,
        taken_over_ms=now_ms,
    )


def begin_after(former: FormerJob | None, store: Store, wanted: Identity) -> None:
    """Begins a state of its own in a store that another job has not written, if a job wrote last."""
    known = store.latest().known()
    begun = continued(former, wanted, known, store.latest().last_batch())
    if begun is None:
        return
    if known is None:
        store.claim(begun)
    else:
        store.begin_after_other(known, begun)


def in_thread(work: Callable[[], _Ready]) -> Callable[[], _Ready]:
    """Begins the work in a thread; the returned function waits for its result, or raises its error."""
    result: Future[_Ready] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised where the result is asked for
            result.set_exception(error)

    threading.Thread(target=run, name="standby-checks", daemon=True).start()
    return result.result


@dataclass(slots=True, kw_only=True)
class Standby(Generic[_Ready]):
    """Waits until no other run goes on and the checkpoint is this process's.

    ``take_lock``: whether this process holds the lock of the checkpoint, which it tries to take; ``lock_owner``: who
    holds it; ``has_ended``: whether a run must have ended because the lock is free; ``require_alive`` raises when the
    JVM has ended. ``ready`` checks, and finds out, what this process needs for its claim; ``begin`` begins with that
    while the topic is read on, so that the claim follows a silence at once.
    """

    owner: TopicOwner
    take_lock: Callable[[], bool]
    lock_owner: Callable[[], str]
    has_ended: Callable[[RunMessage], bool]
    require_alive: Callable[[], None]
    ready: Callable[[], _Ready]
    stop: StopRequest
    show: Callable[[str], None]
    begin: Callable[[Callable[[], _Ready]], Callable[[], _Ready]] = in_thread
    clock: Callable[[], float] = time.monotonic
    _begun: Callable[[], _Ready] | None = field(default=None, init=False)
    _shown: str = field(default="", init=False)
    _next_line: float = field(default=0.0, init=False)

    def wait(self) -> _Ready | None:
        """Returns what ``ready`` does when this process may claim the topics; None when a stop was requested.

        Raises:
            GroupReplayError: the JVM has ended, or this process cannot take over for now.
        """
        is_locked = False
        while not self.stop.made:
            if not is_locked and (is_locked := self.take_lock()):
                self.owner.forget_ended(self.has_ended)
            others = self.owner.others()
            if is_locked and not others:
                if self._shown:
                    self.show("the other run has ended: taking over")
                return self._finish()
            self._say(", ".join(others) or f"the owner of the checkpoint ({self.lock_owner()})")
            left = self.owner.silence_left()
            self._get_ready(left)
            self.owner.follow(
                _POLL_SECONDS if left is None else min(max(left, _LEAST_POLL_SECONDS), _POLL_SECONDS)
            )
            self.require_alive()
        return None

    def _get_ready(self, left: float | None) -> None:
        """What was found out before a sign of life is old when the run ends."""
        if left is None or left > _READY_SECONDS:
            self._begun = None
        elif self._begun is None:
            self._begun = self.begin(self.ready)

    def _finish(self) -> _Ready:
        if self._begun is not None:
            try:
                return self._begun()
            except GroupReplayError as error:
                log.debug("the checks are done again: %s", error)
        return self.ready()

    def _say(self, others: str) -> None:
        if others != self._shown or self.clock() >= self._next_line:
            self.show(f"standing by, waiting for the end of {others}")
            self._shown, self._next_line = others, self.clock() + _LINE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Takes over again and again, each time after another run: of two such processes always one works.

    ``topic`` opens ``group-job`` at its present end; ``run`` is one turn: it waits, takes over and works until it is
    replaced.
    """

    topic: Callable[[], JobTopic]
    run: Callable[[TopicOwner, JobHistory], None]
    stop: StopRequest
    show: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic

    def take(self) -> None:
        """Returns when a stop was requested.

        Raises:
            GroupReplayError: the job has failed for good.
        """
        while not self.stop.made:
            owner: TopicOwner | None = None
            try:
                with closing(self.topic()) as topic:
                    history = read_history(topic)
                    owner = TopicOwner(
                        messages=topic,
                        stop=self.stop,
                        show=self.show,
                        clock=self.clock,
                        note=history.take,
                        is_standby=True,
                    )
                    self.run(owner, history)
            except OtherRunError as error:
                self.show(f"{error.what}: standing by again")
            except GroupReplayError as error:
                if error.exit_code is not ExitCode.CONNECTION or (owner is not None and owner.has_begun):
                    raise
                self.show(f"cannot take over for now: {error}")
                self.stop.wait(_RETRY_SECONDS)
