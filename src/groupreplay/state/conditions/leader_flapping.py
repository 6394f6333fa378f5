"""``leader.flapping``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from groupreplay.state.conditions import windows
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Alert, Condition, Example
from groupreplay.state.conditions.detection import QUIET, Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.events.event import Evidence, MemberIdentity
from groupreplay.state.phrases import Data, counted, first_of, member, milliseconds
from groupreplay.state.replay.slot_history import MOST_TIMES
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.members import Leader, SlotHistory
from groupreplay.state.stored_form import bounded_text

#: So many leaders are named at most.
_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFlapping(Condition):
    """The leader of a classic group changes again and again."""

    NAME = "leader.flapping"
    DOC = (
        "The leader of a classic group changed several times in ten minutes, and rolling restarts do not explain it: "
        "a slot lost the leadership again while another member stayed, or for the third time. It ends ten minutes "
        "after the last change."
    )
    SHORT = "with a flapping leader"
    GROUPS_DID = "changed their leader again and again"
    MEANING = "the leader changed again and again, more often than a rolling restart explains"
    ALERTS = (
        Alert(
            fires="the leader of a classic group changes more often than a rolling restart explains",
            summary="The leader of {group} changes again and again",
            description=(
                "The leader of group {group} of cluster {cluster} changes again and again, each time with a rebalance. "
                "The event leader.flapping names the members that led: look at why they leave."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                "changed_ms": (200_000, 300_000, 400_000),
                "members": (
                    MemberIdentity(**EXAMPLE_MEMBER),
                    MemberIdentity(**{**EXAMPLE_MEMBER, "client_host": "/10.0.0.8"}),
                ),
                "window_ms": 600_000,
            },
        ),
    )
    changed_ms: Annotated[tuple[int, ...], Meta(description="When another member became the leader.")]
    members: Annotated[
        tuple[MemberIdentity, ...],
        Meta(description="Who led in this time, the latest one first, each slot once, at most ten."),
    ]
    window_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        changes = counted(len(data.get("changed_ms") or ()), "change")
        names = first_of(data.get("members") or (), member, separator="; ")
        return f"{changes} of the leader in {milliseconds(data.get('window_ms'))}: {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFlappingDetector(GroupDetector):
    """The leader of a classic group changed ``times`` times in ``window_ms``, and rolling restarts do not explain it.

    They take the leadership from each slot once, and again only after all members were restarted; a slot that loses it
    three times flaps in any case. A member that comes back in its slot is no change. The tasks of
    Connect's sinks do not count: the workers move them at each of their own rebalances. It ends when the leader has
    not changed for ``window_ms``.
    """

    CONDITION = LeaderFlapping
    DEPENDS_ON = frozenset({Dependency.MEMBERS, Dependency.REBALANCE})
    times: int = 3
    window_ms: int = 10 * windows.MINUTE_MS

    def __post_init__(self) -> None:
        windows.check_window(self.name, self.window_ms, self.times)

    def learn(self, snapshot: GroupSnapshot, at_ms: int) -> None:
        """See ``GroupDetector``."""
        history, group = snapshot.slot_history, snapshot.group.classic
        leading = next((present for present in group.members if present.member_id == group.leader), None)
        if history is None or leading is None or windows.is_connect_task(leading.client_id):
            return
        leader = Leader(
            at_ms=at_ms,
            member_id=bounded_text(leading.member_id),
            client_id=bounded_text(leading.client_id),
            client_host=bounded_text(leading.client_host),
            instance_id=None if leading.instance_id is None else bounded_text(leading.instance_id),
        )
        before = [*history.leaders]
        if before and _slot(before[-1]) == _slot(leader):
            leader = replace(leader, at_ms=before.pop().at_ms)
        history.leaders = (*before, leader)[-MOST_TIMES - 1 :]

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        history, begin_ms = view.snapshot.slot_history, view.now_ms - self.window_ms
        if history is None:
            return QUIET
        changes = [pair for pair in pairwise(history.leaders) if pair[1].at_ms > begin_ms]
        if not changes:
            return QUIET
        changed_ms = tuple(leader.at_ms for _, leader in changes)
        often = windows.recurrence(changed_ms, self.window_ms, self.times, view.now_ms)
        if view.active(LeaderFlapping) is None and (often is None or _is_rolling(history, changes)):
            return QUIET
        detection = self.detection(
            often.since_ms if often else changed_ms[0],
            self.window_ms,
            changed_ms=changed_ms,
            members=_named([changes[0][0], *(leader for _, leader in changes)]),
            window_ms=self.window_ms,
        )
        return Evaluation([detection], changed_ms[-1] + self.window_ms)


def _is_rolling(history: SlotHistory, changes: Sequence[tuple[Leader, Leader]]) -> bool:
    """Whether each slot lost the leadership once, or again only in a second rolling restart."""
    lost: dict[tuple[str, ...], list[int]] = {}
    for former, leader in changes:
        lost.setdefault(_slot(former), []).append(leader.at_ms)
    return all(
        len(times_ms) == 1 or (len(times_ms) == 2 and _all_changed(history, *times_ms))
        for times_ms in lost.values()
    )


def _all_changed(history: SlotHistory, since_ms: int, until_ms: int) -> bool:
    """Whether as many slots as the group had members left or came after this moment."""
    changed = {slot for mark in history.marks if since_ms < mark.at_ms <= until_ms for slot in mark.slots}
    sizes = [count.members for count in history.counts if since_ms < count.at_ms <= until_ms]
    return len(changed) >= max(sizes, default=1)


def _slot(leader: Leader) -> tuple[str, ...]:
    """Several members of one client id and host are one slot here: who of them leads says little."""
    return (leader.client_id, leader.client_host) if leader.instance_id is None else (leader.instance_id,)


def _named(leaders: Sequence[Leader]) -> tuple[MemberIdentity, ...]:
    by_slot: dict[tuple[str, ...], Leader] = {}
    for leader in leaders[::-1]:
        by_slot.setdefault(_slot(leader), leader)
    return tuple(
        MemberIdentity(
            member_id=leader.member_id,
            client_id=leader.client_id,
            client_host=leader.client_host,
            instance_id=leader.instance_id,
        )
        for leader in [*by_slot.values()][:_MOST_NAMED]
    )
