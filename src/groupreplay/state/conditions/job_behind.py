"""``job.behind``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import Dependency, Detection, JobDetector, JobView
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.job.observations import HeartbeatObservation
from groupreplay.state.phrases import Data, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBehind(Condition):
    """The job does not keep up with the offsets topic."""

    NAME = "job.behind"
    DOC = "The job has been behind the end of the offsets topic for minutes."
    SEVERITY = Severity.ERROR
    ALERTS = (
        Alert(
            fires="the job does not keep up with the log",
            summary="groupreplay does not keep up with cluster {cluster}",
            description="The job has been minutes behind the end of the offsets topic. Its events are late.",
        ),
    )
    EXAMPLES = (Example(Evidence.PROBE, {"caught_up_ms": 100_000, "lag_ms": 90_000}),)
    caught_up_ms: int | None
    lag_ms: int | None

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return f"{milliseconds(data.get('lag_ms'))} behind the end of the offsets topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBehindDetector(JobDetector):
    """The job's caught-up time is older than ``lag_ms``, for ``threshold_ms``."""

    CONDITION = JobBehind
    DEPENDS_ON = frozenset({Dependency.HEARTBEATS})
    lag_ms: int = 60_000
    threshold_ms: int = 300_000

    def evaluate(self, view: JobView) -> Sequence[Detection]:
        """See ``JobDetector``."""
        state, newest = view.state, view.newest
        assert isinstance(newest, HeartbeatObservation)
        lag_ms = None if newest.caught_up_ms is None else newest.taken_ms - newest.caught_up_ms
        # With a slow trigger the job is never closer to the end than a few triggers.
        if lag_ms is not None and lag_ms <= max(self.lag_ms, view.context.catch_up_after_ms):
            state.late_since_ms = None
            return []
        if state.late_since_ms is None:
            state.late_since_ms = newest.taken_ms
        if newest.taken_ms - state.late_since_ms < self.threshold_ms:
            return []
        return [
            self.detection(
                state.late_since_ms, self.threshold_ms, caught_up_ms=newest.caught_up_ms, lag_ms=lag_ms
            )
        ]
