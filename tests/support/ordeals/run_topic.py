"""One topic ``group-job`` for several runs, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.contract.messages import JobDocument, LastBatch, OwnerClaim
from groupreplay.streaming.run.topic_owner import TopicOwner
from groupreplay.streaming.sinks.job_topic import RunMessage


def document(run_id: str, phase: str = "caught_up", **fields: object) -> JobDocument:
    """What a run writes once per trigger."""
    return JobDocument(run_id=run_id, phase=phase, heartbeat_ms=0, trigger_seconds=10, **fields)  # type: ignore[arg-type]


def says(job: str, caught_up_ms: int | None, *, batch: int | None = None, **fields: Any) -> JobDocument:
    """A document of a job that has emitted everything up to this time: three batches before its caught-up time."""
    unsaid_ms = 30_000 if batch is None else 33_000
    caught_up_ms = None if caught_up_ms is None else caught_up_ms + unsaid_ms
    last = None if batch is None else LastBatch(id=batch, seconds=1.0, rows=1)
    known = {"cluster_id": "c", "era": "e", "first_start_ms": 7, "run_id": f"run of {job}", **fields}
    return JobDocument(
        job_id=job, heartbeat_ms=0, trigger_seconds=10, caught_up_ms=caught_up_ms, batch=last, **known
    )


def claims(job: str, first_start_ms: int, era: str = "e") -> OwnerClaim:
    """A claim of a job."""
    return OwnerClaim(
        job_id=job, run_id=f"run of {job}", cluster_id="c", era=era, first_start_ms=first_start_ms
    )


@dataclass
class World:
    """One topic, the clock, and what happens at which second."""

    log: list[RunMessage] = field(default_factory=list)
    now: float = 0.0
    plan: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def at(self, second: float, action: Callable[[], None]) -> None:
        """Something that happens while somebody waits."""
        self.plan.append((second, action))

    def writes(
        self, run_id: str, seconds: Sequence[float], phase: str = "caught_up", **fields: object
    ) -> None:
        """A run writes its document at these times."""
        for second in seconds:
            self.at(second, lambda: self.log.append(document(run_id, phase, **fields)))

    def pass_time(self, seconds: float) -> None:
        """The clock goes on, and with it everything else."""
        self.now += seconds
        due = [one for one in self.plan if one[0] <= self.now]
        self.plan = [one for one in self.plan if one[0] > self.now]
        for _, action in sorted(due, key=lambda one: one[0]):
            action()

    def owner(self) -> TopicOwner:
        """A process that starts now."""
        stop = StopRequest()
        return TopicOwner(messages=Reader(self), stop=stop, show=self.lines.append, clock=lambda: self.now)


class Reader:
    """The topic from its end on, as ``JobTopic`` reads it."""

    topic = "group-job"

    def __init__(self, world: World) -> None:
        self._world = world
        self._place = len(world.log)
        self.is_slow = self.is_broken = False

    def last_messages(self) -> dict[str, RunMessage]:
        """The last message of each run."""
        return {one.run_id: one for one in self._world.log[: self._place]}

    def new_messages(self, seconds: float) -> list[RunMessage]:
        """What was written since; time passes when there is nothing."""
        if self.is_broken:
            raise GroupReplayError("away", exit_code=ExitCode.CONNECTION)
        if self.is_slow:
            self._world.pass_time(seconds)
            return []
        if self._place == len(self._world.log):
            self._world.pass_time(seconds)
        found = self._world.log[self._place :]
        self._place = len(self._world.log)
        return found

    def is_read_to_end(self) -> bool:
        """Whether there is nothing more."""
        return self._place == len(self._world.log)
