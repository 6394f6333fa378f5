"""The events of a log: ``replay``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from groupreplay.api.sources import (
    AnySource,
    OpenedLog,
    Time,
    finish,
    group_choice,
    naming_errors,
    open_log,
    point_ms,
    public,
)
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.config.retention import Brokers

if TYPE_CHECKING:
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Filter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. ``json`` is the CloudEvent as the command prints it and the job writes it; ``data`` is its content.

    ``type`` is the CloudEvents type, ``severity`` is ``INFO``, ``WARN`` or ``ERROR``; ``group`` is None for an event
    about records that no group can be named for.
    """

    id: str
    time_ms: int
    type: str
    severity: str
    group: str | None
    data: Mapping[str, Any] = field(hash=False)
    json: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """The type without prefix and version: ``rebalance.completed``."""
        from groupreplay.state.events.event import name_of

        return name_of(self.type)

    @property
    def time(self) -> datetime:
        """When it happened, in UTC."""
        return _EPOCH + timedelta(milliseconds=self.time_ms)


@public
def replay(
    source: AnySource,
    *,
    group: str | Sequence[str] = (),
    types: Sequence[str] = (),
    since: Time | None = None,
    until: Time | None = None,
    min_severity: Literal["info", "warn", "error"] = "info",
    member_events: bool = False,
    complete_since: Time | None = None,
    labels: Mapping[str, str] | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> Iterator[Event]:
    """The events of a log, ordered by time.

    >>> import groupreplay
    >>> for event in groupreplay.replay("tuesday.parquet", group="*-000001", types=["rebalance.completed"]):
    ...     print(event.time.strftime("%H:%M:%S"), event.data["trigger"], event.data["member_count"])
    00:07:52 first_join 4
    00:08:50 member_joined 8
    00:09:43 member_left 4
    01:24:33 member_joined 8
    01:24:44 member_left 4

    ``group`` is an id or a glob, or several of them; ``types`` are names of events (docs/events.md). ``until`` is
    excluded. The other arguments are the flags of ``groupreplay replay``.

    Raises:
        GroupReplayError: the source cannot be read, or there is no such group or type of event; also while iterating.
    """
    from groupreplay.app.cli.flags import need_event_types
    from groupreplay.state import Severity
    from groupreplay.streaming.engine.replay import Filter

    if min_severity not in ("info", "warn", "error"):
        raise unusable(f"{min_severity!r} is no severity", None, "give info, warn or error")
    wanted = Filter(
        types=need_event_types(types),
        since_ms=point_ms(since),
        until_ms=point_ms(until),
        least_severity=Severity[min_severity.upper()],
    )
    settings: dict[str, Any] = {
        "complete_since_ms": point_ms(complete_since),
        "member_events": member_events,
        "labels": dict(labels or {}),
    }
    choice = group_choice(group)
    opened = open_log(source, rules, brokers, **settings)
    return _events(opened, choice, wanted)


def _events(opened: OpenedLog, choice: GroupChoice, wanted: Filter) -> Iterator[Event]:
    from groupreplay.streaming.engine.replay import Replay, events_in_order

    with naming_errors():
        replay = Replay(opened.context, choice)
        # The log is read to its end before the first event is known.
        for text in events_in_order(replay.feed(opened.rows), wanted):
            yield _event(text)
        finish(replay, choice, opened)


def _event(text: bytes) -> Event:
    from groupreplay.state.display.phrases import timestamp_ms

    event = json.loads(text)
    time_ms = timestamp_ms(event["time"])
    assert time_ms is not None
    return Event(
        id=event["id"],
        time_ms=time_ms,
        type=event["type"],
        severity=event["severitytext"],
        group=event["data"]["group_id"],
        data=event["data"],
        json=text,
    )
