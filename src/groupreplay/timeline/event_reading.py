"""Events as the timeline reads them: CloudEvents of any release; any field may be missing or of another type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events.event import Severity, name_of
from groupreplay.state.phrases import clock_time, timestamp, timestamp_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvent:
    """An event: its place among the events of the document, what identifies it, and its ``data``."""

    index: int
    id: str
    name: str
    time_ms: int
    severity: str
    data: Mapping[str, Any]
    body: Mapping[str, Any]

    def number(self, field: str) -> int | None:
        """A field of ``data`` that is an integer; None otherwise."""
        return whole(self.data.get(field))

    def text(self, field: str) -> str:
        """A field of ``data`` that is a text; empty otherwise."""
        return words(self.data.get(field))

    def items(self, field: str) -> Sequence[Any]:
        """A field of ``data`` that is a list; empty otherwise."""
        value = self.data.get(field)
        return value if isinstance(value, list | tuple) else ()

    def mappings(self, field: str) -> Iterator[Mapping[str, Any]]:
        """The objects in a field of ``data`` that is a list."""
        return (one for one in self.items(field) if isinstance(one, Mapping))

    def mapping(self, field: str) -> Mapping[Any, Any]:
        """A field of ``data`` that is an object; empty otherwise."""
        value = self.data.get(field)
        return value if isinstance(value, Mapping) else {}

    @property
    def is_classic(self) -> bool:
        """Whether it is one of a classic group."""
        return self.text("group_type") == GroupType.CLASSIC.value

    @property
    def cause(self) -> Mapping[str, Any]:
        """The record that proves it; empty if there is none."""
        return self.mapping("cause")


def whole(value: Any) -> int | None:
    """An integer, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def words(value: Any) -> str:
    """A text, empty for anything else."""
    return value if isinstance(value, str) else ""


def read_events(events: Sequence[Mapping[str, Any]]) -> list[ReadEvent]:
    """The events in order of time; those without a time that can be read are left out."""
    timed = [(at_ms, body) for body in events if (at_ms := timestamp_ms(body.get("time"))) is not None]
    timed.sort(key=lambda one: (one[0], words(one[1].get("sequence"))))
    return [_read(index, at_ms, body) for index, (at_ms, body) in enumerate(timed)]


def _read(index: int, at_ms: int, body: Mapping[str, Any]) -> ReadEvent:
    data, severity = body.get("data"), words(body.get("severitytext"))
    return ReadEvent(
        index=index,
        id=words(body.get("id")),
        name=name_of(words(body.get("type"))),
        time_ms=at_ms,
        severity=severity if severity in Severity.__members__ else "INFO",
        data=data if isinstance(data, Mapping) else {},
        body=body,
    )


def clock(at_ms: int) -> str:
    """``02:07:10`` in UTC."""
    return clock_time(timestamp(at_ms))[:8]


def day(at_ms: int) -> str:
    """``2026-01-31`` in UTC."""
    return timestamp(at_ms)[:10]
