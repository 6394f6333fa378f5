"""The groups of a replay: a selection of them, their conditions, what ``--fail-on`` finds, and ``list``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from groupreplay.app.inspection.group_lag import Description, lag_fields, time_lag_text
from groupreplay.app.text.tables import Cell, Moment, Table, moment
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events.event import Severity
from groupreplay.state.events.offset_events import OffsetsExpired, OffsetsReset
from groupreplay.state.output.envelope import event_type
from groupreplay.state.phrases import counted, timestamp
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.replay import Replay

if TYPE_CHECKING:
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.streaming.sources.source import Rows


def live_groups(
    replay: Replay, rows: Rows, findings: Findings | None = None, *, with_remains: bool = False
) -> list[dict[str, Any]]:
    """Feed the rows to the replay and describe every group that exists at their end, ordered by name.

    ``findings`` observes the events on the way. ``with_remains``: also deleted groups of which offsets are left.
    """
    output = replay.feed(rows)
    for _ in output if findings is None else findings.observe(output):
        pass
    return existing(replay, with_remains=with_remains)


def existing(replay: Replay, *, with_remains: bool = False) -> list[dict[str, Any]]:
    """The groups that exist after the rows fed so far."""
    descriptions = (group.describe() for group in replay.groups())
    return [
        group for group in descriptions if group["state"] != "Dead" or (with_remains and group["offsets"])
    ]


def remains(group: Description) -> str | None:
    """What each coordinator makes of the offsets of a deleted group, in one sentence; None: it is not deleted."""
    if group["state"] != "Dead":
        return None
    left = counted(len(group["offsets"]), "offset")
    return (
        f"the group {group['group_id']!r} was deleted with {left} left: since Kafka 4.0 the coordinator knows neither "
        "until the next commit of the group; the older one (in Scala) has loaded them as an Empty group"
    )


def generation(group: Description) -> int | None:
    """The generation of a group; the group epoch of one of the newer types."""
    of_group: int | None = group["group_epoch"] if group["generation"] is None else group["generation"]
    return of_group


def choose(
    groups: Sequence[dict[str, Any]], *, types: Collection[str] = (), states: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The groups of these types and in these states, ignoring case; an empty filter keeps all."""
    wanted_types = set(map(_plain, types))
    wanted_states = set(map(_plain, states))
    return [
        group
        for group in groups
        if (not wanted_types or _plain(group["type"]) in wanted_types)
        and (not wanted_states or _plain(group["state"]) in wanted_states)
    ]


def _plain(name: str) -> str:
    """``NotReady``, ``notready`` and ``not_ready`` are the same."""
    return name.lower().replace("_", "")


def absent(choice: GroupChoice, present: Collection[str]) -> list[str]:
    """Those of the texts of a choice that match none of the groups that are present."""
    single = {pattern: GroupChoice([pattern]) for pattern in choice.patterns}
    return [
        pattern for pattern, groups in single.items() if not any(group_id in groups for group_id in present)
    ]


def worst_first(group: Description) -> list[Mapping[str, Any]]:
    """The active conditions, the most severe first, among equals the oldest."""
    return sorted(
        group["conditions"], key=lambda condition: (-Severity[condition["severity"]], condition["since_ms"])
    )


def risk(group: Description) -> str | None:
    """The last word of the name of the worst active condition, by severity, then age: ``stuck``."""
    return next((short_name(condition["condition"]) for condition in worst_first(group)), None)


def conditions_cell(group: Description) -> Cell:
    """All active conditions: ``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z; …``."""
    parts: list[str | Moment] = []
    for condition in worst_first(group):
        parts += [f"{'; ' if parts else ''}{_named(condition)}", Moment(condition["since_ms"])]
    return tuple(parts) or None


def condition_text(condition: Mapping[str, Any]) -> str:
    """``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z``."""
    return f"{_named(condition)}{timestamp(condition['since_ms'])}"


def _named(condition: Mapping[str, Any]) -> str:
    return f"{condition['condition']} ({condition['severity']}) since "


def short_name(name: str) -> str:
    """The last word of a condition's name."""
    return name.rpartition(".")[2]


#: Names that ``--fail-on`` accepts: all conditions, and expired offsets, which are an event and not a condition.
_FAIL_ON: Final = (*(kind.NAME for kind in CONDITIONS), OffsetsExpired.NAME)
_EXPIRED: Final = event_type(OffsetsExpired.NAME)
_RESET: Final = event_type(OffsetsReset.NAME)


class Findings:
    """Finds conditions and expired offsets by last words or full names (``stuck`` or ``rebalance.stuck``).

    A last word means all conditions that end in it.

    Expired offsets count while the log still shows that they expired, and no later commit of the group.

    Raises:
        GroupReplayError: there is no condition of such a name.
    """

    def __init__(self, asked: Collection[str]) -> None:
        spellings: dict[str, set[str]] = {}
        for name in _FAIL_ON:
            for spelling in (name, short_name(name)):
                spellings.setdefault(spelling, set()).add(name)
        for name in asked:
            if name not in spellings:
                names = ", ".join(dict.fromkeys(map(short_name, _FAIL_ON)))
                fix = f"known: {names}; or their full names, for example rebalance.stuck"
                raise unusable(f"{name!r} is not a condition", "--fail-on", fix)
        self.names = frozenset(name for spelling in asked for name in spellings[spelling])
        self._expired: dict[str, str] = {}

    def observe(self, rows: Iterable[OutputRow]) -> Iterator[OutputRow]:
        """Pass the rows through, and remember the events about expired offsets."""
        for row in rows:
            if row.output is Output.EVENTS and row.value is not None and OffsetsExpired.NAME in self.names:
                self._take(msgspec.json.decode(row.value))
            yield row

    def lines(self, groups: Sequence[Description], replay: Replay) -> dict[str, list[str]]:
        """Group -> one line per finding; of ``groups``, and of deleted groups with expired offsets."""
        lines: dict[str, list[str]] = {}
        for group in groups:
            for condition in worst_first(group):
                if condition["condition"] in self.names:
                    lines.setdefault(group["group_id"], []).append(condition_text(condition))
        for group_id, time in self._expired.items():
            if replay.wants(group_id):
                lines.setdefault(group_id, []).append(f"{OffsetsExpired.NAME} at {time}")
        return lines

    def _take(self, event: dict[str, Any]) -> None:
        group_id = event["data"].get("group_id")
        if group_id is not None and event["type"] == _EXPIRED:
            self._expired[group_id] = event["time"]
        elif event["type"] == _RESET:
            self._expired.pop(group_id, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group in ``list``; ``risk`` is the worst active condition.

    ``lag`` is the sum over its partitions and ``time_lag_ms`` the longest, each between ``least`` and ``most`` (None:
    not known); ``lag_unknown`` counts partitions whose lag is not known, and is None if nothing is known of ends.
    """

    group_id: str
    type: str
    protocol_type: str | None
    state: str
    members: int
    generation: int | None
    since_ms: int | None
    group_epoch: int | None
    risk: str | None
    lag: int | None = None
    lag_least: int | None = None
    lag_most: int | None = None
    time_lag_ms: int | None = None
    time_lag_least_ms: int | None = None
    time_lag_most_ms: int | None = None
    lag_unknown: int | None = None


def group_row(group: Description, lags: GroupLags | None = None) -> GroupRow:
    """The row of a group in ``list``, with its lag if there are any ends."""
    records, time, unknown = lags.totals(group) if lags else (None, None, None)
    return GroupRow(
        group_id=group["group_id"],
        type=group["type"],
        protocol_type=group["protocol_type"],
        state=group["state"],
        members=len(group["members"]),
        generation=group["generation"],
        since_ms=group["since_ms"],
        group_epoch=group["group_epoch"],
        risk=risk(group),
        **lag_fields(records, time),
        lag_unknown=unknown,
    )


def list_table(rows: Iterable[GroupRow], *, with_lag: bool = False) -> Table:
    """One row per group; GENERATION is the group epoch for groups of the newer types."""
    headings = ("GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK")
    cells = [
        (
            *(row.group_id, row.type, row.protocol_type, row.state, row.members),
            row.group_epoch if row.generation is None else row.generation,
            moment(row.since_ms),
            row.risk,
            *(_lag_cells(row) if with_lag else ()),
        )
        for row in rows
    ]
    return Table((*headings, *(("LAG", "TIME-LAG") if with_lag else ())), cells)


def _lag_cells(row: GroupRow) -> tuple[Cell, Cell]:
    """``12``, or ``12 + ? of 2 partitions`` where the lag of two is not known."""
    unknown = f" + ? of {counted(row.lag_unknown, 'partition')}" if row.lag_unknown else ""
    lag = None if row.lag is None else f"{row.lag}{unknown}"
    return lag, time_lag_text(row.time_lag_least_ms, row.time_lag_most_ms)


def expiring(groups: Sequence[Description], until_ms: int) -> list[dict[str, Any]]:
    """The groups with offsets that expire until then, with only those offsets; the earliest expiry first."""
    chosen = []
    for group in groups:
        offsets = [
            offset
            for offset in group["offsets"]
            if offset["expires_at_ms"] is not None and offset["expires_at_ms"] <= until_ms
        ]
        if offsets:
            chosen.append({**group, "offsets": offsets})
    return sorted(chosen, key=_first_expiry_ms)


def _first_expiry_ms(group: Description) -> int:
    return min(int(offset["expires_at_ms"]) for offset in group["offsets"])


class ExpiringRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in ``list --expiring``: its offsets that expire; the sums are None without ``--with-lag``."""

    group_id: str
    type: str
    state: str
    partitions: int
    expires_at_ms: int
    earliest_replays: int | None
    latest_skips: int | None


def expiring_row(group: Description) -> ExpiringRow:
    """The row of a group from ``expiring``."""
    return ExpiringRow(
        group_id=group["group_id"],
        type=group["type"],
        state=group["state"],
        partitions=len(group["offsets"]),
        expires_at_ms=_first_expiry_ms(group),
        earliest_replays=_sum(group["offsets"], "earliest_replays"),
        latest_skips=_sum(group["offsets"], "latest_skips"),
    )


def _sum(offsets: Sequence[Description], name: str) -> int | None:
    counts = [offset[name] for offset in offsets if offset.get(name) is not None]
    return sum(counts) if counts else None


def expiring_table(rows: Iterable[ExpiringRow]) -> Table:
    """One row per group."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    cells = [
        (
            *(row.group_id, row.type, row.state, row.partitions, Moment(row.expires_at_ms)),
            *(row.earliest_replays, row.latest_skips),
        )
        for row in rows
    ]
    return Table(columns, cells)
