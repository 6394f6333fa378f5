"""Keeps the query running: waits for the end of outages, gives up on permanent failures, stops between batches."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.signals import StopRequest
from groupreplay.streaming.config.logs import without_secrets
from groupreplay.streaming.job.job_status import JobReport

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_BATCH_POLL_SECONDS: Final = 0.05
_LINE_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_ASK_AGAIN_SECONDS: Final = 5.0
#: How long a stop waits for the end of a batch, and then for Spark to cancel it.
_GRACE_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 12.0
_FAILURES: Final = 3

#: What Kafka's clients throw, anywhere in the chain of causes, while a cluster cannot be reached.
_OUTAGE: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(?:Timeout|Disconnect|Network|BrokerNotAvailable|CoordinatorNotAvailable|CoordinatorLoadInProgress"
    r"|LeaderNotAvailable|NotLeaderOrFollower|NotEnoughReplicas\w*|ReplicaNotAvailable|KafkaStorage)Exception"
    r"|org\.apache\.kafka\.clients\.consumer\.RetriableCommitFailedException"
    r"|java\.net\.(?:Connect|UnknownHost|NoRouteToHost|SocketTimeout|Socket)Exception"
    r"|No resolvable bootstrap urls"
)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A kind of failure that a retry does not mend; ``stored``: its cause is in the checkpoint."""

    pattern: re.Pattern[str]
    what: str
    fix: str
    exit_code: ExitCode
    stored: bool = False


_FAULTS: Final = (
    _Fault(
        re.compile(r"(?:Topic|Cluster|Group|TransactionalId)AuthorizationException"),
        "not authorised",
        "groupreplay check says which right is missing, and prints the command that grants it",
        ExitCode.AUTHORISATION,
    ),
    _Fault(
        re.compile(r"(?:SaslAuthentication|SslAuthentication|Authentication)Exception"),
        "the broker refused the login",
        "check the --command-config file",
        ExitCode.CONNECTION,
    ),
    _Fault(
        re.compile(r"data may have been lost|OffsetOutOfRangeException|KAFKA_DATA_LOSS|DATA_LOSS"),
        "a part of the log was deleted before it was read",
        "start again with a new --checkpoint: the state is built anew from what the log still holds",
        ExitCode.DATA,
    ),
    _Fault(
        # By default brokers refuse dates more than an hour ahead, since Kafka 4.0 (KIP-1030).
        re.compile(r"InvalidTimestampException"),
        "the broker refused the date of a message: the clock of this machine, or of an executor's, is ahead",
        "correct that clock, or set message.timestamp.type=LogAppendTime on the job's topics: kafka-configs.sh --alter",
        ExitCode.CONNECTION,
    ),
    _Fault(
        re.compile(r"SnapshotError"),
        "the state in the checkpoint was written by another release",
        "run the release that wrote it, or start again with a new --checkpoint",
        ExitCode.DATA,
        stored=True,
    ),
    _Fault(
        re.compile(r"CANNOT_LOAD_STATE_STORE"),
        "the state in the checkpoint is damaged",
        "restore the whole folder from a backup, or start again with a new --checkpoint",
        ExitCode.DATA,
        stored=True,
    ),
)


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Runs one query after the other until a stop is requested.

    ``begin`` starts the query on the ``checkpoint``; ``renew``: whether the query must end between two batches and
    start again, because settings have changed; ``reachable``: whether both clusters answer; ``lost`` returns the error
    when the log is no longer the one that was read, ``replaced`` when another run has taken over; ``quieten`` silences
    the JVM before a batch is cancelled; ``show`` prints a line.
    """

    begin: Callable[[], Any]
    checkpoint: str
    renew: Callable[[], bool]
    report: JobReport
    stop: StopRequest
    reachable: Callable[[], bool]
    lost: Callable[[], GroupReplayError | None]
    replaced: Callable[[], GroupReplayError | None]
    quieten: Callable[[], None]
    show: Callable[[str], None]
    clock: Callable[[], int]
    _failures: int = field(default=0, init=False)
    _pause: float = field(default=1.0, init=False)

    def run(self) -> None:
        """Returns when a stop was requested and done.

        Raises:
            GroupReplayError: the query failed three times without a finished batch, and not for an outage; or
                the log is no longer the one that was read; or another run has taken over.
        """
        while not self.stop.made:
            batch_before = self.report.last_batch_id
            query = self.begin()
            self.report.query_started()
            if self._watch(query):
                continue
            if self.report.last_batch_id != batch_before:
                self._failures, self._pause = 0, 1.0
            self._recover(query)

    def _watch(self, query: Any) -> bool:
        """Waits for the end of the query; whether the supervisor ended it, for good or to start it again."""
        next_line = time.monotonic() + _LINE_SECONDS
        while query.isActive:
            if self.stop.wait(_POLL_SECONDS):
                self._end(query)
                return True
            replaced = self.replaced()
            if replaced is not None:
                self._end(query)
                raise replaced
            if self.renew():
                self.show("the settings have changed, continuing with the new ones")
                self._pause_query(query)
                return True
            if time.monotonic() >= next_line:
                self.show(self.report.line(self.clock()))
                next_line = time.monotonic() + _LINE_SECONDS
        return self.stop.made

    def _pause_query(self, query: Any) -> None:
        """Ends the query after its batch, however long that takes; a stop request is served at once."""
        while query.isActive and query.status["isTriggerActive"]:
            if self.stop.wait(_BATCH_POLL_SECONDS):
                self._end(query)
                return
        _stop_quietly(query)

    def _end(self, query: Any) -> None:
        deadline = time.monotonic() + _GRACE_SECONDS
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(_BATCH_POLL_SECONDS)
        self.quieten()
        # A source that waits for a broker cannot be interrupted: bound the wait for it.
        stopping = threading.Thread(target=_stop_quietly, args=(query,), daemon=True)
        stopping.start()
        stopping.join(_CANCEL_SECONDS)

    def _recover(self, query: Any) -> None:
        """Waits before the next try, or raises when there is none."""
        exception = query.exception()
        text = "it ended without an error" if exception is None else failure_text(exception)
        self.report.restarts += 1
        self.report.last_error = headline(text)
        self.report.query_failed(headline(text))
        if _OUTAGE.search(text) or not self.reachable():
            self.show(f"Kafka cannot be reached, retrying: {headline(text)}")
            self._wait_for_cluster()
            return
        lost = self.lost()
        if lost is not None:
            raise lost
        self._failures += 1
        log.warning("the query failed (%d of %d): %s", self._failures, _FAILURES, headline(text))
        if self._failures >= _FAILURES:
            raise explained(text, self.checkpoint)
        self._wait()

    def _wait_for_cluster(self) -> None:
        self._wait()
        while not self.stop.made and not self.reachable():
            # Asking is cheap, and no group is watched until a cluster answers.
            self.stop.wait(_ASK_AGAIN_SECONDS)

    def _wait(self) -> None:
        self.stop.wait(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)


def known_fault(text: str, checkpoint: str | None = None) -> GroupReplayError | None:
    """The error for a failure that the JVM's text names and that is permanent; None for others."""
    for fault in _FAULTS:
        if fault.pattern.search(text):
            return GroupReplayError(
                f"{fault.what}: {headline(text)}",
                where=checkpoint if fault.stored else None,
                fix=fault.fix,
                exit_code=fault.exit_code,
            )
    return None


def explained(text: str, checkpoint: str) -> GroupReplayError:
    """The error of a query that failed for good."""
    return known_fault(text, checkpoint) or GroupReplayError(
        f"the query failed {_FAILURES} times in a row: {headline(text)}",
        fix="--debug shows the whole error; nothing is lost: a new start continues after the last finished batch",
    )


def failure_text(exception: Any) -> str:
    """The JVM's description of the failure, with its causes."""
    parts = [str(exception), getattr(exception, "_stackTrace", None)]
    return without_secrets("\n".join(part for part in parts if part))


def headline(text: str) -> str:
    """The innermost cause, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [""])[-1 if causes else 0][:500]


def _stop_quietly(query: Any) -> None:
    try:
        query.stop()
    except Exception as error:  # the query ends either way
        log.debug("the query did not stop cleanly: %s", error)
