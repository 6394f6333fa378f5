"""The forms of a diagnosis: a chain of links, each with its evidence and how certain it is.

A link without evidence is left out; what a reader would miss is one of the ``gaps`` of its statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from groupreplay.timeline.event_reading import ReadEvent, clock, day, whole, words

#: The links of a chain, in its order.
LinkKind = Literal[
    "cause", "trigger", "stood_still", "waited_for", "ended", "cost", "still_wrong", "do_first"
]
#: What a reader calls a link.
LINK_LABELS: Final[Mapping[LinkKind, str]] = {
    "cause": "cause",
    "trigger": "trigger",
    "stood_still": "stood still",
    "waited_for": "waited for",
    "ended": "end",
    "cost": "cost",
    "still_wrong": "still wrong",
    "do_first": "do first",
}
#: `proven`: by records or answers of the brokers; `inferred`: from their times; `assumed`: it rests on a number that
#: neither has given.
Certainty = Literal["proven", "inferred", "assumed"]
#: What a reader sees of a severity; `ok` is that of a group without any trouble.
Tone = Literal["ok", "info", "warn", "error"]
#: A text in parts; a number stands for a point in time.
Parts = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """A record of the offsets topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvidence:
    """What a link rests on: ids of events, records of the offsets topic, and times of a prober's answers."""

    events: tuple[str, ...] = ()
    records: tuple[RecordPlace, ...] = ()
    probes_ms: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.events or self.records or self.probes_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One sentence of the chain."""

    kind: LinkKind
    label: Annotated[str, Meta(description="What a page calls this link.")]
    text: str
    parts: Annotated[Parts, Meta(description="The same text; a number stands for a point in time.")]
    certainty: Certainty
    sum: Annotated[
        str, Meta(description="How it follows from the evidence, in words; empty where that shows it.")
    ]
    evidence: LinkEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedMember:
    """A member that the cause is about, as its client calls itself."""

    name: Annotated[str, Meta(description="Its instance id, else its client id.")]
    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStep:
    """What to do first. In the command, HOST:PORT stands for the address of a broker."""

    text: str
    about: Annotated[str, Meta(description="The group, and the members with their hosts.")]
    command: str
    runbook: Annotated[str, Meta(description="The section of the runbook: a page with an anchor.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence of the verdict, with its diagnosis; the first one is the most important.

    ``since_ms`` to ``until_ms`` is where to look. ``gaps`` has what a reader would miss
    in the chain.
    """

    tone: Tone
    text: str
    parts: Annotated[
        tuple[str | int, ...],
        Meta(description="The same text; a number stands for a point in time, for pages with another zone."),
    ]
    since_ms: int | None
    until_ms: int | None
    cause: Annotated[
        str | None,
        Meta(description="The name of the cause; null: there is none, or what is known does not show it."),
    ] = None
    blamed: Annotated[tuple[BlamedMember, ...], Meta(description="The members that the cause is about.")] = ()
    links: Annotated[
        tuple[Link, ...], Meta(description="The chain, from the cause to what to do first.")
    ] = ()
    gaps: Annotated[tuple[str, ...], Meta(description="What is missing from the chain, and why.")] = ()
    first: Annotated[FirstStep | None, Meta(description="What to do first; null without a cause.")] = None


def moment(at_ms: int, window: tuple[int, int]) -> str:
    """A point in time, with its day where that is not the only day of the window."""
    days = {day(each_ms) for each_ms in (at_ms, window[0], window[1] - 1)}
    return clock(at_ms) if len(days) == 1 else f"{day(at_ms)} {clock(at_ms)}"


def plain(parts: Sequence[str | int], window: tuple[int, int]) -> str:
    """The text of these parts; ``window`` is the time of the document."""
    return "".join(part if isinstance(part, str) else moment(part, window) for part in parts)


def link(
    kind: LinkKind,
    parts: Sequence[str | int],
    window: tuple[int, int],
    evidence: LinkEvidence,
    certainty: Certainty = "proven",
    how: str = "",
) -> Link:
    """A link with its text."""
    return Link(
        kind=kind,
        label=LINK_LABELS[kind],
        text=plain(parts, window),
        parts=tuple(parts),
        certainty=certainty,
        sum=how,
        evidence=evidence,
    )


def evidence_of(events: Sequence[ReadEvent], probes_ms: Sequence[int] = ()) -> LinkEvidence:
    """These events with the records that they name."""
    places = [(event.cause, event.id) for event in events]
    records = [
        RecordPlace(partition=partition, offset=offset)
        for cause, _ in places
        if (partition := whole(cause.get("partition"))) is not None
        and (offset := whole(cause.get("offset"))) is not None
    ]
    return LinkEvidence(
        events=tuple(dict.fromkeys(name for _, name in places if name)),
        records=tuple(dict.fromkeys(records)),
        probes_ms=tuple(probes_ms),
    )


def certainty_of(event: ReadEvent) -> Certainty:
    """How certain an event is."""
    if event.mapping("assumed") or event.text("assumed_release"):
        return "assumed"
    return "inferred" if event.text("evidence") == "inferred" else "proven"


def blamed_member(identity: object) -> BlamedMember | None:
    """A member of an event's ``data``; None: it has no name."""
    if not isinstance(identity, Mapping):
        return None
    client_id, instance_id = words(identity.get("client_id")), words(identity.get("instance_id"))
    name = instance_id or client_id
    if not name:
        return None
    return BlamedMember(
        name=name,
        member_id=words(identity.get("member_id")),
        client_id=client_id,
        client_host=words(identity.get("client_host")).removeprefix("/"),
        instance_id=instance_id or None,
    )
