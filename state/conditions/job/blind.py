"""``job.blind``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from groupreplay.state.conditions.condition import Condition, Example
from groupreplay.state.conditions.detection import Dependency, Detection, JobDetector, JobView
from groupreplay.state.display import phrases
from groupreplay.state.display.phrases import NAMES_SHOWN, Data
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.job.bursts import count_burst
from groupreplay.state.job.job_state import JobState
from groupreplay.state.job.observations import RoundObservation
from groupreplay.state.job.quarantines import add_quarantined

BlindReason = Literal[
    "hanging_transaction",
    "no_rights",
    "brokers_silent",
    "partition_count_changed",
    "dead_letters",
    "group_failed",
]

#: The prober needs this right for all groups: it probes groups as soon as they appear.
GRANT_DESCRIBE: Final = (
    "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
    "--operation Describe --group '*'"
)
#: The command that helps, where there is one.
_FIXES: Final[dict[BlindReason, str]] = {
    "hanging_transaction": "kafka-transactions.sh --bootstrap-server HOST:PORT find-hanging --broker-id ID",
    "no_rights": GRANT_DESCRIBE,
    "group_failed": "groupreplay run --retry-quarantined, with a release that has the defect fixed",
    "partition_count_changed": "start the job again: its state is then built anew",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBlind(Condition):
    """The job cannot see something that it should: a hanging transaction, missing rights, silent brokers."""

    NAME = "job.blind"
    DOC = "A part of the cluster is hidden from the job; what it reports about those groups is old."
    SEVERITY = Severity.ERROR
    EXAMPLES = (
        Example(
            Evidence.PROBE,
            {
                "what": "hanging_transaction",
                "partitions": (12,),
                "brokers": (),
                "fix": "kafka-transactions.sh",
            },
        ),
    )
    what: BlindReason
    partitions: tuple[int, ...]
    brokers: tuple[int, ...]
    fix: Annotated[str | None, Meta(description="The command that helps, where there is one.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        what = phrases.spaced(data, "what")
        for field in ("partitions", "brokers"):
            if data.get(field):
                what += f", {field} {', '.join(map(str, data[field][:NAMES_SHOWN]))}"
        fix = data.get("fix")
        return f"{what}; {safe_text(str(fix), 200)}" if fix else what


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBlindDetector(JobDetector):
    """A last stable offset stays below the high watermark for ``threshold_ms``, or answers are missing.

    A transaction holds such an offset back. A broker or a partition is silent after ``silent_rounds`` rounds of the
    prober without its answer. Missing rights and another number of partitions count at once. ``letters`` records that
    cannot be read within ``letters_window_ms`` are a burst. A quarantined group counts at once.
    """

    CONDITION = JobBlind
    DEPENDS_ON = frozenset({Dependency.PROBER_ROUNDS, Dependency.HEARTBEATS})
    threshold_ms: int = 60_000
    silent_rounds: int = 3
    letters: int = 24
    letters_window_ms: int = 600_000

    def evaluate(self, view: JobView) -> Sequence[Detection] | None:
        """See ``JobDetector``."""
        state, newest = view.state, view.newest
        if isinstance(newest, RoundObservation):
            return [*self._of_round(state, newest.taken_ms), *self._of_counts(state)]
        state.burst = count_burst(
            state.burst,
            newest.run_id,
            newest.dead_letters,
            newest.taken_ms,
            self.letters_window_ms,
            self.letters,
        )
        state.quarantines = add_quarantined(
            state.quarantines,
            newest.run_id,
            newest.release,
            newest.retries,
            newest.quarantined,
            newest.taken_ms,
        )
        # With a prober its rounds decide; without one the job's own counts are the only evidence.
        return list(self._of_counts(state)) if state.round_ms < 0 else None

    def _of_round(self, state: JobState, now_ms: int) -> Iterator[Detection]:
        held = {
            number: one for number, one in state.stalls.items() if now_ms - one.since_ms > self.threshold_ms
        }
        if held:
            since_ms = min(one.since_ms for one in held.values())
            yield self._blind("hanging_transaction", since_ms, self.threshold_ms, partitions=held)
        brokers = {
            number: one for number, one in state.silent_brokers.items() if one.rounds >= self.silent_rounds
        }
        partitions = {
            number: one for number, one in state.silent_partitions.items() if one.rounds >= self.silent_rounds
        }
        if brokers or partitions:
            since_ms = min(one.since_ms for one in (*brokers.values(), *partitions.values()))
            yield self._blind("brokers_silent", since_ms, partitions=partitions, brokers=brokers)
        if state.refused_since_ms is not None:
            yield self._blind("no_rights", state.refused_since_ms)
        # The partition of a group follows from their number: groups move, and new partitions are not read.
        if state.other_count_since_ms is not None:
            yield self._blind("partition_count_changed", state.other_count_since_ms)

    def _of_counts(self, state: JobState) -> Iterator[Detection]:
        if state.quarantines.since_ms is not None:
            yield self._blind("group_failed", state.quarantines.since_ms)
        if state.burst.since_ms is not None:
            yield self._blind("dead_letters", state.burst.since_ms)

    def _blind(
        self,
        what: BlindReason,
        since_ms: int,
        threshold_ms: int | None = None,
        *,
        partitions: dict[int, Any] | None = None,
        brokers: dict[int, Any] | None = None,
    ) -> Detection:
        where = {"partitions": tuple(sorted(partitions or ())), "brokers": tuple(sorted(brokers or ()))}
        return self.detection(
            since_ms,
            threshold_ms,
            subject=what,
            evidence=Evidence.PROBE,
            dedup_key=(str(where),),
            what=what,
            partitions=where["partitions"],
            brokers=where["brokers"],
            fix=_FIXES.get(what),
        )
