"""The policy: thresholds, highest severity, labels and planned windows of each group, by globs over group ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any, Final

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.planned_windows import OpenWindows, PlannedWindow, open_windows

#: Condition -> threshold -> value; what is missing stays as its detector has it.
Thresholds = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """What holds for one group. ``matters`` None: the group's history decides.

    Rules are compared and hashed by identity, so that what is derived from them can be cached by them: a policy makes
    one object for all groups that the same rules match.
    """

    thresholds: Thresholds = field(default_factory=dict)
    ignore: bool = False
    severity_cap: Severity | None = None
    matters: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    windows: tuple[PlannedWindow, ...] = ()

    def open_windows(self, at_ms: int) -> OpenWindows | None:
        """The planned windows of the group that are open at this time; None without one."""
        return open_windows(self.windows, at_ms) if self.windows else None

    def cap_at(self, at_ms: int) -> Severity | None:
        """The highest severity at this time; None: any."""
        planned = self.open_windows(at_ms)
        caps = (self.severity_cap, None if planned is None else planned.severity_cap)
        return min((cap for cap in caps if cap is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """What differs for groups whose id matches the glob ``groups`` (``fnmatch``); None changes nothing."""

    groups: str
    ignore: bool | None = None
    severity_cap: Severity | None = None
    matters: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=dict)


_UUID: Final = "-".join("[0-9a-f]" * count for count in (8, 4, 4, 4, 12))
#: Groups that tools create and delete by the thousand; they do not matter.
EPHEMERAL: Final = (
    *(
        GroupRule(groups=glob, matters=False)
        for glob in ("console-consumer-*", "spark-kafka-*", "anonymous.*")
    ),
    GroupRule(groups=f"*{_UUID}", matters=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Thresholds for all groups and for the job, then rules for groups: all that match apply, later ones win.

    ``windows`` are the planned windows of groups. ``runbook`` is the page with a section for each condition.
    """

    thresholds: Thresholds = field(default_factory=dict)
    groups: tuple[GroupRule, ...] = EPHEMERAL
    windows: tuple[PlannedWindow, ...] = ()
    runbook: str = "docs/runbook.md"
    _patterns: list[re.Pattern[str]] = field(default_factory=list, init=False, repr=False, compare=False)
    _known: dict[tuple[int, ...], Rules] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, group_id: str) -> Rules:
        """The rules of a group."""
        if not self._patterns:
            # Compiled once, because this runs in every call of every group.
            self._patterns.extend(re.compile(translate(one.groups)) for one in self.groups)
            self._patterns.extend(re.compile(translate(one.groups)) for one in self.windows)
        places = tuple(place for place, one in enumerate(self._patterns) if one.match(group_id))
        if places not in self._known:
            rules = len(self.groups)
            self._known[places] = self._merged(
                tuple(self.groups[place] for place in places if place < rules),
                tuple(self.windows[place - rules] for place in places if place >= rules),
            )
        return self._known[places]

    def _merged(self, matching: tuple[GroupRule, ...], windows: tuple[PlannedWindow, ...]) -> Rules:
        rules = Rules(thresholds=self.thresholds, windows=windows)
        for one in matching:
            rules = Rules(
                thresholds=merged(rules.thresholds, one.thresholds),
                ignore=rules.ignore if one.ignore is None else one.ignore,
                severity_cap=rules.severity_cap if one.severity_cap is None else one.severity_cap,
                matters=rules.matters if one.matters is None else one.matters,
                labels={**rules.labels, **one.labels},
                windows=windows,
            )
        return rules


def merged(first: Thresholds, later: Thresholds) -> Thresholds:
    """The thresholds of both; the later ones win."""
    return {**first, **{name: {**first.get(name, {}), **values} for name, values in later.items()}}
