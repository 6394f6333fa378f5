"""What was said of incidents of known cause, beside what had been done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupreplay.timeline.document import TimelineDocument
from support.departures.scores import share
from support.diagnosed.incidents import Causes, Incident
from support.diagnosed.real_incidents import RealIncident


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An incident, and the causes and members that its diagnosis names; ``text`` and ``links`` are its sentences."""

    name: str
    clients: str
    expected: Causes
    stated: Causes
    ok: str
    text: str
    links: str = ""

    @property
    def is_right(self) -> bool:
        """The causes, and nothing else."""
        return set(self.stated) == set(self.expected) and self.ok in self.text


def judge_simulated(incident: Incident, document: TimelineDocument) -> Judged:
    """A simulated incident by its timeline."""
    said = [
        (statement.cause, [member.name for member in statement.blamed], statement.text)
        for statement in document.verdict
    ]
    return _judged(incident, "simulated", said)


def judge_real(incident: RealIncident, diagnosis: Sequence[Mapping[str, Any]]) -> Judged:
    """A real incident by what ``explain -o json`` has printed."""
    said = [(one["cause"], [member["name"] for member in one["blamed"]], one["text"]) for one in diagnosis]
    links = " ".join(link["text"] for one in diagnosis for link in one.get("links", ()))
    return replace(_judged(incident, incident.clients, said), links=links)


def _judged(
    incident: Incident | RealIncident, clients: str, said: Iterable[tuple[str | None, Sequence[str], str]]
) -> Judged:
    causes: dict[str, frozenset[str]] = {}
    texts = []
    for cause, blamed, text in said:
        texts.append(text)
        if cause is not None:
            causes[cause] = causes.get(cause, frozenset()) | frozenset(blamed)
    return Judged(
        name=incident.name,
        clients=clients,
        expected=incident.causes,
        stated=causes,
        ok=incident.ok,
        text=" ".join(texts),
    )


@dataclass(frozen=True)
class IncidentScore:
    """How often cause and blame are right, and how often a healthy group is left alone."""

    judged: Sequence[Judged]

    @property
    def incidents(self) -> list[Judged]:
        """Those that have a cause."""
        return [one for one in self.judged if one.expected]

    @property
    def healthy(self) -> list[Judged]:
        """Look-alikes without one."""
        return [one for one in self.judged if not one.expected]

    @property
    def right(self) -> list[Judged]:
        """Incidents whose causes are right."""
        return [one for one in self.incidents if one.is_right]

    @property
    def rightly_blamed(self) -> list[Judged]:
        """Those of them whose members are right as well."""
        return [one for one in self.right if one.stated == one.expected]

    @property
    def left_alone(self) -> list[Judged]:
        """Healthy groups of which no cause is stated."""
        return [one for one in self.healthy if one.is_right]

    def wrong(self) -> list[str]:
        """What is not as expected."""
        return [
            f"{one.name} ({one.clients}): {_words(one.stated)}, expected {_words(one.expected)}; {one.text}"
            for one in self.judged
            if not one.is_right or one.stated != one.expected
        ]

    def holds(self) -> bool:
        """95 % of the causes and 98 % of the blame are right, and nothing is stated of healthy groups."""
        causes, blame = len(self.incidents), len(self.right)
        return (
            len(self.right) >= 0.95 * causes
            and len(self.rightly_blamed) >= 0.98 * blame
            and self.left_alone == self.healthy
        )

    def summary(self) -> str:
        """In one line."""
        causes, blame, healthy = len(self.incidents), len(self.right), len(self.healthy)
        return (
            f"{causes} incidents: the cause of {blame} is right ({share(blame, causes)}), of these the members "
            f"blamed in {len(self.rightly_blamed)} ({share(len(self.rightly_blamed), blame)}); {healthy} healthy "
            f"groups: no cause is stated of {len(self.left_alone)} ({share(len(self.left_alone), healthy)})"
        )

    def markdown(self) -> str:
        """The table: a row for each incident."""
        rows = [["what was done", "clients", "expected", "stated"], ["---"] * 4]
        rows += [[one.name, one.clients, *self._cells(one)] for one in self.judged]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    @staticmethod
    def _cells(one: Judged) -> Iterator[str]:
        yield _words(one.expected)
        yield "the same" if one.is_right and one.stated == one.expected else f"**{_words(one.stated)}**"


def _words(causes: Causes) -> str:
    """``process_lost: a, b``."""
    parts = [
        f"`{cause}`{f': {names}' if (names := ', '.join(sorted(blamed))) else ''}"
        for cause, blamed in sorted(causes.items())
    ]
    return "; ".join(parts) or "no cause"
