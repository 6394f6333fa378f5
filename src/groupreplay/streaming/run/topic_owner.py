"""One run a set of topics: refuses to start beside another run, and ends a run that another one has replaced.

Every run writes one claim to ``group-job`` when it begins, and a document once per trigger. A run that reads a claim
behind its own ends. The topic orders the claims, so of all runs exactly the one with the last claim goes on.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from groupreplay.state.phrases import safe_text
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.contract.messages import STOPPED, JobDocument, OwnerClaim
from groupreplay.streaming.sinks.job_topic import RunMessage

log = logging.getLogger(__name__)

#: A run counts as ended after this many heartbeats that did not come; as going on after as many that came.
_HEARTBEATS: Final = 3
#: Bounds of that time: one slow answer of a broker is not an end, and a document may be forged.
_LEAST_SECONDS: Final = 10.0
_MOST_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.5
#: While a process waits beside another run it proves this often that it reads all that is written. A longer pause
#: between two proofs is an outage: silence in it means nothing, and the other run may need a while to come back.
_PROOF_SECONDS: Final = 2.0
_OUTAGE_SECONDS: Final = 5.0
_RECOVERY_SECONDS: Final = 30.0
#: How long a claim may take to come back, and how long a replaced run may take to end.
_CLAIM_SECONDS: Final = 30.0
_END_SECONDS: Final = 60.0


class OtherRunError(GroupReplayError):
    """Another run goes on: this one must not begin, or must end."""


class RunMessages(Protocol):
    """``JobTopic`` as this module uses it."""

    topic: str

    def last_messages(self) -> dict[str, RunMessage]:
        """The last message of each run that may go on, by run id, in the order in which they wrote."""

    def new_messages(self, seconds: float) -> list[RunMessage]:
        """What was written since the last call. Raises GroupReplayError when the topic cannot be read."""

    def is_read_to_end(self) -> bool:
        """Whether nothing more is in the topic. Raises GroupReplayError when no broker answers."""


@dataclass(slots=True)
class _OtherRun:
    """Another run that has not said that it ended; ``messages`` counts those read since ``TopicOwner`` was made."""

    last: RunMessage
    seen_at: float
    messages: int = 0

    @property
    def silence_seconds(self) -> float:
        """After this time without a message the run counts as ended."""
        trigger = self.last.trigger_seconds if isinstance(self.last, JobDocument) else 0.0
        return min(max(_HEARTBEATS * trigger, _LEAST_SECONDS), _MOST_SECONDS)


@dataclass(slots=True, kw_only=True)
class TopicOwner:
    """This process among all that write to one set of topics; make it before the start of Spark.

    ``show`` prints a line; ``clock`` counts seconds and never goes back; ``note`` is given each message of other runs.
    A standby (``is_standby``) never claims the topics of a run that goes on.
    """

    messages: RunMessages
    stop: StopRequest
    show: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    note: Callable[[RunMessage], None] = lambda _: None
    is_standby: bool = False
    #: The job that wrote last before this process claimed the topics.
    last_job_id: str | None = field(default=None, init=False)
    #: Whether this process has claimed the topics and all other runs have ended.
    has_begun: bool = field(default=False, init=False)
    _others: dict[str, _OtherRun] = field(default_factory=dict, init=False)
    _own_runs: set[str] = field(default_factory=set, init=False)
    _ended: set[str] = field(default_factory=set, init=False)
    _claim: OwnerClaim | None = field(default=None, init=False)
    _is_claim_read: bool = field(default=False, init=False)
    _successor: OwnerClaim | None = field(default=None, init=False)
    _proved_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._proved_at = self.clock()
        for run_id, message in self.messages.last_messages().items():
            self.last_job_id = message.job_id
            if not _is_last(message):
                self._others[run_id] = _OtherRun(message, self.clock())

    def new_run(self) -> str:
        """The id of a new run of this process."""
        run_id = str(uuid.uuid4())
        self._own_runs.add(run_id)
        return run_id

    def forget_ended(self, has_ended: Callable[[RunMessage], bool]) -> None:
        """Leaves out the runs that are proven to have ended without saying so."""
        for run_id, other in list(self._others.items()):
            if has_ended(other.last):
                self._ended.add(run_id)
                del self._others[run_id]

    def others(self) -> list[str]:
        """The other runs that may go on, each as text."""
        return [_label(one.last) for one in self._others.values()]

    def silence_left(self) -> float | None:
        """Seconds until all other runs count as ended if they stay silent; None: there is no other run."""
        ends = (one.seen_at + one.silence_seconds for one in self._others.values())
        last = max(ends, default=None)
        return None if last is None else max(last - self.clock(), 0.0)

    def follow(self, seconds: float) -> None:
        """Reads on while this process waits beside another run, and leaves out runs that have ended; never raises.

        What could not be read is no silence: after an outage a run has more time for its next sign.
        """
        is_read = False
        try:
            self._read(seconds)
            silent = self._silent()
            if not silent and self.clock() - self._proved_at < _PROOF_SECONDS:
                return
            is_read = self.messages.is_read_to_end()
        except GroupReplayError as error:
            log.debug("%s cannot be read for now: %s", self.messages.topic, error)
        now = self.clock()
        if now - self._proved_at > _OUTAGE_SECONDS:
            for one in self._others.values():
                one.seen_at = now + _RECOVERY_SECONDS
        if is_read:
            self._proved_at = now
            for run_id in self._silent():
                del self._others[run_id]

    def require_free(self) -> None:
        """Waits until no other run goes on.

        Raises:
            GroupReplayError: another run goes on, or the topic cannot be read.
        """
        # Messages from before this call do not show that a run goes on now.
        while not self.messages.is_read_to_end() and not self.stop.made:
            self._read(_POLL_SECONDS)
        before = {run_id: one.messages for run_id, one in self._others.items()}
        for one in self._others.values():
            self.show(f"waiting up to {one.silence_seconds:.0f} s for a sign of {_label(one.last)}")
        while not self.stop.made:
            self._forget_silent()
            for run_id, one in self._others.items():
                if one.messages >= _HEARTBEATS and one.messages > before.get(run_id, 0):
                    raise self._refused(one.last, "another job writes to these topics")
            if not self._others:
                return
            self._read(_POLL_SECONDS)

    def claim(self, claim: OwnerClaim, write: Callable[[OwnerClaim], None]) -> None:
        """Takes over the topics for this process, once, and waits until replaced runs have ended.

        Raises:
            GroupReplayError: the claim cannot be written, another run claims the topics, or one does not end.
        """
        if self._claim is not None:
            return
        if self.is_standby:
            self._require_silence()
        self._claim = claim
        write(claim)
        began = self.clock()
        for one in self._others.values():
            one.seen_at = began
            self.show(f"waiting for the end of {_label(one.last)}")
        while not self.stop.made:
            self._read(_POLL_SECONDS)
            self._forget_silent()
            if self._successor is not None:
                raise self._replaced(self._successor)
            waited = self.clock() - began
            if self._is_claim_read and not self._others:
                self.has_begun = True
                return
            if not self._is_claim_read and waited > _CLAIM_SECONDS:
                raise UnreachableError(
                    f"no message arrived within {_CLAIM_SECONDS:.0f} s",
                    where=self.messages.topic,
                    fix="check the broker that leads this topic, then start again",
                    exit_code=ExitCode.CONNECTION,
                )
            for one in self._others.values():
                if waited > _END_SECONDS + one.silence_seconds:
                    raise self._refused(one.last, "another job that writes to these topics does not end")

    def _require_silence(self) -> None:
        """A run may have come back since this process has waited for it."""
        while not self.messages.is_read_to_end() and not self.stop.made:
            self._read(_POLL_SECONDS)
        for one in self._others.values():
            raise self._refused(one.last, "another job writes to these topics")

    def replaced(self) -> GroupReplayError | None:
        """The error when another run has claimed the topics after this process; takes no time.

        A topic that cannot be read now is read later: an outage is no reason to end.
        """
        try:
            self._read(0.0)
        except GroupReplayError as error:
            log.debug("%s cannot be read for now: %s", self.messages.topic, error)
        # Only claims matter from now on; anybody may write documents of ever new runs.
        self._others.clear()
        return None if self._successor is None else self._replaced(self._successor)

    def _read(self, seconds: float) -> None:
        for message in self.messages.new_messages(seconds):
            if message.run_id in self._own_runs:
                self._is_claim_read |= isinstance(message, OwnerClaim)
                continue
            self.note(message)
            if self._claim is None:
                self.last_job_id = message.job_id
            if message.run_id in self._ended:
                continue
            if isinstance(message, OwnerClaim) and self._is_claim_read:
                self._successor = message
            elif _is_last(message):
                self._others.pop(message.run_id, None)
            else:
                known = self._others.setdefault(message.run_id, _OtherRun(message, 0.0))
                known.last, known.seen_at, known.messages = message, self.clock(), known.messages + 1

    def _silent(self) -> list[str]:
        now = self.clock()
        return [id_ for id_, one in self._others.items() if now - one.seen_at >= one.silence_seconds]

    def _forget_silent(self) -> None:
        silent = self._silent()
        # What was not read yet is no silence.
        if silent and self.messages.is_read_to_end():
            for run_id in silent:
                del self._others[run_id]

    def _refused(self, other: RunMessage, what: str) -> OtherRunError:
        return OtherRunError(
            f"{what}: {_label(other)}",
            where=self.messages.topic,
            fix="stop it, or give this job topics of its own with --topic-prefix NAME, or replace the other one with "
            "--take-over",
            exit_code=ExitCode.USAGE,
        )

    def _replaced(self, other: RunMessage) -> OtherRunError:
        return OtherRunError(
            f"another job has taken over these topics: {_label(other)}",
            where=self.messages.topic,
            fix="nothing, if that was intended; otherwise give each job topics of its own with --topic-prefix NAME",
            exit_code=ExitCode.USAGE,
        )


def _is_last(message: RunMessage) -> bool:
    """Whether the run has said that it writes no more."""
    return isinstance(message, JobDocument) and message.phase == STOPPED


def _label(run: RunMessage) -> str:
    """The run for a message; what it wrote is text from a topic."""
    place = f"host {run.host}, checkpoint {run.checkpoint}, " if run.host else ""
    return safe_text(f"run {run.run_id} of job {run.job_id} ({place}cluster {run.cluster_id})")
