"""Incidents across groups: what began in many groups at once becomes one incident, live and in a capture the same.

``IncidentFinder`` takes what was said of groups in any order, and applies it in order of time, in steps of ten seconds:
what is found depends on neither the batches nor the order in which they came, as long as nothing comes from before the
time to which the finder was advanced. Its memory is bounded, and is stored as it is.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from groupreplay.state.events.event import Event, Evidence, History, Severity
from groupreplay.state.events.incident_events import Incident, IncidentOpened, IncidentResolved, Shared
from groupreplay.timeline.facts import worst
from groupreplay.timeline.incident_chance import (
    GAP_MS,
    LONGEST_MS,
    Coincidence,
    Surroundings,
    best_coincidence,
    pace_of,
)
from groupreplay.timeline.incident_groups import SharedBy
from groupreplay.timeline.incident_signals import Attribute, Ended, GroupSeen, Item, LeaderSeen, Signal
from groupreplay.timeline.incident_words import Proof, first_step, incident_text

_STEP_MS: Final = 10_000
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
#: What belongs to an incident begins within this time of its begin.
_GROWS_MS: Final = 5 * _MINUTE_MS
#: An incident is over when nothing was heard of it for so long: a pause of commits is told after two minutes.
_OVER_MS: Final = 3 * _MINUTE_MS
#: At the latest after so long, what keeps coming is looked at.
_PATIENCE_MS: Final = _MINUTE_MS
_MOST_PENDING: Final = 50_000
_MOST_INCIDENTS: Final = 100
_MOST_CONDITIONS: Final = 20_000
_GROUPS_SHOWN: Final = 200
_EVENTS_SHOWN: Final = 20


class _Open(msgspec.Struct):
    """An incident that is not over. ``told``: of so many groups and with this severity; ``heard_ms``: last news."""

    id: str
    shared: tuple[Attribute, ...]
    since_ms: int
    last_began_ms: int
    ended_ms: int
    heard_ms: int
    groups: dict[str, set[str]] = {}
    holds: set[str] = set()
    severities: list[str] = []
    events: list[str] = []
    proofs: int = 0
    told: tuple[int, str] = (0, "INFO")

    def takes(self, signal: Signal, attributes: frozenset[Attribute]) -> bool:
        """Whether a signal belongs to it."""
        if signal.group_id in self.groups and signal.begin_ms >= self.since_ms and self.holds:
            return True
        last_ms = min(self.last_began_ms + GAP_MS, self.since_ms + _GROWS_MS)
        is_near = self.since_ms - GAP_MS <= signal.begin_ms <= last_ms
        return is_near and (not self.shared or self.shared[0] in attributes)

    def add(self, signal: Signal) -> None:
        """The signal is a part of it."""
        if signal.group_id not in self.groups:
            # What follows in the same group does not make it longer.
            self.last_began_ms = max(self.last_began_ms, signal.begin_ms)
        kinds = self.groups.setdefault(signal.group_id, set())
        self.proofs += signal.kind not in kinds and signal.proof in self.shared
        if signal.is_trouble or not kinds or signal.begin_ms <= self.last_began_ms + GAP_MS:
            # A rebalance long after the begin may be an ordinary one.
            kinds.add(signal.kind)
        self.severities = [worst([*self.severities, signal.severity])]
        self.heard_ms = max(self.heard_ms, signal.at_ms)
        if signal.holds and signal.ended_ms is None and len(self.holds) < _MOST_CONDITIONS:
            self.holds.add(signal.id)
        ended_ms = signal.begin_ms if signal.ended_ms is None else signal.ended_ms
        self.ended_ms, self.heard_ms = max(self.ended_ms, ended_ms), max(self.heard_ms, ended_ms)
        if len(self.events) < _EVENTS_SHOWN and signal.id not in self.events:
            self.events.append(signal.id)


class IncidentFinder(msgspec.Struct, kw_only=True):
    """The finder; ``runbook`` is the page with a section on incidents. Its form is that in which it is stored."""

    runbook: str = "docs/runbook.md"
    #: Everything up to here was looked at.
    passed_ms: int = 0
    _waiting: list[Item] = []
    _shared_by: SharedBy = msgspec.field(default_factory=SharedBy)
    _pending: dict[bool, list[Signal]] = {}
    _fresh: list[Signal] = []
    _fresh_since_ms: int = 0
    _first_ms: int | None = None
    _open: list[_Open] = []

    @classmethod
    def from_snapshot(cls, blob: bytes) -> IncidentFinder | None:
        """The inverse of ``snapshot``; None when another release wrote it."""
        try:
            return msgspec.msgpack.decode(blob, type=cls)
        except msgspec.DecodeError:
            return None

    def snapshot(self) -> bytes:
        """The finder as it is stored."""
        return msgspec.msgpack.encode(self)

    def take(self, items: Iterable[Item]) -> None:
        """Takes what was said, in any order."""
        self._waiting += items

    def advance(self, until_ms: int) -> list[Event]:
        """The events about incidents up to a time: everything from before it was taken."""
        news: list[Event] = []
        self._waiting.sort(key=_place)
        place = 0
        while (step_ms := self._next_step(place)) is not None and step_ms <= until_ms:
            fresh = len(self._fresh)
            while place < len(self._waiting) and self._waiting[place].at_ms <= step_ms:
                self._apply(self._waiting[place])
                place += 1
            self.passed_ms = step_ms
            self._note_fresh(step_ms, is_quiet=len(self._fresh) == fresh)
            news += self._news(step_ms)
        self._waiting = self._waiting[place:]
        return news

    def _next_step(self, place: int) -> int | None:
        """The next moment at which something may change."""
        times = [self._waiting[place].at_ms] if place < len(self._waiting) else []
        times += [self.passed_ms + 1] if self._fresh else []
        times += [incident.heard_ms + _OVER_MS for incident in self._open if not incident.holds]
        return max(-(-min(times) // _STEP_MS) * _STEP_MS, self.passed_ms) if times else None

    def _apply(self, item: Item) -> None:
        if self._first_ms is None and not isinstance(item, GroupSeen | LeaderSeen):
            self._first_ms = item.at_ms
        if isinstance(item, GroupSeen):
            self._shared_by.see(item)
        elif isinstance(item, LeaderSeen):
            self._shared_by.see_leader(item)
        elif isinstance(item, Ended):
            for incident in self._open:
                if item.id in incident.holds:
                    incident.holds.remove(item.id)
                    incident.ended_ms = max(incident.ended_ms, item.at_ms)
                    incident.heard_ms = max(incident.heard_ms, item.at_ms)
            self._change_pending(item, lambda signal: replace(signal, ended_ms=item.at_ms))
        elif not self._shared_by.is_young(item):
            self._begin(item)

    def _begin(self, signal: Signal) -> None:
        """A signal: it belongs to an incident that is open, or waits for others."""
        for incident in self._open:
            if (
                signal.id in incident.events
                or signal.id in incident.holds
                or incident.takes(signal, self._shared_by.attributes(signal))
            ):
                incident.add(signal)
                return
        pending = self._pending.setdefault(signal.is_trouble, [])
        if self._change_pending(signal, lambda known: _worse(known, signal)):
            return
        insort(pending, signal, key=_begin_place)
        if len(pending) > _MOST_PENDING:
            del pending[0]
        if not self._fresh:
            self._fresh_since_ms = signal.at_ms
        self._fresh.append(signal)

    def _change_pending(self, item: Signal | Ended, change: Callable[[Signal], Signal]) -> bool:
        """What is said later of a signal that no incident has taken so far; whether there is one."""
        for pending in self._pending.values() if item.begin_ms is not None else ():
            place = bisect_left(pending, (item.begin_ms, item.id), key=_begin_place)
            if place < len(pending) and _begin_place(pending[place]) == (item.begin_ms, item.id):
                pending[place] = change(pending[place])
                return True
        return False

    def _note_fresh(self, step_ms: int, *, is_quiet: bool) -> None:
        """Looks at what has begun, when nothing more comes or it was waited for long enough."""
        if not self._fresh or not (is_quiet or step_ms - self._fresh_since_ms >= _PATIENCE_MS):
            return
        fresh, self._fresh = self._fresh, []
        for is_trouble in (True, False):
            while len(self._open) < _MOST_INCIDENTS:
                left = {signal.id for signal in self._pending.get(is_trouble, ())}
                near = self._near(is_trouble, [signal for signal in fresh if signal.id in left])
                coincidence = best_coincidence(near, self._surroundings(is_trouble, near)) if near else None
                if coincidence is None:
                    break
                if (incident := self._continued(coincidence)) is None:
                    self._open.append(incident := self._opened(coincidence, step_ms))
                self._gather(incident, coincidence)
        self._forget(step_ms)

    def _near(self, is_trouble: bool, fresh: Sequence[Signal]) -> list[Signal]:
        """What has begun about when fresh ones have, in order."""
        pending, kept, last_ms = self._pending.get(is_trouble, []), dict[str, Signal](), -1
        for signal in sorted(fresh, key=_begin_place):
            first_ms = max(signal.begin_ms - _MINUTE_MS, last_ms + 1)
            last_ms = max(last_ms, signal.begin_ms + _MINUTE_MS)
            kept.update((other.id, other) for other in _between(pending, first_ms, last_ms))
        return sorted(kept.values(), key=_begin_place)

    def _surroundings(self, is_trouble: bool, near: Sequence[Signal]) -> Surroundings:
        groups = max(len(self._shared_by.groups), 1)
        since_ms = self._first_ms or 0
        first_ms, last_ms = near[0].begin_ms, near[-1].begin_ms
        known = {signal.id: self._shared_by.attributes(signal) for signal in near}
        return Surroundings(
            groups=groups,
            sharing=lambda attribute: self._shared_by.count_sharing(attribute, first_ms, last_ms),
            attributes=lambda signal: known[signal.id],
            pace=pace_of(self._pending.get(is_trouble, ()), groups, since_ms),
        )

    def _continued(self, coincidence: Coincidence) -> _Open | None:
        """The open incident of the same cause: it began within a minute, and nothing else tells the two apart.

        One cause begins in waves: a group is said to have stopped since its last commit. Where the same began in groups
        that share nothing, what some of them share is no cause, unless the brokers have proven it.
        """
        first_ms, last_ms = coincidence.signals[0].begin_ms, coincidence.signals[-1].begin_ms
        kinds = {signal.kind for signal in coincidence.signals}
        for incident in self._open:
            if not (
                incident.since_ms - LONGEST_MS <= last_ms and first_ms <= incident.last_began_ms + LONGEST_MS
            ):
                continue
            if not incident.shared or incident.shared[:1] == coincidence.shared[:1]:
                return incident
            is_same = any(not kinds.isdisjoint(other) for other in incident.groups.values())
            if is_same and not coincidence.shared and self._proof(incident) is None:
                incident.shared = ()
                return incident
        return None

    @staticmethod
    def _opened(coincidence: Coincidence, step_ms: int) -> _Open:
        signals = coincidence.signals
        name = f"{coincidence.shared[:1]}{signals[0].id}"
        return _Open(
            id=f"incident-{signals[0].begin_ms}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}",
            shared=coincidence.shared,
            since_ms=signals[0].begin_ms,
            last_began_ms=signals[-1].begin_ms,
            ended_ms=0,
            heard_ms=step_ms,
        )

    def _gather(self, incident: _Open, coincidence: Coincidence) -> None:
        """Its signals, and those pending that belong to it."""
        incident.since_ms = min(incident.since_ms, coincidence.signals[0].begin_ms)
        for signal in coincidence.signals:
            incident.add(signal)
        chosen = {signal.id for signal in coincidence.signals}
        for is_trouble, pending in self._pending.items():
            kept = []
            for signal in pending:
                if signal.id in chosen:
                    continue
                near = abs(signal.begin_ms - incident.since_ms) <= _GROWS_MS
                if near and incident.takes(signal, self._shared_by.attributes(signal)):
                    incident.add(signal)
                else:
                    kept.append(signal)
            self._pending[is_trouble] = kept

    def _forget(self, step_ms: int) -> None:
        """What began more than an hour ago, and some minutes: the pace is that of the last hour."""
        for pending in self._pending.values():
            oldest_ms = step_ms - _HOUR_MS - _GROWS_MS
            del pending[: bisect_left(pending, oldest_ms, key=lambda signal: signal.begin_ms)]

    def _news(self, step_ms: int) -> list[Event]:
        """What is to be told of open incidents, those that are over last."""
        news = []
        for incident in list(self._open):
            severity = worst(incident.severities)
            count, told = incident.told
            if len(incident.groups) >= 2 * count or Severity[severity] > Severity[told]:
                incident.told = (len(incident.groups), severity)
                news.append(self._event(incident, IncidentOpened, step_ms))
            if not incident.holds and step_ms >= incident.heard_ms + _OVER_MS:
                self._open.remove(incident)
                news.append(self._event(incident, IncidentResolved, step_ms))
        return news

    def end(self) -> list[Event]:
        """What a log that has ended still has to tell: all of it, and the incidents that are open at its end."""
        news = self.advance(
            max([self.passed_ms, *(item.at_ms for item in self._waiting)]) + _OVER_MS + _STEP_MS
        )
        return news + [self._event(incident, IncidentOpened, self.passed_ms) for incident in self._open]

    def _event(self, incident: _Open, kind: type[Incident], step_ms: int) -> Event:
        proof = self._proof(incident)
        is_over = not incident.holds
        kinds = Counter(kind for kinds in incident.groups.values() for kind in kinds)
        fields: dict[str, Any] = {
            "incident_id": incident.id,
            "since_ms": incident.since_ms,
            "last_began_ms": incident.last_began_ms,
            "until_ms": max(incident.ended_ms, incident.last_began_ms) if is_over else None,
            "group_count": len(incident.groups),
            "groups": tuple(sorted(incident.groups)[:_GROUPS_SHOWN]),
            "kinds": dict(sorted(kinds.items())),
            "shared": tuple(self._shared(incident)),
            "certainty": "proven" if proof else "inferred",
            "events": tuple(incident.events),
        }
        step = first_step(fields["shared"], self.runbook)
        fact = kind(
            **fields,
            text=incident_text(fields, proof, len(self._shared_by.groups)),
            first=step.text,
            command=step.command,
            runbook=step.runbook,
        )
        return Event(
            fact=fact,
            time_ms=step_ms,
            evidence=Evidence.PROBE if proof else Evidence.INFERRED,
            history=History.FULL,
            severity=Severity[worst(incident.severities)],
        )

    def _shared(self, incident: _Open) -> Iterator[Shared]:
        groups = max(len(self._shared_by.groups), len(incident.groups))
        for kind, value in incident.shared:
            with_it = max(
                self._shared_by.count_sharing((kind, value), incident.since_ms, incident.last_began_ms),
                len(incident.groups),
            )
            yield Shared(
                kind=kind,
                value=value,
                groups=len(incident.groups),
                other_groups=with_it - len(incident.groups),
                all_other_groups=groups - len(incident.groups),
            )

    def _proof(self, incident: _Open) -> Proof | None:
        """What the brokers have answered about what the groups share."""
        if not incident.shared:
            return None
        if incident.proofs:
            return Proof("deleted")
        return self._shared_by.move(incident.shared[0], incident.since_ms, incident.last_began_ms)


def _place(item: Item) -> tuple[Any, ...]:
    """The order of items: what groups have comes before what happens to them at that time."""
    if isinstance(item, Signal | Ended):
        return item.at_ms, 1, item.id, isinstance(item, Ended)
    if isinstance(item, GroupSeen):
        return item.at_ms, 0, item.group_id, item.created, sorted(item.shares)
    return item.at_ms, -1, str(item.partition), item.broker


def _worse(known: Signal, later: Signal) -> Signal:
    """A condition that has become worse, or is said once more."""
    return replace(known, severity=worst([known.severity, later.severity]))


def _begin_place(signal: Signal) -> tuple[int, str]:
    return signal.begin_ms, signal.id


def _between(signals: Sequence[Signal], first_ms: int, last_ms: int) -> Sequence[Signal]:
    """Those that begin between two times, both included."""
    first = bisect_left(signals, first_ms, key=lambda signal: signal.begin_ms)
    return signals[first : bisect_right(signals, last_ms, key=lambda signal: signal.begin_ms)]
