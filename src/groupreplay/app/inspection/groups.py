"""The groups of a replay: a selection of them, their worst conditions, their lag, and the tables of ``list``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaException

from groupreplay.app.text.tables import Cell, Moment, Table, moment
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.display.phrases import counted, timestamp
from groupreplay.state.events.event import Severity
from groupreplay.state.events.offset_events import OffsetsExpired, OffsetsReset
from groupreplay.state.output.envelope import event_type
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import Rows


def risk(group: Mapping[str, Any]) -> str | None:
    """The last word of the name of the worst active condition, by severity, then age: ``stuck``."""
    return next((short_name(one["condition"]) for one in worst_first(group)), None)


def conditions_cell(group: Mapping[str, Any]) -> Cell:
    """All active conditions: ``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z; …``."""
    parts: list[str | Moment] = []
    for one in worst_first(group):
        separator = "; " if parts else ""
        parts += [f"{separator}{one['condition']} ({one['severity']}) since ", Moment(one["since_ms"])]
    return tuple(parts) or None


def worst_first(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The active conditions, the most severe first, among equals the oldest."""
    return sorted(group["conditions"], key=lambda one: (-Severity[one["severity"]], one["since_ms"]))


def condition_text(condition: Mapping[str, Any]) -> str:
    """``rebalance.stuck (ERROR) since 2026-01-31T02:00:00.000Z``."""
    return f"{condition['condition']} ({condition['severity']}) since {timestamp(condition['since_ms'])}"


def short_name(name: str) -> str:
    """The last word of a condition's name."""
    return name.rpartition(".")[2]


#: Names that ``--fail-on`` accepts: all conditions, and expired offsets, which are an event and not a condition.
_NAMES: Final = (*(kind.NAME for kind in CONDITIONS), OffsetsExpired.NAME)
_EXPIRED: Final = event_type(OffsetsExpired.NAME)
_RESET: Final = event_type(OffsetsReset.NAME)


class Findings:
    """Finds conditions and expired offsets by last words or full names (``stuck`` or ``rebalance.stuck``).

    Expired offsets count while the log still shows that they expired, and no later commit of the group.

    Raises:
        GroupReplayError: there is no condition of such a name.
    """

    def __init__(self, asked: Collection[str]) -> None:
        known = {spelling: name for name in _NAMES for spelling in (name, short_name(name))}
        for name in asked:
            if name not in known:
                names = ", ".join(map(short_name, _NAMES))
                fix = f"known: {names}; or their full names, for example rebalance.stuck"
                raise unusable(f"{name!r} is not a condition", "--fail-on", fix)
        self.names = frozenset(known[name] for name in asked)
        self._expired: dict[str, str] = {}

    def observe(self, rows: Iterable[OutputRow]) -> Iterator[OutputRow]:
        """Pass the rows through, and remember the events about expired offsets."""
        for row in rows:
            if row.output is Output.EVENTS and row.value is not None and OffsetsExpired.NAME in self.names:
                self._take(msgspec.json.decode(row.value))
            yield row

    def lines(self, groups: Sequence[Mapping[str, Any]], replay: Replay) -> dict[str, list[str]]:
        """Group -> one line per finding; of ``groups``, and of deleted groups with expired offsets."""
        found: dict[str, list[str]] = {}
        for group in groups:
            for one in worst_first(group):
                if one["condition"] in self.names:
                    found.setdefault(group["group_id"], []).append(condition_text(one))
        for group_id, time in self._expired.items():
            if replay.wants(group_id):
                found.setdefault(group_id, []).append(f"{OffsetsExpired.NAME} at {time}")
        return found

    def _take(self, event: dict[str, Any]) -> None:
        group_id = event["data"].get("group_id")
        if group_id is not None and event["type"] == _EXPIRED:
            self._expired[group_id] = event["time"]
        elif event["type"] == _RESET:
            self._expired.pop(group_id, None)


#: What ``Group.describe()`` returns.
Description = Mapping[str, Any]


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
    single = {one: GroupChoice([one]) for one in choice.patterns}
    return [text for text, one in single.items() if not any(name in one for name in present)]


#: Records that a consumer reads again from the log's start, or skips, if it loses the committed offset and starts
#: at ``auto.offset.reset``. Of a partition, and summed up for a group.
REPLAYED: Final = "earliest_replays"
SKIPPED: Final = "latest_skips"
#: Types of groups whose members own partitions of topics; those of streams groups own tasks.
_OWN_PARTITIONS: Final = ("classic", "consumer")


@dataclass(frozen=True, slots=True)
class LogBounds:
    """First and end offset of partitions; a partition that was deleted, or that the login may not see, has none."""

    starts: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]


NO_BOUNDS: Final = LogBounds({}, {})


def log_bounds(groups: Sequence[Description], connection: Connection) -> LogBounds:
    """The bounds of all partitions that have a committed offset or an owner.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    partitions = {(one["topic"], one["partition"]) for group in groups for one in group["offsets"]}
    partitions |= {
        (topic, number)
        for group in groups
        if group["type"] in _OWN_PARTITIONS
        for member in group["members"]
        for topic, numbers in member["partitions"].items()
        for number in numbers
    }
    try:
        return LogBounds(
            connection.partition_offsets(partitions, first=True),
            connection.partition_offsets(partitions, first=False),
        )
    except KafkaException as error:
        raise connection.explain(error, "ends of partitions") from None


def with_lag(groups: Sequence[Description], bounds: LogBounds) -> list[dict[str, Any]]:
    """The same groups; each offset gets the start and end of its partition's log, and what follows from them.

    Offsets of partitions without bounds get no such fields.
    """
    return [
        {**group, "offsets": [_measured(one, bounds.starts, bounds.ends) for one in group["offsets"]]}
        for group in groups
    ]


def _measured(
    offset: Description, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> dict[str, Any]:
    partition = (offset["topic"], offset["partition"])
    if partition not in starts or partition not in ends:
        return dict(offset)
    lag = max(0, ends[partition] - offset["offset"])
    return {
        **offset,
        "log_start_offset": starts[partition],
        "log_end_offset": ends[partition],
        "lag": lag,
        REPLAYED: max(0, min(offset["offset"], ends[partition]) - starts[partition]),
        SKIPPED: lag,
    }


def summary(group: Description) -> dict[str, Any]:
    """The JSON document of a group in ``list``."""
    return {
        "group_id": group["group_id"],
        "type": group["type"],
        "protocol_type": group["protocol_type"],
        "state": group["state"],
        "members": len(group["members"]),
        "generation": group["generation"],
        "since_ms": group["since_ms"],
        "group_epoch": group["group_epoch"],
        "risk": risk(group),
    }


def list_table(groups: Sequence[Description]) -> Table:
    """One row per group; GENERATION is the group epoch for groups of the newer types."""
    rows = [
        (
            *(one[name] for name in ("group_id", "type", "protocol_type", "state", "members")),
            one["group_epoch"] if one["generation"] is None else one["generation"],
            moment(one["since_ms"]),
            one["risk"],
        )
        for one in map(summary, groups)
    ]
    return Table(("GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"), rows)


def expiring(groups: Sequence[Description], until_ms: int) -> list[dict[str, Any]]:
    """The groups with offsets that expire until then, with only those offsets; the earliest expiry first."""
    chosen = []
    for group in groups:
        offsets = [
            one
            for one in group["offsets"]
            if one["expires_at_ms"] is not None and one["expires_at_ms"] <= until_ms
        ]
        if offsets:
            chosen.append({**group, "offsets": offsets})
    return sorted(chosen, key=_first_ms)


def _first_ms(group: Description) -> int:
    return min(int(one["expires_at_ms"]) for one in group["offsets"])


def expiring_summary(group: Description) -> dict[str, Any]:
    """The JSON document of a group from ``expiring``; the sums are None without ``--with-lag``."""
    return {
        "group_id": group["group_id"],
        "type": group["type"],
        "state": group["state"],
        "partitions": len(group["offsets"]),
        "expires_at_ms": _first_ms(group),
        **{name: _sum(group["offsets"], name) for name in (REPLAYED, SKIPPED)},
    }


def _sum(offsets: Sequence[Description], name: str) -> int | None:
    known = [one[name] for one in offsets if one.get(name) is not None]
    return sum(known) if known else None


def expiring_table(groups: Sequence[Description]) -> Table:
    """One row per group."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    rows: list[tuple[Cell, ...]] = []
    for one in map(expiring_summary, groups):
        head = (one["group_id"], one["type"], one["state"], one["partitions"])
        rows.append((*head, Moment(one["expires_at_ms"]), one[REPLAYED], one[SKIPPED]))
    return Table(columns, rows)
