"""Outages of a cluster or a disk: what stands in the way now, how long the job waits, and what it prints meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Final

from groupreplay.state.phrases import first_of
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.run.interface import Store

log = logging.getLogger(__name__)

#: The pause before a try doubles up to this. It is also the longest wait for a partition without a leader: the
#: metadata may be wrong, a query is not.
LONGEST_PAUSE_SECONDS: Final = 60.0
#: Asking is cheap, and no group is watched meanwhile.
_ASK_AGAIN_SECONDS: Final = 5.0
#: A stop request waits for the answer.
_ANSWER_SECONDS: Final = 5.0
#: Lines on the terminal: the first at once, the next after this time, and then at growing intervals.
_LINE_SECONDS: Final = 10.0
_LONGEST_LINE_SECONDS: Final = 600.0
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why a query cannot run now. ``is_sure``: it would fail, so that none is started before this is gone."""

    what: str
    is_sure: bool = True


def job_hindrance(settings: RunSettings, store: Store | None) -> Hindrance | None:
    """What keeps the job from running now: its disk, or one of its clusters."""
    unwritable = None if store is None else store.unwritable()
    if unwritable is not None:
        return Hindrance(f"{unwritable} ({settings.checkpoint})")
    return cluster_hindrance(settings.source, [OFFSETS_TOPIC]) or cluster_hindrance(
        settings.sink_cluster, astuple(settings.topics)
    )


def cluster_hindrance(cluster: Cluster, topics: Sequence[str]) -> Hindrance | None:
    """What keeps a query from reading or writing these topics: no broker answers, or a partition has no leader.

    A partition without a leader makes Spark's connector hang for minutes. A missing topic is no hindrance: the broker
    says so at once.
    """
    try:
        metadata = Connection(cluster).metadata("cluster", seconds=_ANSWER_SECONDS)
    except GroupReplayError as error:
        log.debug("%s does not answer: %s", cluster.bootstrap_servers, error)
        return Hindrance(f"Kafka cannot be reached ({cluster.bootstrap_servers})")
    leaderless = [
        f"{name}-{number}"
        for name in topics
        if name in metadata.topics
        for number, partition in sorted(metadata.topics[name].partitions.items())
        if partition.leader not in metadata.brokers
    ]
    if not leaderless:
        return None
    return Hindrance(f"no broker leads {first_of(leaderless, str, _NAMED)}", is_sure=False)


@dataclass(slots=True, kw_only=True)
class Outage:
    """The pauses and the lines of one outage after the other.

    ``hindrance`` returns what stands in the way now; ``show`` prints a line; ``seconds`` is a clock that nobody sets.
    """

    hindrance: Callable[[], Hindrance | None]
    stop: StopRequest
    show: Callable[[str], None]
    seconds: Callable[[], float] = time.monotonic
    _pause: float = field(default=1.0, init=False)
    _began: float | None = field(default=None, init=False)
    _next_line: float = field(default=0.0, init=False)
    _line_pause: float = field(default=_LINE_SECONDS, init=False)

    def wait(self, what: str) -> None:
        """Waits before the next try; ``what`` is the reason for the terminal.

        The pause grows. It ends early when what stood in the way is gone, and lasts while a query would fail for sure.
        """
        pause, waited, was_hindered = self._pause, 0.0, False
        self._pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._report(what)
        while not self.stop.made:
            now = self.hindrance()
            if now is None and (was_hindered or waited >= pause):
                return
            if now is not None and not now.is_sure and waited >= LONGEST_PAUSE_SECONDS:
                return
            was_hindered |= now is not None
            step = _ASK_AGAIN_SECONDS if now is not None else min(_ASK_AGAIN_SECONDS, pause - waited)
            self.stop.wait(step)
            waited += step
            self._report(what)

    def note(self) -> None:
        """Reports what stands in the way of a query that runs, and does not get on."""
        now = self.hindrance()
        if now is not None:
            self._report(now.what)

    def over(self) -> None:
        """Call it when something has succeeded: the next outage begins with short pauses and a line of its own."""
        if self._began is not None:
            self.show(f"continuing after {self.seconds() - self._began:.0f} s")
        self._began, self._pause, self._line_pause = None, 1.0, _LINE_SECONDS

    def _report(self, what: str) -> None:
        now = self.seconds()
        if self._began is None:
            self._began = now
            self.show(what)
        elif now >= self._next_line:
            self.show(f"{what} (for {now - self._began:.0f} s)")
            self._line_pause = min(2 * self._line_pause, _LONGEST_LINE_SECONDS)
        else:
            return
        self._next_line = now + self._line_pause
