"""Queries that are puppets, and the supervisor that is given one after the other."""

from __future__ import annotations

from collections.abc import Callable

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.run.outage import Hindrance, Outage
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.spark.engine import Supervisor
from groupreplay.streaming.spark.faults import Remedy
from support.job.progress import IDENTITY, QueryError


class Puppet:
    """A query that works, then fails with a text, or runs until it is stopped."""

    def __init__(
        self, failure: str | None = None, *, busy: bool = False, work: Callable[[], None] = lambda: None
    ) -> None:
        self.status = {"isTriggerActive": busy}
        self.stopped = False
        self._failure = failure
        self._work = work

    @property
    def isActive(self) -> bool:
        self._work()
        return self._failure is None and not self.stopped

    def exception(self) -> Exception | None:
        return None if self._failure is None else QueryError(self._failure)

    def stop(self) -> None:
        self.stopped = True


class Stage:
    """A supervisor whose queries are given one after the other; the pauses take no time."""

    def __init__(
        self,
        *queries: Puppet,
        hindrance: Callable[[], Hindrance | None] = lambda: None,
        repair: Callable[[Remedy], str | None] = lambda _: None,
        renew: Callable[[], str | None] = lambda: None,
        hopeless: Callable[[], str | None] = lambda: None,
        has_ended: Callable[[], bool] = lambda: False,
        lost: Callable[[], GroupReplayError | None] = lambda: None,
        cut: Callable[[], GroupReplayError | None] = lambda: None,
        replaced: Callable[[], GroupReplayError | None] = lambda: None,
        report: JobReport | None = None,
    ) -> None:
        self.stop = StopRequest()
        self.report = report or JobReport(IDENTITY)
        self.lines: list[str] = []
        self.pauses: list[float] = []
        self.begun: list[Puppet] = []
        self._queries = list(queries)
        self.supervisor = Supervisor(
            begin=self._begin,
            checkpoint="/checkpoint",
            renew=renew,
            hopeless=hopeless,
            has_ended=has_ended,
            report=self.report,
            stop=self.stop,
            outage=Outage(
                hindrance=hindrance, stop=self.stop, show=self.lines.append, seconds=lambda: sum(self.pauses)
            ),
            repair=repair,
            lost=lost,
            must_end=lambda: replaced() or cut(),
            replaced=replaced,
            quieten=lambda: self.lines.append("quiet"),
            show=self.lines.append,
            show_status=lambda: None,
        )
        self.stop.wait = self._wait  # type: ignore[method-assign]

    def _begin(self) -> Puppet:
        query = self._queries.pop(0)
        self.begun.append(query)
        return query

    def _wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        if self.begun and self.begun[-1].isActive and not self._queries:
            self.stop.make(15)
        return self.stop.made


def stop_at_the_third_wait(stage: Stage) -> None:
    """SIGTERM comes while the supervisor waits for the third time."""
    waits = iter([False, False, True])

    def wait(seconds: float) -> bool:
        if next(waits):
            stage.stop.make(15)
        return stage.stop.made

    stage.stop.wait = wait  # type: ignore[method-assign]
