"""The conditions of one group: reported once when they begin, again when they get worse, and once when they end.

The tracker compares the detections of this moment with what was reported before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.detection import Detection
from groupreplay.state.conditions.registry import KINDS
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.policy.context import Redaction
from groupreplay.state.snapshot.group_snapshot import ActiveCondition, ConditionKey

#: Conditions of a group. Far more than any real one has; a hostile one must not fill the state.
MOST_CONDITIONS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionUpdate:
    """A condition to be reported; ``key`` is that of ``Detection``."""

    key: ConditionKey
    condition: Condition
    severity: Severity
    evidence: Evidence


def group_hash(group_id: str | None) -> str:
    """A short name of a group that is safe in ids: a group id may be any text, and 30 000 bytes long."""
    return hashlib.sha256((group_id or "").encode()).hexdigest()[:16]


def condition_id(group_id: str | None, detection: Detection, redaction: Redaction | None = None) -> str:
    """Group hash, name, start and subject: the same from firing to resolved.

    A subject may be the name of a member, so its hash is keyed when names are hidden.
    """
    if redaction is None:
        subject = hashlib.sha256(detection.subject.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    else:
        subject = redaction.digest(detection.subject, 4)
    return f"{group_hash(group_id)}-{detection.kind.NAME}-{detection.since_ms}" + (
        f"-{subject}" if detection.subject else ""
    )


def runbook_section(name: str) -> str:
    """The fragment of a condition's section: what Markdown makes of the heading ``Rebalance stuck``."""
    return name.replace(".", "-").replace("_", "-")


@dataclass(slots=True)
class ConditionTracker:
    """The conditions of one group, or of the job: ``active`` are those that were reported, by ``Detection.key``.

    ``runbook`` is the page with a section for each condition, ``own_runbook`` one page that the group has for all.
    A condition keeps the id under which it was reported first, also when ``redaction`` has changed since.
    """

    group_id: str | None
    active: dict[ConditionKey, ActiveCondition]
    runbook: str
    severity_cap: Severity | None = None
    own_runbook: str | None = None
    redaction: Redaction | None = None

    def update(
        self, detections: Sequence[Detection], evaluated: Collection[str], now_ms: int
    ) -> list[ConditionUpdate]:
        """What to report now that these hold; ``evaluated`` are the names of all conditions that were evaluated."""
        updates: list[ConditionUpdate] = []
        holding = {detection.key: detection for detection in detections[:MOST_CONDITIONS]}
        for key, old in list(self.active.items()):
            if key not in holding and key.kind in evaluated:
                del self.active[key]
                updates.append(_update(key, old, _resolved(key, old, now_ms)))
        for key, detection in holding.items():
            before = self.active.get(key)
            severity = self._capped(detection)
            reported = () if before is None else before.reported
            is_new = (
                before is None
                or before.dedup_key != detection.dedup_key
                or not {*detection.news} <= {*reported}
            )
            if not is_new and before is not None and severity <= before.severity:
                continue
            condition = self._condition(detection, before)
            self.active[key] = ActiveCondition(
                severity=severity,
                dedup_key=detection.dedup_key,
                evidence=detection.evidence,
                condition=msgspec.json.encode(condition),
                reported=tuple(sorted({*reported, *detection.news})),
            )
            updates.append(_update(key, self.active[key], condition))
        return updates

    def repeat_late(self) -> list[ConditionUpdate]:
        """What was reported too late and still holds: reported once more, now that it can be acted upon."""
        return [
            _update(key, active, _last_form(key, active))
            for key, active in self.active.items()
            if active.late
        ]

    def _capped(self, detection: Detection) -> Severity:
        severity = detection.kind.SEVERITY if detection.severity is None else detection.severity
        if detection.evidence is Evidence.INFERRED:
            severity = min(severity, Severity.WARN)
        return severity if self.severity_cap is None else min(severity, self.severity_cap)

    def _condition(self, detection: Detection, before: ActiveCondition | None) -> Condition:
        condition = detection.kind(
            status="firing",
            condition_id=condition_id(self.group_id, detection, self.redaction),
            since_ms=detection.since_ms,
            since_ms_earliest=detection.earliest_ms,
            threshold_ms=detection.threshold_ms,
            runbook=self.own_runbook or f"{self.runbook}#{runbook_section(detection.kind.NAME)}",
            **detection.details,
        )
        if before is None:
            return condition
        first = _last_form(detection.key, before)
        return replace(
            condition,
            condition_id=first.condition_id,
            since_ms=first.since_ms,
            since_ms_earliest=first.since_ms_earliest,
        )


def _update(key: ConditionKey, active: ActiveCondition, condition: Condition) -> ConditionUpdate:
    return ConditionUpdate(
        key=key, condition=condition, severity=Severity(active.severity), evidence=active.evidence
    )


def _resolved(key: ConditionKey, active: ActiveCondition, now_ms: int) -> Condition:
    condition = _last_form(key, active)
    changes: dict[str, Any] = {"status": "resolved"}
    if hasattr(condition, "elapsed_ms"):
        changes["elapsed_ms"] = max(0, now_ms - condition.since_ms)
    if hasattr(condition, "until_ms"):
        changes["until_ms"] = now_ms
    return replace(condition, **changes)


def _last_form(key: ConditionKey, active: ActiveCondition) -> Condition:
    """The condition as it was reported last."""
    kind = KINDS[key.kind]
    condition: Condition = msgspec.json.decode(active.condition, type=kind)
    return condition


def active_conditions(active: dict[ConditionKey, ActiveCondition]) -> list[dict[str, Any]]:
    """The conditions that hold, as documents show them."""
    shown = []
    for key, reported in sorted(active.items()):
        condition = _last_form(key, reported)
        shown.append(
            {
                "condition": condition.NAME,
                "severity": Severity(reported.severity).name,
                "evidence": reported.evidence.value,
                **msgspec.to_builtins(condition),
            }
        )
    return shown
