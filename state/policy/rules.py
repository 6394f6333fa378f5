"""The policy: which numbers, how severe, and which labels for which group.

Knows ordered globs over group ids and how they change the detectors' numbers; must not know files or flags,
nor what a number means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import translate
from typing import Any, ClassVar, Final, Protocol, get_type_hints

from groupreplay.state.conditions.churn import (
    MemberFlappingDetector,
    RebalanceStormDetector,
    RebalanceTimeoutsDetector,
    StaticConflictDetector,
    StaticCrashLoopDetector,
)
from groupreplay.state.conditions.expiring import OffsetsExpiringDetector
from groupreplay.state.conditions.ownership import (
    MemberIdleDetector,
    OwnerSilentDetector,
    PartitionPoisonDetector,
    RebalanceSuspectedDetector,
)
from groupreplay.state.conditions.rebalances import RebalanceSlowDetector, RebalanceStuckDetector
from groupreplay.state.conditions.tracker import Detector
from groupreplay.state.events.event import Severity

#: Condition -> fields of its detector that differ.
Numbers = Mapping[str, Mapping[str, Any]]

#: Every detector of a group with its default numbers, in the order in which they speak.
DETECTORS: Final[tuple[Detector, ...]] = (
    RebalanceSlowDetector(),
    RebalanceStuckDetector(),
    RebalanceSuspectedDetector(),
    RebalanceTimeoutsDetector(),
    RebalanceStormDetector(),
    MemberFlappingDetector(),
    MemberIdleDetector(),
    StaticConflictDetector(),
    StaticCrashLoopDetector(),
    OwnerSilentDetector(),
    PartitionPoisonDetector(),
    OffsetsExpiringDetector(),
)


class Numbered(Protocol):
    """A rule about a condition; a dataclass whose fields are its numbers, with their defaults."""

    NAME: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What counts for one group. ``matters`` None leaves it to the group's history."""

    detectors: tuple[Detector, ...] = DETECTORS
    ignore: bool = False
    severity_cap: Severity | None = None
    matters: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """What differs for groups whose id matches the glob ``groups`` (``fnmatch``); None leaves it as it was."""

    groups: str
    ignore: bool | None = None
    severity_cap: Severity | None = None
    matters: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)


_UUID: Final = "-".join("[0-9a-f]" * count for count in (8, 4, 4, 4, 12))
#: Groups that come and go by the thousand, and that nobody misses.
EPHEMERAL: Final = (
    *(
        GroupRule(groups=glob, matters=False)
        for glob in ("console-consumer-*", "spark-kafka-*", "anonymous.*")
    ),
    GroupRule(groups=f"*{_UUID}", matters=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Defaults, then rules for groups: all that match count, in their order, the later ones over the earlier.

    ``numbers`` of conditions about the job itself are not for groups (``job_watch.JOB_RULES``). ``runbook`` is
    where the page about the conditions is.
    """

    numbers: Numbers = field(default_factory=dict)
    groups: tuple[GroupRule, ...] = EPHEMERAL
    runbook: str = "docs/runbook.md"
    _patterns: list[re.Pattern[str]] = field(default_factory=list, init=False, repr=False, compare=False)
    _known: dict[tuple[int, ...], Rules] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, group_id: str) -> Rules:
        """The rules of a group."""
        if self.groups and not self._patterns:
            # Compiled once: every call of every group comes along here.
            self._patterns.extend(re.compile(translate(one.groups)) for one in self.groups)
        places = tuple(place for place, one in enumerate(self._patterns) if one.match(group_id))
        if places not in self._known:
            self._known[places] = self._folded(tuple(self.groups[place] for place in places))
        return self._known[places]

    def _folded(self, matching: tuple[GroupRule, ...]) -> Rules:
        rules = Rules(detectors=_with(DETECTORS, self.numbers))
        for one in matching:
            rules = Rules(
                detectors=_with(rules.detectors, one.numbers),
                ignore=rules.ignore if one.ignore is None else one.ignore,
                severity_cap=rules.severity_cap if one.severity_cap is None else one.severity_cap,
                matters=rules.matters if one.matters is None else one.matters,
                labels={**rules.labels, **one.labels},
            )
        return rules


def numbers_of(rule: Numbered) -> dict[str, Any]:
    """The numbers of a detector, or of a rule about the job, that may be changed, by name, with their types."""
    types, parts = get_type_hints(type(rule)), _parts(rule)
    return {one.name: types[one.name] for one in fields(rule) if one.name not in parts}  # type: ignore[arg-type]


def _parts(detector: Numbered) -> dict[str, Detector]:
    """Other detectors that this one asks for their numbers, by field."""
    values = {one.name: getattr(detector, one.name) for one in fields(detector)}  # type: ignore[arg-type]
    return {name: value for name, value in values.items() if hasattr(value, "evaluate")}


def _with(detectors: tuple[Detector, ...], numbers: Numbers) -> tuple[Detector, ...]:
    changed = {one.NAME: replace(one, **numbers.get(one.NAME, {})) for one in detectors}  # type: ignore[type-var]
    return tuple(
        replace(one, **{name: changed[part.NAME] for name, part in _parts(one).items()})  # type: ignore[type-var]
        for one in changed.values()
    )
