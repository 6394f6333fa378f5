"""What a run needs of the engine that applies the log, and of the store beside its state.

Spark's query is one engine (``streaming/spark/engine.py``). Another one, in this process and without a JVM, needs
these two protocols and nothing else of this package's: what it may ask of the run are the public parts of ``JobRun``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from groupreplay.state.events.event import JobGap
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.contract.log import IncidentState, LogMarks
from groupreplay.streaming.contract.messages import Output, StateCost
from groupreplay.streaming.engine.probe_rows import COUNTS
from groupreplay.streaming.run.document_sync import SyncRecord
from groupreplay.streaming.run.identity import Identity

#: ``JobRun``, which imports this module.
Run_contra = TypeVar("Run_contra", contravariant=True)
#: The counter of events about offsets that expired in groups that do not matter.
UNMISSED: Final = "unmissed_expired"
#: The counter of groups that were set aside.
QUARANTINED: Final = "quarantined"
#: The counter of messages that were too large for their topic, and whose dead letter was, too.
UNWRITTEN: Final = "unwritten"
#: What an engine counts in each batch: messages by topic, and these.
COUNTERS: Final = (*(output.value for output in Output), UNMISSED, QUARANTINED, UNWRITTEN, *COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A finished batch. Times are milliseconds since 1970, -1 for none; counts are those of this batch alone.

    ``started_ms`` is by the clock of the machine. ``rows`` of all sources were read, ``records`` of them of the log;
    ``read_to`` has the next offset of each partition, by topic. ``counts`` are by ``COUNTERS``, ``record_types`` by
    name. ``groups`` have a state. Deadlines up to ``evaluated_to_ms`` were evaluated; ``caught_up_ms`` is the latest
    caught-up time that the batch has read, up to which the batches after it evaluate. ``phases`` are seconds by the
    engine's own names, ``state`` is what it did with the states; an engine may have neither. ``log_offsets`` are those
    of the log that were read for all groups, with those that compaction has removed; None: the engine does not know.
    """

    number: int
    started_ms: int
    seconds: float
    rows: int = 0
    records: int = 0
    read_to: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    record_types: Mapping[str, int] = field(default_factory=dict)
    groups: int = 0
    evaluated_to_ms: int = -1
    caught_up_ms: int = -1
    phases: Mapping[str, float] = field(default_factory=dict)
    state: StateCost | None = None
    log_offsets: int | None = None

    def read(self, topic: str = OFFSETS_TOPIC) -> dict[int, int]:
        """The next offset of each partition of a topic; nothing for one that was not read."""
        return dict(self.read_to.get(topic, {}))


class Engine(Protocol[Run_contra]):
    """Applies the log, batch by batch. ``run`` is called once; the other two by other threads meanwhile."""

    def progress(self, after: int | None) -> Sequence[Batch]:
        """The finished batches after the one with this number (None: of all), as far as they are remembered.

        At least the last one; earlier ones may be among them.
        """

    def tasks_ended(self) -> tuple[int, int] | None:
        """How many tasks of the present batch have ended, of how many; None: it does not know, or there is none."""

    def run(self, run: Run_contra) -> None:
        """Applies the log until ``run.stop`` is made, or requests that itself when ``run.has_ended()``.

        It calls ``run.begin()`` for the settings that a query starts with, ``run.started()`` when it reads, begins
        again when ``run.has_changed()``, and ends with the error that ``run.must_end()`` returns. ``run.report`` is
        told of failures.

        Raises:
            GroupReplayError: it has failed for good.
        """


class Store(Protocol):
    """The place that holds an engine's state, and what a run keeps beside it; it may hold newer ones inside.

    All methods raise GroupReplayError when the place cannot be read or written now.
    """

    location: str

    def unwritable(self) -> str | None:
        """Why nothing can be written now; None: it can."""

    def latest(self) -> Store:
        """The place in use: this one, or the last one inside in which the state was built anew."""

    def known(self) -> Identity | None:
        """The identity that was written at the first start; None before it."""

    def claim(self, identity: Identity) -> Identity:
        """The identity that was written at the first start; writes this one when there is none."""

    def begin_anew(self, former: Identity, gap: JobGap, now: Identity) -> Store:
        """A new place inside, with what was lost in its identity."""

    def begin_after_other(self, former: Identity, now: Identity) -> Store:
        """A new place inside, after a job with another store, whose events are continued as ``now`` says."""

    def started(self) -> bool:
        """Whether an engine has run on it."""

    def last_batch(self) -> int:
        """The number of the last finished batch; -1 before the first."""

    def read_to(self) -> Mapping[int, int]:
        """The next offset of each partition of the log after the last finished batch."""

    def planned_to(self) -> Mapping[int, int]:
        """The same after the last batch that was begun, if that is repeated exactly."""

    def log_marks(self) -> LogMarks | None:
        """What was seen of the log; None: nothing."""

    def note_log_marks(self, marks: LogMarks) -> None:
        """Keeps what was seen of the log."""

    def synced(self) -> SyncRecord | None:
        """What is known about the topics of documents; None: nothing."""

    def note_synced(self, record: SyncRecord) -> None:
        """Keeps what is known about the topics of documents."""

    def incidents(self) -> IncidentState | None:
        """The finder of incidents as it was stored; None: none was."""

    def note_incidents(self, state: IncidentState) -> None:
        """Keeps the finder of incidents."""
