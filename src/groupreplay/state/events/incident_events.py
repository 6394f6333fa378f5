"""Events about incidents: what began in many groups at once, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from groupreplay.state.events.event import Fact
from groupreplay.state.phrases import Data, milliseconds

#: ``partition``: of the offsets topic; ``broker``: led that partition a minute before.
SharedKind = Literal["broker", "partition", "topic", "host", "client"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Something that all groups of an incident have, and few of the others."""

    kind: Annotated[
        SharedKind,
        Meta(
            description="`partition`: the groups' partition of the offsets topic. `broker`: led it a minute before. "
            "`client`: the client id, without a number at its end."
        ),
    ]
    value: str
    groups: Annotated[int, Meta(description="Groups of the incident that have it.")]
    other_groups: Annotated[int, Meta(description="Groups that are not in the incident and have it, too.")]
    all_other_groups: Annotated[int, Meta(description="All groups that are not in the incident.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident(Fact):
    """What began in several groups at once, as far as it is known."""

    incident_id: Annotated[
        str, Meta(description="The same in every event of the incident, and in a capture of the same log.")
    ]
    since_ms: Annotated[int, Meta(description="When it began in the first group.")]
    last_began_ms: Annotated[int, Meta(description="When it began in the last group.")]
    until_ms: Annotated[int | None, Meta(description="When it ended in the last group; null while it lasts.")]
    group_count: int
    groups: Annotated[tuple[str, ...], Meta(description="At most 200 of them, by name.")]
    kinds: Annotated[Mapping[str, int], Meta(description="Groups by what happened to them: names of events.")]
    shared: Annotated[
        tuple[Shared, ...],
        Meta(description="What sets the groups apart, the most telling first. Empty: only the moment."),
    ]
    certainty: Annotated[
        Literal["proven", "inferred"],
        Meta(description="`proven`: an answer of the brokers shows the cause. `inferred`: what they share."),
    ]
    text: Annotated[str, Meta(description="The incident in one sentence.")]
    first: Annotated[str, Meta(description="What to do first.")]
    command: Annotated[str, Meta(description="The command for it; HOST:PORT is the address of a broker.")]
    runbook: Annotated[str, Meta(description="What it means, what to do first, how to confirm.")]
    events: Annotated[
        tuple[str, ...], Meta(description="Ids of conditions and events that it consists of, at most 20.")
    ]

    @classmethod
    def line(cls, data: Data) -> str:
        """The incident on one line, from the ``data`` of its event, with its length when it is over; safe to print."""
        text, since_ms, until_ms = (data.get(name) for name in ("text", "since_ms", "until_ms"))
        if not isinstance(since_ms, int) or not isinstance(until_ms, int):
            return str(text or "")
        return f"{text or ''}; over after {milliseconds(until_ms - since_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOpened(Incident):
    """The same began in several groups at once."""

    NAME: ClassVar[str] = "incident.opened"
    DOC: ClassVar[str] = (
        "Conditions, losses or rebalances began in several groups within seconds, and the groups share something that "
        "the others do not, or so many began that it is no chance. Sent again under the same `incident_id` when twice "
        "as many groups are in it, or when it gets worse. The severity is the highest of what it consists of."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentResolved(Incident):
    """An incident is over in all of its groups."""

    NAME: ClassVar[str] = "incident.resolved"
    DOC: ClassVar[str] = (
        "All conditions of an incident have ended, and for three minutes nothing that belongs to it was reported."
    )
