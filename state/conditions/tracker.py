"""What holds for a while: said once when it begins, again when it gets worse, once when it is over.

A detector looks at a group at one moment and says what holds then, and when that may change by itself. This
module holds the answer against what was said before. Knows nothing of what the conditions mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import msgspec

from groupreplay.state.conditions.conditions import CONDITIONS, Condition
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.snapshot.conditions import ActiveCondition

if TYPE_CHECKING:
    from groupreplay.state.policy.context import Context
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState
    from groupreplay.state.snapshot.offsets import Offsets

_KINDS: Final = {kind.NAME: kind for kind in CONDITIONS}
#: Far more than any real group has; a hostile one must not fill the state.
_MOST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group at one moment, as detectors see it."""

    group_id: str
    snapshot: GroupSnapshot
    offsets: Offsets
    context: Context
    now_ms: int

    @property
    def group(self) -> GroupState:
        """What the group's records and probes show."""
        return self.snapshot.group


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A condition that holds now.

    ``subject`` tells several of one kind apart: a slot, a topic partition; empty for the group as a whole.
    It is said again when ``dedup_key`` changes or the severity rises. ``details`` are the condition's own fields.
    """

    kind: type[Condition]
    since_ms: int
    threshold_ms: int | None
    details: dict[str, Any]
    subject: str = ""
    severity: Severity | None = None
    evidence: Evidence = Evidence.LOG
    dedup_key: str = ""

    @property
    def key(self) -> str:
        """What this is the same as from one look to the next."""
        return f"{self.kind.NAME} {self.subject}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionUpdate:
    """A condition to be reported; ``key`` is that of ``Detection``."""

    key: str
    condition: Condition
    severity: Severity
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a detector says: what holds, and when it wants to look again although nothing happens."""

    raised: Sequence[Detection] = ()
    next_ms: int | None = None


#: Nothing holds, and nothing will by itself.
QUIET: Final = Evaluation()


class Detector(Protocol):
    """Finds one kind of condition; a frozen dataclass whose fields are its numbers.

    ``evaluate`` is asked after everything that happened to the group but its commits, and when ``next_ms`` has
    come; detectors with ``ON_COMMITS`` are asked after commits too while one of theirs is firing.
    """

    NAME: ClassVar[str]
    ON_COMMITS: ClassVar[bool] = False

    def evaluate(self, view: GroupView) -> Evaluation:
        """What holds at ``view.now_ms``."""
        ...


def group_hash(group_id: str | None) -> str:
    """A short name for a group that is safe in ids: its id may be anything, and 30 000 bytes long."""
    return hashlib.sha256((group_id or "").encode()).hexdigest()[:16]


def condition_id(group_id: str | None, raised: Detection) -> str:
    """Group hash, name and start, and of several of one kind which: the same from firing to resolved."""
    subject = f"-{hashlib.sha256(raised.subject.encode()).hexdigest()[:8]}" if raised.subject else ""
    return f"{group_hash(group_id)}-{raised.kind.NAME}-{raised.since_ms}{subject}"


def runbook_section(name: str) -> str:
    """The fragment of a condition's section: what Markdown makes of the heading ``Rebalance stuck``."""
    return name.replace(".", "-").replace("_", "-")


@dataclass(slots=True)
class ConditionTracker:
    """The conditions of one group: ``firing`` is what was said before, by ``Detection.key``.

    ``runbook`` is the page with a section for each condition, ``own_runbook`` one that the group has for all.
    """

    group_id: str | None
    firing: dict[str, ActiveCondition]
    runbook: str
    severity_cap: Severity | None = None
    own_runbook: str | None = None

    def take(self, raised: Sequence[Detection], kinds: Sequence[str], now_ms: int) -> list[ConditionUpdate]:
        """What has to be said now that these hold; ``kinds`` are the conditions that were looked for."""
        said: list[ConditionUpdate] = []
        found = {one.key: one for one in raised[:_MOST]}
        for key, old in list(self.firing.items()):
            if key not in found and key.partition(" ")[0] in kinds:
                del self.firing[key]
                said.append(_said(key, old, _resolved(key, old, now_ms)))
        for key, one in found.items():
            known = self.firing.get(key)
            severity = self._capped(one)
            if known is not None and known.dedup_key == one.dedup_key and severity <= known.severity:
                continue
            condition = self._condition(one, known)
            self.firing[key] = ActiveCondition(
                severity, one.dedup_key, one.evidence, msgspec.json.encode(condition)
            )
            said.append(_said(key, self.firing[key], condition))
        return said

    def again(self) -> list[ConditionUpdate]:
        """What was said too late and still holds, to be said once more now that it can be acted upon."""
        return [_said(key, one, _restored(key, one)) for key, one in self.firing.items() if one.late]

    def _capped(self, raised: Detection) -> Severity:
        severity = raised.kind.SEVERITY if raised.severity is None else raised.severity
        if raised.evidence is Evidence.INFERRED:
            severity = min(severity, Severity.WARN)
        return severity if self.severity_cap is None else min(severity, self.severity_cap)

    def _condition(self, raised: Detection, known: ActiveCondition | None) -> Condition:
        made = raised.kind(
            status="firing",
            condition_id=condition_id(self.group_id, raised),
            since_ms=raised.since_ms,
            threshold_ms=raised.threshold_ms,
            runbook=self.own_runbook or f"{self.runbook}#{runbook_section(raised.kind.NAME)}",
            **raised.details,
        )
        if known is None:
            return made
        first = _restored(raised.key, known)
        return replace(made, condition_id=first.condition_id, since_ms=first.since_ms)


def _said(key: str, firing: ActiveCondition, condition: Condition) -> ConditionUpdate:
    return ConditionUpdate(
        key=key, condition=condition, severity=Severity(firing.severity), evidence=firing.evidence
    )


def _resolved(key: str, firing: ActiveCondition, now_ms: int) -> Condition:
    condition = _restored(key, firing)
    changes: dict[str, Any] = {"status": "resolved"}
    if hasattr(condition, "elapsed_ms"):
        changes["elapsed_ms"] = max(0, now_ms - condition.since_ms)
    return replace(condition, **changes)


def _restored(key: str, firing: ActiveCondition) -> Condition:
    kind = _KINDS[key.partition(" ")[0]]
    condition: Condition = msgspec.json.decode(firing.condition, type=kind)
    return condition


def told(firing: dict[str, ActiveCondition]) -> list[dict[str, Any]]:
    """The conditions that hold, as documents show them."""
    shown = []
    for key, one in sorted(firing.items()):
        condition = _restored(key, one)
        shown.append(
            {
                "condition": condition.NAME,
                "severity": Severity(one.severity).name,
                "evidence": one.evidence.value,
                **msgspec.to_builtins(condition),
            }
        )
    return shown
