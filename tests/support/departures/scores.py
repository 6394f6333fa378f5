"""What is said about departures, beside what the broker and the clients really did."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupreplay.state import Context
from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures
from support.departures.player import Departed

Json = dict[str, Any]
#: Causes with which a LeaveGroup says that the client has given up.
_GAVE_UP = {"slow", "slow, another joins"}


@dataclass
class Score:
    """``table``: true reason with its cause, and said reason -> how many departures."""

    table: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    #: The true reason is among the candidates of an ``unknown``.
    among: int = 0
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def _sum(self, which: Iterable[tuple[str, str, str]]) -> int:
        return sum(self.table[one] for one in which)

    @property
    def departures(self) -> int:
        return self.table.total()

    @property
    def unknown(self) -> int:
        return self._sum(one for one in self.table if one[2] == "unknown")

    @property
    def right(self) -> int:
        return self._sum(one for one in self.table if one[2] == one[1])

    @property
    def stated(self) -> int:
        return self.departures - self.unknown

    def __add__(self, other: Score) -> Score:
        return Score(
            self.table + other.table,
            self.among + other.among,
            [*self.missing, *other.missing],
            [*self.wrong, *other.wrong],
        )

    def summary(self) -> str:
        """In one line."""
        return (
            f"{self.departures} departures: {self.stated} reasons stated, {self.right} of them right "
            f"({share(self.right, self.stated)}); {self.unknown} unknown ({share(self.unknown, self.departures)}), "
            f"the truth among the candidates of {self.among} ({share(self.among, self.unknown)})"
        )

    def markdown(self) -> str:
        """The table: a row for each cause and true reason."""
        said = [*dict.fromkeys(("left", "poll_timeout", "session_timeout", "rebalance_timeout"))]
        head = ["what was done", "in truth", *(f"`{one}`" for one in said), "`unknown`"]
        rows = [head, ["---", "---", *["---:"] * (len(said) + 1)]]
        for cause, true in sorted({one[:2] for one in self.table}):
            counts = [self.table[cause, true, one] or "" for one in (*said, "unknown")]
            rows.append([cause, f"`{true}`", *map(str, counts)])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def share(part: int, whole: int) -> str:
    """In percent."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def left_events(capture: Path, *, probed: bool = True, all_members: bool = True) -> list[Json]:
    """The events ``member.left`` of a capture, with the answers of the prober or without; or only what is not INFO."""
    rows = read_captures([capture])
    if not probed:
        rows = replace(rows, probes=())
    known = {} if rows.retention is None else rows.retention.for_context()
    if probed:
        # As ``context_of``: what the prober has written of the groups counts.
        known["own_settings"] = None
    context = Context(
        cluster_id=rows.cluster_id,
        era=rows.era,
        member_events=all_members,
        probing=probed,
        complete_since_ms=0,
        **known,
    )
    events = map(json.loads, events_in_order(Replay(context).feed(rows), Filter()))
    return [one for one in events if one["type"] == "groupreplay.member.left.v1"]


def _ending(told: Json, endings: Mapping[str, str]) -> str | None:
    """By the instance id first: the client may join again with the same member id after an administrator removed it."""
    return endings.get(told["instance_id"] or "") or endings.get(told["member_id"])


def score(done: Sequence[Departed], events: Sequence[Json], endings: Mapping[str, str]) -> Score:
    """Each departure by the first event about its member after it."""
    found, by_client = Score(), defaultdict[str, list[Json]](list)
    for event in events:
        by_client[event["data"]["client_id"]].append(event["data"] | {"at_ms": timestamp_ms(event["time"])})
    for one in done:
        # What was done is noted a moment later.
        told = next((data for data in by_client[one.client] if data["at_ms"] > one.at_ms - 100), None)
        true = None if told is None else _ending(told, endings)
        if told is None or true is None:
            found.missing.append(
                f"{one.client} ({one.cause}): {'no event' if told is None else 'no line in the log'}"
            )
            continue
        if true == "left" and one.cause in _GAVE_UP:
            true = "poll_timeout"
        found.table[one.cause, true, told["reason"]] += 1
        candidates = [candidate["reason"] for candidate in told["candidates"]]
        if told["reason"] == "unknown":
            found.among += true in candidates
        elif told["reason"] != true:
            sums = "; ".join(f"{each['reason']}: {each['words']}" for each in told["candidates"])
            found.wrong.append(
                f"{one.client}, {one.profile}, {one.cause}: {told['reason']}, in truth {true} ({sums})"
            )
    return found
