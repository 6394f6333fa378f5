"""What events say about the trigger of a rebalance, beside the coordinator's reason in its trace (docs/trace.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.coordinator.trace_entries import (
    AnyEntry,
    EpochEntry,
    MemberEntry,
    RebalanceEntry,
    StateEntry,
)
from groupreplay.state import Event
from groupreplay.state.events.group_events import GroupEmptied, RebalanceCompleted, RebalanceStarted
from support.simulated.probed_lives import Life, events_of, lives

#: True trigger and said trigger -> how many rebalances.
Matrix = Counter[tuple[str, str]]

#: What is right without being the same: not what was first, but what happened.
_ALSO_RIGHT = {("member_joined", "members_changed"), ("member_left", "members_changed")}
_BY_MEMBERS = {"first_join", "member_joined", "member_left"}
#: A member whose partitions were revoked joins again at once.
_AT_ONCE_MS = 1_000
_LEFT = ("LeaveGroup", "heartbeat expiration", "pending sync")


def classic_trigger(entry: RebalanceEntry, stable_ms: int | None) -> str:
    """By Kafka's reason for a rebalance, and by how long the group was Stable before."""
    if entry.reason.startswith("Adding new member"):
        return "first_join" if entry.state == "Empty" else "member_joined"
    if any(words in entry.reason for words in _LEFT):
        return "member_left"
    if "static member" in entry.reason:
        return "static_member_replaced"
    if stable_ms is not None and stable_ms <= _AT_ONCE_MS:
        return "cooperative_followup"
    return "leader_rejoined" if entry.reason.startswith("Leader") else "subscription_changed"


def consumer_trigger(entry: EpochEntry, steps: Sequence[AnyEntry]) -> str:
    """By the reason of an epoch, and by what else happened in the same operation."""
    at_once = [one for one in steps if one.time_ms == entry.time_ms]
    members = {one.change for one in at_once if isinstance(one, MemberEntry)}
    if "removed" in entry.reason:
        return "member_left"
    if any(isinstance(one, StateEntry) and one.before in ("Empty", "Dead") for one in at_once):
        return "first_join"
    if "added" in members:
        return "member_joined"
    if "replaced" in members:
        return "static_member_replaced"
    return "metadata_changed" if "topics have" in entry.reason else "subscription_changed"


def scored(life: Life, events: Iterable[Event]) -> Matrix:
    """Every rebalance of a group: a classic one when it is completed, one of a newer kind when it begins."""
    matrix, last_ms = Matrix(), 0
    for event in events:
        fact = event.fact
        if isinstance(fact, GroupEmptied):
            last_ms = event.time_ms
        elif isinstance(fact, RebalanceCompleted) and event.group_type is GroupType.CLASSIC:
            true = _of_classic(life, last_ms, event.time_ms)
            # The coordinator begins without a reason where a consumer group has become a classic one.
            if true is not None:
                matrix[true, fact.trigger] += 1
            last_ms = event.time_ms
        elif isinstance(fact, RebalanceStarted) and event.group_type is GroupType.CONSUMER:
            epochs = [
                one for one in life.trace if isinstance(one, EpochEntry) and one.epoch == fact.generation
            ]
            found = [one for one in epochs if one.time_ms == event.time_ms]
            if found:
                matrix[consumer_trigger(found[0], life.trace), fact.trigger] += 1
    return matrix


def _of_classic(life: Life, from_ms: int, until_ms: int) -> str | None:
    """The first reason behind a record: that of the group becoming Empty has the time of its record."""
    for entry in life.trace:
        if isinstance(entry, RebalanceEntry) and from_ms < entry.time_ms <= until_ms:
            stable = [
                at_ms for at_ms, _, after in life.changes if after == "Stable" and at_ms <= entry.time_ms
            ]
            lasted_ms = entry.time_ms - stable[-1] if stable and entry.state == "Stable" else None
            return classic_trigger(entry, lasted_ms)
    return None


def score(scenarios: Iterable[str], hours: float, groups: int = 3) -> Matrix:
    """The sum over scenarios, each with so many groups."""
    matrix = Matrix()
    for scenario in scenarios:
        for group_id, life in lives.__wrapped__(scenario, hours, groups, traced=True).items():
            matrix += scored(life, events_of(group_id, life.records, life.probes))
    return matrix


def wrong(matrix: Matrix) -> Matrix:
    """Answers that are neither right nor ``unknown``."""
    return Matrix(
        {
            pair: count
            for pair, count in matrix.items()
            if pair[0] != pair[1] and pair[1] != "unknown" and pair not in _ALSO_RIGHT
        }
    )


def unknown_share(matrix: Matrix) -> float:
    """The share of ``unknown`` where a member came or went."""
    known = Matrix({pair: count for pair, count in matrix.items() if pair[0] in _BY_MEMBERS})
    return sum(count for pair, count in known.items() if pair[1] == "unknown") / max(known.total(), 1)


def table(matrix: Matrix) -> str:
    """The matrix as a table in Markdown: a row for each true trigger."""
    columns = sorted({said for _, said in matrix})
    rows = [["in truth", *(f"`{one}`" for one in columns)], ["---"] + ["---:"] * len(columns)]
    for true in sorted({true for true, _ in matrix}):
        rows.append([f"`{true}`", *(str(matrix[true, said] or "") for said in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
