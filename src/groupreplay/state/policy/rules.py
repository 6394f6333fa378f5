"""What the operator decides by rules: thresholds, severities, labels, planned windows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from fnmatch import translate
from functools import lru_cache
from typing import Any, ClassVar, Final, get_type_hints

from groupreplay.state.events.event import Severity

DAY_MS: Final = 86_400_000
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The offset from UTC is at most a day, and a window at most as long.
_DAYS_AROUND: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """From ``from_ms`` to just before ``until_ms``, in milliseconds since 1970."""

    from_ms: int
    until_ms: int

    def closes_ms(self, at_ms: int) -> int | None:
        """When it closes, if it is open at this time; else None."""
        return self.until_ms if self.from_ms <= at_ms < self.until_ms else None

    def __str__(self) -> str:
        begin, end = (_EPOCH + timedelta(milliseconds=at_ms) for at_ms in (self.from_ms, self.until_ms))
        return f"{begin:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly:
    """On these days (0 is Monday), from a time of the day to another one, by the clocks of a zone.

    If ``end`` is not later than ``begin`` it is that of the next day. Where clocks are changed, a time that comes twice
    is the first one, and a time that is left out counts as if the clock had not been changed.
    """

    days: frozenset[int]
    begin: time
    end: time
    zone: tzinfo
    zone_name: str

    def closes_ms(self, at_ms: int) -> int | None:
        """When it closes, if it is open at this time; else None."""
        spans = _spans(self, at_ms // DAY_MS)
        return max((until for begin, until in spans if begin <= at_ms < until), default=None)

    def __str__(self) -> str:
        days = ",".join(DAYS[day] for day in sorted(self.days))
        return f"{days} {self.begin:%H:%M}-{self.end:%H:%M} {self.zone_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWindow:
    """A window for the groups whose id matches the glob ``groups`` (``fnmatch``)."""

    groups: str
    times: Once | Weekly
    severity_cap: Severity = Severity.INFO


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The lowest cap of the windows that are open at a moment, and when the first of them closes."""

    severity_cap: Severity
    closes_ms: int


def open_windows(windows: Collection[PlannedWindow], at_ms: int) -> OpenWindows | None:
    """The windows that are open at this time; None without one."""
    caps, ends = list[Severity](), list[int]()
    for window in windows:
        closes_ms = window.times.closes_ms(at_ms)
        if closes_ms is not None:
            caps.append(window.severity_cap)
            ends.append(closes_ms)
    return OpenWindows(min(caps), min(ends)) if ends else None


@lru_cache(1_000)
def _spans(weekly: Weekly, day: int) -> tuple[tuple[int, int], ...]:
    """The times at which it is open around a day, which is counted in UTC from 1970 on."""
    return tuple(_around(weekly, day))


def _around(weekly: Weekly, day: int) -> Iterator[tuple[int, int]]:
    try:
        middle = (_EPOCH + timedelta(days=day)).date()
        dates = [middle + timedelta(days=days) for days in range(-_DAYS_AROUND, _DAYS_AROUND + 1)]
    except OverflowError:
        # A record may be dated in any year; nobody plans for one that calendars do not have.
        return
    for first in dates:
        if first.weekday() in weekly.days:
            last = first if weekly.begin < weekly.end else first + timedelta(days=1)
            yield _ms(first, weekly.begin, weekly.zone), _ms(last, weekly.end, weekly.zone)


def _ms(day: date, at: time, zone: tzinfo) -> int:
    return int((datetime.combine(day, at, zone) - _EPOCH).total_seconds() * 1000)


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
            self._patterns.extend(re.compile(translate(group.groups)) for group in self.groups)
            self._patterns.extend(re.compile(translate(window.groups)) for window in self.windows)
        places = tuple(place for place, pattern in enumerate(self._patterns) if pattern.match(group_id))
        if places not in self._known:
            rules = len(self.groups)
            self._known[places] = self._merged(
                tuple(self.groups[place] for place in places if place < rules),
                tuple(self.windows[place - rules] for place in places if place >= rules),
            )
        return self._known[places]

    def _merged(self, matching: tuple[GroupRule, ...], windows: tuple[PlannedWindow, ...]) -> Rules:
        rules = Rules(thresholds=self.thresholds, windows=windows)
        for rule in matching:
            rules = Rules(
                thresholds=merged(rules.thresholds, rule.thresholds),
                ignore=rules.ignore if rule.ignore is None else rule.ignore,
                severity_cap=rules.severity_cap if rule.severity_cap is None else rule.severity_cap,
                matters=rules.matters if rule.matters is None else rule.matters,
                labels={**rules.labels, **rule.labels},
                windows=windows,
            )
        return rules


def merged(first: Thresholds, later: Thresholds) -> Thresholds:
    """The thresholds of both; the later ones win."""
    return {**first, **{name: {**first.get(name, {}), **values} for name, values in later.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOffsets:
    """Offsets are moved by `offsets.set`, `offsets.reset` or `offset.rewound`, in all partitions of the event together.

    It is a WARN if more than `most_repeated` records are read again, and an ERROR if more than `most_skipped` are not
    read.
    """

    name: ClassVar[str] = "offsets.moved"
    most_repeated: int = 10_000
    most_skipped: int = 500

    @classmethod
    def thresholds(cls) -> dict[str, Any]:
        """The name of each bound and its type."""
        types = get_type_hints(cls)
        return {field_.name: types[field_.name] for field_ in fields(cls)}

    @classmethod
    def of(cls, rules: Rules) -> MovedOffsets:
        """The bounds of a group with these rules."""
        values: Mapping[str, Any] = rules.thresholds.get(cls.name, {})
        return cls(**values)

    def severity(self, *, repeated: int, skipped: int) -> Severity:
        """That of an event after which at most so many records are read again, and not at all."""
        if skipped > self.most_skipped:
            return Severity.ERROR
        return Severity.WARN if repeated > self.most_repeated else Severity.INFO


def severity_of_moves(moves: Iterable[tuple[int, int]], rules: Rules, *, most: Severity) -> Severity:
    """That of offsets that went from one place to another; ``most`` is the highest.

    A group that does not matter by the rules has nobody who would miss a record.
    """
    distances = [new - old for old, new in moves]
    if rules.matters is False:
        return Severity.INFO
    severity = MovedOffsets.of(rules).severity(
        repeated=sum(-distance for distance in distances if distance < 0),
        skipped=sum(distance for distance in distances if distance > 0),
    )
    return min(severity, most)
