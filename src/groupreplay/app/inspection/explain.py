"""``explain``: the diagnosis of a group in plain sentences, and the tables that it rests on."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from groupreplay.app.inspection.state_history import StateRow, rows_of_states, state_table
from groupreplay.app.text.tables import Cell, Moment, Table, moment
from groupreplay.app.text.terminal import named_lines
from groupreplay.app.text.times import in_zone
from groupreplay.codecs.kafka_terms import VALID_PREVIOUS_STATES, GroupType, Phase
from groupreplay.state import phrases
from groupreplay.state.events.lag_events import StopCost
from groupreplay.state.phrases import counted, milliseconds, safe_text
from groupreplay.state.snapshot.partitions import to_ranges
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.timeline.diagnosis import LINK_LABELS, Link, Statement
from groupreplay.timeline.document import GenerationFlag, TimelineDocument
from groupreplay.timeline.incident_forms import SevereIncident

_NAME_WIDTH: Final = max(map(len, LINK_LABELS.values())) + 2
_TONES: Final = {"ok": "OK", "info": "INFO", "warn": "WARN", "error": "ERROR"}
#: States that lead to the present one.
_PATH: Final = 6
_NO_DEADLINE: Final = "none: nothing ends their retention in this state"


class PathRow(StateRow, frozen=True, kw_only=True):
    """A state on the way to the present one, with the states that Kafka allows before it.

    ``valid_previous`` None: a group of a newer kind, whose state follows from its epochs and members alone.
    """

    valid_previous: tuple[str, ...] | None


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """What a member offered and asked for; None: no record has it."""

    member: str
    candidates: tuple[str, ...] | None
    vote: str | None


class ProtocolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The protocol or assignor of a group, and how it was chosen as far as the log has it."""

    winner: str | None
    how: str
    votes: tuple[Vote, ...]


class RebalanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rebalance and why it began; ``took`` is its length in words, ``cost`` None: not known."""

    at_ms: int
    generation: int
    trigger: str
    members: int
    joined: int
    left: int
    moved: int | None
    never_completed: int
    took: str
    cost: StopCost | None


class OffsetsRow(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a topic with one rule: when they expire (None: never in this state), and what would change that."""

    topic: str
    partitions: str
    rule: str | None
    kept_since: str | None
    expires_at_ms: int | None
    commit_now: str
    member_now: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What ``explain -o json`` prints of a group."""

    group_id: str
    group_type: str
    since_ms: int
    until_ms: int
    diagnosis: tuple[Statement, ...]
    states: tuple[PathRow, ...]
    rebalances: tuple[RebalanceRow, ...]
    offsets: tuple[OffsetsRow, ...]
    protocol: ProtocolChoice | None
    missing: tuple[str, ...]


def explanation(
    document: TimelineDocument, described: Mapping[str, Any] | None, retention_ms: int, last: int
) -> Explanation:
    """The diagnosis of a timeline, with so many of its last rebalances.

    ``described`` is ``Group.describe()`` at the end; None: the group is gone.
    """
    return Explanation(
        group_id=document.group_id,
        group_type=document.group_type,
        since_ms=document.since_ms,
        until_ms=document.until_ms,
        diagnosis=document.verdict,
        states=tuple(_states(document)),
        rebalances=tuple(map(_rebalance, document.generations[-last:])),
        offsets=tuple(_offsets(described, retention_ms)) if described is not None else (),
        protocol=None if described is None else protocol_choice(described),
        missing=tuple(remark.text for remark in document.remarks if not remark.kind.startswith("summed_")),
    )


def _states(document: TimelineDocument) -> Iterator[PathRow]:
    """The path to the present state."""
    partition = next((row.partition for row in document.events if row.partition is not None), -1)
    for row in rows_of_states(document.group_id, partition, document.states[-_PATH:]):
        previous = None
        if row.group_type == GroupType.CLASSIC.value:
            before = VALID_PREVIOUS_STATES[Phase(row.state)]
            previous = tuple(phase.value for phase in Phase if phase in before)
        yield PathRow(**msgspec.structs.asdict(row), valid_previous=previous)


def protocol_choice(described: Mapping[str, Any]) -> ProtocolChoice | None:
    """How the protocol of a group with members was chosen; None: its kind chooses none, or there is nobody.

    A coordinator takes what most members vote for: of a classic group among the protocols that all of them support,
    each member for the first one of its own list (``ClassicGroup.selectProtocol``); of a KIP-848 group the assignors
    that members ask for (``ConsumerGroup.computePreferredServerAssignor``).
    """
    kind, members, winner = described["type"], described["members"], described["protocol"]
    if kind not in (GroupType.CLASSIC.value, GroupType.CONSUMER.value) or not members:
        return None
    if kind == GroupType.CLASSIC.value:
        how = "most of the votes among what all members support; a record has the winner, and no candidate or vote"
        votes = [Vote(member=phrases.member(one), candidates=None, vote=None) for one in members]
        return ProtocolChoice(winner=winner, how=how, votes=tuple(votes)) if winner else None
    asked = Counter(one["assignor"] for one in members if one["assignor"])
    most = [name for name, count in asked.items() if count == max(asked.values())]
    how = "no member asks for an assignor: it is the first one of the brokers' group.consumer.assignors"
    if len(most) == 1:
        how = f"{asked[most[0]]} of {counted(len(members), 'member')} ask for it"
    elif most:
        winner = None
        how = f"as many members ask for {' as for '.join(sorted(most))}: the log does not show which"
    votes = [
        Vote(
            member=phrases.member(one),
            candidates=tuple(one["supported_protocols"]) or None,
            vote=one["assignor"],
        )
        for one in members
    ]
    return ProtocolChoice(winner=winner, how=how, votes=tuple(votes))


def _rebalance(flag: GenerationFlag) -> RebalanceRow:
    return RebalanceRow(
        at_ms=flag.at_ms,
        generation=flag.generation,
        trigger=flag.trigger,
        members=flag.members,
        joined=flag.joined,
        left=flag.left,
        moved=flag.moved,
        never_completed=flag.skipped,
        took=flag.took,
        cost=flag.cost,
    )


def _offsets(described: Mapping[str, Any], retention_ms: int) -> Iterator[OffsetsRow]:
    """The offsets by topic, rule and minute of their deadline."""
    places: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for offset in described["offsets"]:
        at_ms = offset["expires_at_ms"]
        key = (
            offset["topic"],
            offset["expiry_rule"],
            offset["expiry_base"],
            None if at_ms is None else at_ms // 60_000,
        )
        places.setdefault(key, []).append(offset)
    for (topic, rule, base, _), offsets in places.items():
        deadlines = [one["expires_at_ms"] for one in offsets if one["expires_at_ms"] is not None]
        commit, member = _changes(described, base, bool(deadlines), milliseconds(retention_ms))
        yield OffsetsRow(
            topic=topic,
            partitions=to_ranges(one["partition"] for one in offsets),
            rule=rule,
            kept_since=base,
            expires_at_ms=min(deadlines, default=None),
            commit_now=commit,
            member_now=member,
        )


def _changes(
    described: Mapping[str, Any], base: str | None, expires: bool, retention: str
) -> tuple[str, str]:
    """What a commit now would change, and what a member that joins and leaves now would change."""
    is_classic = described["type"] == "classic"
    if not expires:
        later = ": counted anew when the last member has left" if is_classic else ""
        return "no change", f"no change{later}"
    if base == "emptied":
        return "no change", f"+ {retention} from when it leaves"
    by_commit = f"+ {retention} from the commit"
    if base == "own":
        return by_commit, "no change"
    return by_commit, f"+ {retention} from when it leaves" if is_classic else "no change"


# -- text


def incident_lines(severe: SevereIncident, width: int) -> Iterator[str]:
    """An incident across groups: its sentence, and what to do first."""
    incident, indent = severe.incident, " " * _NAME_WIDTH
    line = incident.line({name: getattr(incident, name) for name in ("text", "since_ms", "until_ms")})
    lasts = "" if incident.until_ms is not None else " It still lasts."
    for name, text in (
        (severe.severity, f"{line}.{lasts}"),
        (LINK_LABELS["do_first"].capitalize(), f"{incident.first} {incident.command} ({incident.runbook})"),
    ):
        head = name.ljust(_NAME_WIDTH)
        yield from textwrap.wrap(f"{head}{text}", width, subsequent_indent=indent, break_on_hyphens=False)


def explanation_lines(told: Explanation, zone: TimeZone, *, verbose: bool, width: int) -> Iterator[str]:
    """The sentences; ``verbose``: with the evidence of each link."""
    window = told.since_ms, told.until_ms
    state = told.states[-1].state if told.states else "not known"
    bounds = " to ".join(_moment(at_ms, window, zone, always=True) for at_ms in window)
    yield f"{safe_text(told.group_id)}: {told.group_type} group, {state} at the end; {bounds} ({zone.name})"
    for statement in told.diagnosis:
        yield ""
        yield from _statement_lines(statement, window, zone, verbose, width)
    if told.missing:
        yield ""
        for text in told.missing:
            yield from _wrapped("Missing", text, width)


def _statement_lines(
    statement: Statement, window: tuple[int, int], zone: TimeZone, verbose: bool, width: int
) -> Iterator[str]:
    headline = _sentence(statement.parts, window, zone)
    yield from textwrap.wrap(f"{_TONES[statement.tone]:<5} {headline}", width, subsequent_indent="      ")
    for link in statement.links:
        certainty = "" if link.certainty == "proven" and not link.sum else f" [{_how(link)}]"
        yield from _wrapped(
            link.label.capitalize(), f"{_sentence(link.parts, window, zone)}{certainty}", width
        )
        if verbose:
            yield from _wrapped("", _evidence(link, window, zone), width)
    if statement.first is not None:
        yield " " * (_NAME_WIDTH + 6) + f"$ {statement.first.command}"
        yield " " * (_NAME_WIDTH + 6) + statement.first.runbook
    for gap in statement.gaps:
        yield from _wrapped("Not known", gap, width)


def _how(link: Link) -> str:
    return f"{link.certainty}: {link.sum}" if link.sum and link.kind != "do_first" else link.certainty


def _evidence(link: Link, window: tuple[int, int], zone: TimeZone) -> str:
    evidence = link.evidence
    parts = [f"event {safe_text(name)}" for name in evidence.events]
    parts += [f"record {place.partition}:{place.offset}" for place in evidence.records]
    parts += [f"answer of {_moment(at_ms, window, zone)}" for at_ms in evidence.probes_ms]
    return f"by {', '.join(parts)}"


_wrapped: Final = partial(named_lines, _NAME_WIDTH)


def _sentence(parts: Sequence[str | int], window: tuple[int, int], zone: TimeZone) -> str:
    """A text with its times in this zone; its names are safe to print."""
    return "".join(part if isinstance(part, str) else _moment(part, window, zone) for part in parts)


def _moment(at_ms: int, window: tuple[int, int], zone: TimeZone, *, always: bool = False) -> str:
    """``02:07:10``; with its day where the window has several, or always."""
    moments = [in_zone(each_ms, zone) for each_ms in (at_ms, window[0], window[1] - 1)]
    if moments[0] is None:
        return str(at_ms)
    days = {each.date() for each in moments if each is not None}
    return moments[0].strftime("%Y-%m-%d %H:%M:%S" if always or len(days) > 1 else "%H:%M:%S")


# -- tables


def explanation_tables(told: Explanation) -> list[tuple[str, Table]]:
    """The tables below the sentences, each with its question."""
    return [
        ("Why is it in this state", _path_table(told)),
        (f"Why did it rebalance (the last {counted(len(told.rebalances), 'time')})", _rebalances_table(told)),
        ("What becomes of its offsets", _offsets_table(told)),
        *([] if told.protocol is None else [_protocol_table(told.group_id, told.protocol)]),
    ]


def _path_table(told: Explanation) -> Table:
    table = state_table(told.states)
    previous = ["any" if row.valid_previous is None else ", ".join(row.valid_previous) for row in told.states]
    rows = [(*cells, text) for cells, text in zip(table.rows, previous, strict=True)]
    return Table((*table.columns, "VALID-PREVIOUS"), rows)


def _protocol_table(group_id: str, choice: ProtocolChoice) -> tuple[str, Table]:
    rows: list[tuple[Cell, ...]] = [
        (group_id, vote.member, None if vote.candidates is None else ", ".join(vote.candidates), vote.vote)
        for vote in choice.votes
    ]
    question = f"How its protocol was chosen ({choice.winner or 'not known'}: {choice.how})"
    return question, Table(("GROUP", "MEMBER", "CANDIDATES", "VOTE"), rows)


def _rebalances_table(told: Explanation) -> Table:
    columns = (
        "GROUP",
        "TIME",
        "GENERATION",
        "TRIGGER",
        "#MEMBERS",
        "JOINED",
        "LEFT",
        "MOVED",
        "FAILED",
        "LENGTH",
        "COST",
    )
    rows: list[tuple[Cell, ...]] = [
        (
            told.group_id,
            Moment(row.at_ms),
            row.generation,
            row.trigger,
            row.members,
            row.joined,
            row.left,
            row.moved,
            row.never_completed,
            row.took.removeprefix("took ") or None,
            None if row.cost is None else row.cost.text,
        )
        for row in told.rebalances
    ]
    return Table(columns, rows)


def _offsets_table(told: Explanation) -> Table:
    columns = (
        "GROUP",
        "TOPIC",
        "PARTITIONS",
        "RULE",
        "KEPT-SINCE",
        "EXPIRES",
        "A-COMMIT-NOW",
        "A-MEMBER-NOW",
    )
    rows: list[tuple[Cell, ...]] = [
        (
            told.group_id,
            row.topic,
            row.partitions,
            row.rule,
            row.kept_since,
            moment(row.expires_at_ms) or _NO_DEADLINE,
            row.commit_now,
            row.member_now,
        )
        for row in told.offsets
    ]
    return Table(columns, rows)
