"""Detectors: a detector evaluates a group, or the job, at one moment and returns the conditions that hold then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_type_hints

import msgspec

from groupreplay.state.conditions.condition import Condition
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.replay.slot_history import session_settings
from groupreplay.state.snapshot.group_snapshot import ConditionKey

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from groupreplay.state.job.job_state import JobState
    from groupreplay.state.job.observations import JobObservation
    from groupreplay.state.policy.context import Context, SessionSettings
    from groupreplay.state.snapshot.commits_between import RunAhead
    from groupreplay.state.snapshot.group_snapshot import ActiveCondition, GroupSnapshot
    from groupreplay.state.snapshot.group_state import BeginBounds, GroupState
    from groupreplay.state.snapshot.members import Slot
    from groupreplay.state.snapshot.offsets import Offsets


class Dependency(Enum):
    """A change that can begin or end a condition, or make it worse.

    A change that only alters the fields of its event is none: the suspects of a stuck rebalance follow from commits,
    but no commit ends it. Neither is the passing of time, which ``Evaluation.next_ms`` announces.
    """

    #: Members join, leave, change or own other partitions.
    MEMBERS = "members"
    #: A rebalance begins or completes; the group becomes Empty or Dead.
    REBALANCE = "rebalance"
    #: Offsets are committed.
    COMMITS = "commits"
    #: Committed offsets are removed.
    OFFSETS = "offsets"
    #: An answer of a broker shows another state of the group, another rebalance, or other transactions.
    PROBES = "probes"
    #: The prober has completed a round. Of the conditions of the job only.
    PROBER_ROUNDS = "prober rounds"
    #: The job has written a heartbeat. Of the conditions of the job only.
    HEARTBEATS = "heartbeats"


#: What a record of the group can change: all but answers of brokers.
RECORD: Final = frozenset({Dependency.MEMBERS, Dependency.REBALANCE, Dependency.COMMITS, Dependency.OFFSETS})


# Made thousands of times a second, where frozen dataclasses take three times as long.
class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that holds now.

    ``subject`` distinguishes several conditions of one kind: a slot, a topic partition; empty for the whole group.
    It began at ``since_ms`` at the latest, and at ``earliest_ms`` at the earliest (None: not known).
    A condition is reported again when its severity rises, when ``dedup_key`` changes, or for a value of ``news`` that
    was not reported since it began. ``details`` are its own fields.
    """

    kind: type[Condition]
    since_ms: int
    threshold_ms: int | None
    details: dict[str, Any]
    earliest_ms: int | None = None
    subject: str = ""
    severity: Severity | None = None
    evidence: Evidence = Evidence.LOG
    dedup_key: tuple[str, ...] = ()
    news: tuple[str, ...] = ()

    @property
    def key(self) -> ConditionKey:
        """The same in every evaluation as long as the condition holds."""
        return ConditionKey(self.kind.NAME, self.subject)


class Evaluation(msgspec.Struct, frozen=True):
    """The conditions that hold, and when to evaluate again although nothing changes (None: never).

    ``pause_ms``: to evaluate again that long after each evaluation as well, because a later run may have other
    settings. Within one run such an evaluation finds what the one before has found, until ``next_ms``.
    """

    detections: Sequence[Detection] = ()
    next_ms: int | None = None
    pause_ms: int | None = None


#: Nothing holds, and the passing of time changes nothing.
QUIET: Final = Evaluation()


class GroupView(msgspec.Struct, frozen=True):
    """A group at one moment."""

    group_id: str
    snapshot: GroupSnapshot
    offsets: Offsets
    context: Context
    now_ms: int
    _recurring: Sequence[tuple[str, Slot]] | None = None

    @property
    def recurring(self) -> Sequence[tuple[str, Slot]]:
        """The slots, by name, where anything is remembered that can recur: a storm has hundreds of others."""
        if self._recurring is None:
            known = self.snapshot.slot_history.slots.items() if self.snapshot.slot_history else ()
            recurring = [one for one in known if one[1].returned_ms or one[1].dropped_ms or one[1].takeovers]
            msgspec.structs.force_setattr(self, "_recurring", recurring)
            return recurring
        return self._recurring

    @property
    def group(self) -> GroupState:
        """What the group's records and probes show."""
        return self.snapshot.group

    @property
    def session(self) -> SessionSettings:
        """The session of members that have none of their own."""
        return session_settings(self.snapshot, self.context, self.group_id)

    def active(self, kind: type[Condition]) -> ActiveCondition | None:
        """The reported condition of a kind that has no subjects."""
        return self.snapshot.conditions.active.get(ConditionKey(kind.NAME, ""))

    def is_active(self, detection: Detection) -> bool:
        """Whether this condition was reported before and is not resolved."""
        return detection.key in self.snapshot.conditions.active

    def is_about(self, kind: type[Condition], subject: str) -> bool:
        """Whether the condition of a kind about this subject was reported and is not resolved."""
        return ConditionKey(kind.NAME, subject) in self.snapshot.conditions.active

    def any_active(self, kind: type[Condition]) -> bool:
        """Whether a condition of this kind, of any subject, was reported and is not resolved."""
        return any(key.kind == kind.NAME for key in self.snapshot.conditions.active)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """The job at the moment of its newest observation."""

    state: JobState
    newest: JobObservation
    context: Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """Detects one kind of condition. Fields are its thresholds with their defaults.

    The docstring of a subclass is the rule in docs/events.md and deploy/rules.toml. A field that is itself a detector
    is no threshold: the detector needs the thresholds of the other one.
    """

    CONDITION: ClassVar[type[Condition]]
    DEPENDS_ON: ClassVar[frozenset[Dependency]]
    #: The name of its condition.
    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        # No property: the name of each is asked for after every record. (super() fails where a class has slots: the
        # decorator makes it anew.)
        if hasattr(cls, "CONDITION"):
            cls.name = cls.CONDITION.NAME

    def thresholds(self) -> dict[str, Any]:
        """The name of each threshold and its type."""
        types, parts = get_type_hints(type(self)), self.parts()
        return {
            threshold.name: types[threshold.name] for threshold in fields(self) if threshold.name not in parts
        }

    def parts(self) -> dict[str, Detector]:
        """The detectors whose thresholds this one needs, by field."""
        values = {threshold.name: getattr(self, threshold.name) for threshold in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Detector)}

    def detection(
        self,
        since_ms: int,
        threshold_ms: int | None,
        *,
        since: BeginBounds | None = None,
        subject: str = "",
        severity: Severity | None = None,
        evidence: Evidence = Evidence.LOG,
        dedup_key: tuple[str, ...] = (),
        news: tuple[str, ...] = (),
        **details: Any,
    ) -> Detection:
        """Its condition, which holds now; ``details`` are the condition's own fields.

        ``since``: the bounds of ``since_ms``, where it is not exact.
        """
        return Detection(
            kind=self.CONDITION,
            since_ms=since_ms,
            earliest_ms=since_ms if since is None else since.earliest_ms,
            threshold_ms=threshold_ms,
            details=details,
            subject=subject,
            severity=severity,
            evidence=evidence,
            dedup_key=dedup_key,
            news=news,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetector(Detector):
    """Detects a condition of a group.

    It is evaluated after every change but commits, and at ``Evaluation.next_ms``; after commits only when it depends
    on them and a condition of its kind is active: after a run of them, or after the first if any commit ends it. What
    a run changes is told when the moment of its last commit has passed; inside it, at the moments that ``turns`` names.
    """

    ENDED_BY_ANY_COMMIT: ClassVar[bool] = False

    def learn(self, snapshot: GroupSnapshot, at_ms: int) -> None:
        """Remembers in a field of its own what an operation has just changed; most detectors remember nothing.

        It is asked after each operation in the order of the log, whatever is evaluated, and keeps bounded memory. When
        a coordinator's clock is set back, what has a later ``at_ms`` is forgotten (``clock_setback``).
        """

    def turns(self, view: GroupView, ahead: RunAhead) -> npt.NDArray[np.bool_] | None:
        """Which of ``ahead.returns`` can begin or end its condition before the run ends; None for none.

        ``view`` is the group before the run, at its first commit.
        """
        return None

    def evaluate(self, view: GroupView) -> Evaluation:
        """The conditions that hold at ``view.now_ms``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetector(Detector):
    """Detects a condition of the job. It is evaluated after every observation that it depends on."""

    def evaluate(self, view: JobView) -> Sequence[Detection]:
        """The conditions that hold, after an observation that it depends on."""
        raise NotImplementedError
