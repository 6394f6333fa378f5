"""``rebalance.stuck``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Condition, Example
from groupreplay.state.conditions.current_rebalance import current, rebalance_timeout_ms, session_timeout_ms
from groupreplay.state.conditions.detection import QUIET, Detection, Evaluation, GroupDetector, GroupView
from groupreplay.state.conditions.rebalance.slow import RebalanceSlow, RebalanceSlowDetector
from groupreplay.state.conditions.suspects import Suspect, suspects
from groupreplay.state.display import phrases
from groupreplay.state.display.phrases import NAMES_SHOWN, Data
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.events.event import Evidence, MemberIdentity, Partitions, Severity
from groupreplay.state.kafka_terms import GroupType, MemberPhase, Phase
from groupreplay.state.replay.topic_names import names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.members import client_fields
from groupreplay.state.snapshot.modern import Modern, ModernMember
from groupreplay.state.snapshot.partitions import each

#: What a rebalance waits for: members that do not rejoin, the leader's assignment, partitions that are not
#: given up, a target assignment that is not made.
StuckReason = Literal["not_joined", "not_synced", "not_revoked", "not_assigned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker(MemberIdentity):
    """A member that others provably wait for."""

    revoking: Annotated[Partitions, Meta(description="What it has not given up yet, by topic.")]
    since_ms: Annotated[int | None, Meta(description="When the coordinator asked it to give them up.")]
    fenced_at_ms: Annotated[
        int | None,
        Meta(
            description="When the broker will remove it from the group; null when the log does not show that."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuck(Condition):
    """A rebalance does not end; the members that block it, or the members to suspect."""

    NAME = "rebalance.stuck"
    DOC = (
        "A rebalance is in progress for most of the rebalance timeout: the group consumes little or nothing. "
        "`wedged` means that it lasts longer than the protocol allows."
    )
    SEVERITY = Severity.ERROR
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                "rebalance_id": "era-1-3-100",
                "state": "Reconciling",
                "reason": "not_revoked",
                "blockers": (
                    Blocker(
                        **EXAMPLE_MEMBER, revoking={"orders": "0-3"}, since_ms=100_000, fenced_at_ms=400_000
                    ),
                ),
                "suspects": None,
                "suspects_note": None,
                "wedged": False,
                "elapsed_ms": 180_000,
            },
        ),
        Example(
            Evidence.PROBE,
            {
                "rebalance_id": "era-1-3-100",
                "state": "PreparingRebalance",
                "reason": "not_joined",
                "blockers": None,
                "suspects": (
                    Suspect(**EXAMPLE_MEMBER, reason="no_commit_since_start", last_commit_ms=99_000),
                ),
                "suspects_note": None,
                "wedged": True,
                "elapsed_ms": 180_000,
            },
        ),
    )
    rebalance_id: str | None
    state: str
    reason: StuckReason
    blockers: Annotated[
        tuple[Blocker, ...] | None,
        Meta(description="Members that block, proven by the log; null for classic."),
    ]
    suspects: Annotated[
        tuple[Suspect, ...] | None,
        Meta(description="Classic groups only: members that may block, likeliest first; an inference."),
    ]
    suspects_note: Annotated[str | None, Meta(description="Why there are no suspects.")]
    wedged: bool
    elapsed_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        beyond = ", longer than the protocol allows" if data.get("wedged") else ""
        return f"{RebalanceSlow.firing_text(data)}, {phrases.spaced(data, 'reason')}{beyond}{_culprits(data)}"


def _culprits(data: Data) -> str:
    """The members that block, as far as that is proven or may be suspected."""
    for name, shown, words in (
        ("blockers", _blocker_text, "blocked by"),
        ("suspects", _suspect_text, "suspects:"),
    ):
        members = data.get(name) or ()
        if members:
            more = f" and {len(members) - NAMES_SHOWN} more" if len(members) > NAMES_SHOWN else ""
            return f", {words} {'; '.join(map(shown, members[:NAMES_SHOWN]))}{more}"
    note = data.get("suspects_note")
    return f", no suspects: {safe_text(str(note))}" if note else ""


def _blocker_text(member: Data) -> str:
    fenced = member.get("fenced_at_ms")
    until = "" if fenced is None else f", thrown out at {phrases.clock_time(phrases.timestamp(fenced))}"
    held = phrases.partitions(member.get("revoking")) or "partitions"
    return f"{phrases.member(member)} (holds {held}{until})"


def _suspect_text(member: Data) -> str:
    return f"{phrases.member(member)} ({phrases.spaced(member, 'reason')})"


@dataclass(frozen=True, slots=True)
class _Wait:
    """Something that keeps a rebalance from ending: when it began, how long it may take, and the member if known."""

    since_ms: int
    limit_ms: int
    reason: str
    blocker: Blocker | None = None

    @property
    def due_ms(self) -> int:
        """When it has lasted too long."""
        return self.since_ms + self.limit_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuckDetector(GroupDetector):
    """In progress for longer than ``of_timeout`` of the rebalance timeout, within bounds.

    The lower bound is that of a slow rebalance plus ``beyond_slow_ms``, the upper one ``most_ms``. A KIP-848, share or
    streams group may be without a target assignment for ``assigning_ms``. After twice the rebalance timeout plus the
    session timeout plus ``wedged_beyond_ms`` the protocol itself would have ended the rebalance.
    """

    CONDITION = RebalanceStuck
    DEPENDS_ON = RebalanceSlowDetector.DEPENDS_ON
    threshold_ms: int | None = None
    of_timeout: float = 0.6
    beyond_slow_ms: int = 30_000
    most_ms: int = 300_000
    assigning_ms: int = 60_000
    wedged_ms: int | None = None
    wedged_beyond_ms: int = 30_000
    slow: RebalanceSlowDetector = field(default_factory=RebalanceSlowDetector)

    def limit_ms(self, view: GroupView, timeout_ms: int) -> int:
        """The threshold for a rebalance timeout."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        least_ms = self.slow.limit_ms(view) + self.beyond_slow_ms
        return max(least_ms, min(int(self.of_timeout * timeout_ms), self.most_ms))

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        waits = sorted(self._waits(view), key=lambda wait: wait.due_ms)
        due = [wait for wait in waits if wait.due_ms <= view.now_ms]
        if not due:
            return Evaluation(next_ms=waits[0].due_ms) if waits else QUIET
        later = [wait.due_ms for wait in waits[len(due) :]]
        since_ms = min(wait.since_ms for wait in due)
        wedged_at_ms = since_ms + self._wedged_ms(view)
        wedged = view.now_ms >= wedged_at_ms
        if not wedged:
            later.append(wedged_at_ms)
        return Evaluation([self._stuck(view, due, since_ms, wedged)], min(later, default=None))

    def _stuck(self, view: GroupView, due: list[_Wait], since_ms: int, wedged: bool) -> Detection:
        now, is_modern = current(view), view.group.modern is not None
        blockers = tuple(wait.blocker for wait in due if wait.blocker is not None)
        found, note = (None, None) if is_modern else suspects(view)
        member_ids = sorted(blocker.member_id for blocker in blockers)
        return self.detection(
            since_ms,
            due[0].limit_ms,
            since=now.since if now and not is_modern else None,
            evidence=now.evidence if now else Evidence.LOG,
            dedup_key=("wedged" if wedged else "", *member_ids),
            # Each reason is reported once: a stuck group may go from joining to syncing and back without end.
            news=(due[0].reason,),
            rebalance_id=now.rebalance_id if now else None,
            state=now.state if now else _state(view),
            reason=due[0].reason,
            blockers=blockers if is_modern else None,
            suspects=found,
            suspects_note=note,
            wedged=wedged,
            elapsed_ms=view.now_ms - since_ms,
        )

    def _wedged_ms(self, view: GroupView) -> int:
        if self.wedged_ms is not None:
            return self.wedged_ms
        timeout_ms = max(rebalance_timeout_ms(view), 0)
        return 2 * timeout_ms + session_timeout_ms(view) + self.wedged_beyond_ms

    def _waits(self, view: GroupView) -> Iterator[_Wait]:
        group = view.group
        if group.in_progress is not None:
            reason = "not_synced" if group.in_progress.phase is Phase.COMPLETING_REBALANCE else "not_joined"
            limit_ms = self.limit_ms(view, rebalance_timeout_ms(view))
            yield _Wait(group.in_progress.since_ms, limit_ms, reason)
        elif group.modern is not None and modern.living(group.modern):
            if modern.assigning(group.modern):
                if group.since_ms is not None:
                    # A share group stays Stable while it waits: then the beginning of its rebalance counts.
                    began = group.open_rebalance.started_ms if group.open_rebalance else group.since_ms
                    since_ms = began if group.group_type is GroupType.SHARE else group.since_ms
                    yield _Wait(since_ms, self.threshold_ms or self.assigning_ms, "not_assigned")
            else:
                yield from self._revocations(view, group.modern)

    def _revocations(self, view: GroupView, group: Modern) -> Iterator[_Wait]:
        wanted = _wanted(group)
        started_ms = view.group.open_rebalance.started_ms if view.group.open_rebalance else None
        for member_id, member in sorted(modern.living(group).items()):
            limit_ms = self.limit_ms(view, member.rebalance_timeout_ms)
            if member.phase is MemberPhase.UNREVOKED and member.phase_since_ms is not None:
                yield _Wait(
                    member.phase_since_ms, limit_ms, "not_revoked", _blocker(view, member_id, member, group)
                )
            elif started_ms is not None and member.epoch != modern.AWAY and _holds(group, member, wanted):
                # It has not even asked for its new assignment; its session timeout will end that.
                blocker = _blocker(view, member_id, member, group, started_ms)
                yield _Wait(started_ms, limit_ms, "not_revoked", blocker)


def _state(view: GroupView) -> str:
    group = view.group.modern
    return view.group.phase.value if group is None else modern.state_of(view.group.group_type, group)


def _wanted(group: Modern) -> set[tuple[str, int]]:
    """Partitions that a member waits for: they are in its target assignment, and another member holds them."""
    return {
        one
        for member in group.members.values()
        if member.phase is MemberPhase.UNRELEASED
        for one in set(each(member.target or {})) - set(each(member.assigned))
    }


def _holds(group: Modern, member: ModernMember, wanted: set[tuple[str, int]]) -> bool:
    epoch = modern.target_epoch(group)
    behind = epoch is not None and member.epoch < epoch
    return behind and not wanted.isdisjoint({*each(member.assigned), *each(member.revoking)})


def _blocker(
    view: GroupView, member_id: str, member: ModernMember, group: Modern, since_ms: int | None = None
) -> Blocker:
    known = names(view.offsets, group, view.context.topic_names)
    unrevoked = since_ms is None
    # The broker has no revocation timer for members that use the classic protocol.
    timed = unrevoked and member.phase_since_ms is not None and member.classic_session_timeout_ms is None
    timed = timed and member.rebalance_timeout_ms > 0
    return Blocker(
        member_id=member_id,
        **client_fields(member),
        revoking={known.get(topic, topic): ranges for topic, ranges in member.revoking.items()},
        since_ms=member.phase_since_ms if unrevoked else since_ms,
        fenced_at_ms=(member.phase_since_ms or 0) + member.rebalance_timeout_ms if timed else None,
    )
