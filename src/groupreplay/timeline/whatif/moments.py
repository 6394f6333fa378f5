"""What the clients did, from what is recorded of them, with bounds for the times that no record has.

A classic generation shows when its join phase ended, not when it began: members notice a rebalance with their next
heartbeat, so that it began up to one interval before; earlier if the commits before each join show it. In a consumer
group the record of each member has the time of its change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from groupreplay.state.replay.departures import TOO_SLOW
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.whatif.changes import Generation, RecordedMember, Replacement, replaced
from groupreplay.timeline.whatif.lineages import Lineages, regular_commit_ms
from groupreplay.timeline.whatif.recorded import Recorded

#: A silence up to so long is no wait for a member.
_NO_WAIT_MS: Final = 1_500
#: A member that commits nothing for so many usual times, and for so long, has hung.
_HANG_OF_USUAL: Final = 3
_SHORTEST_HANG_MS: Final = 15_000
#: A member without a commit for so many usual times at the end of the history is silent then.
_SILENT_OF_USUAL: Final = 2
#: A group of which half of the rebalances follow a commit within this share of the usual time commits before joining.
_BEFORE_JOINING: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A client that was a member, and is none of the next generation. ``reason``: as ``member.left`` has it.

    ``last_ms``: the last commit of its partitions; None: it had none. ``closed``: it was made at its close.
    """

    client: int
    reason: str
    last_ms: int | None
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A client that becomes a member; ``resumes``: its process is there, and had hung.

    ``commit_ms``: one of its regular commits, which follow its start at the usual time; None: it has none.
    """

    client: int
    resumes: bool = False
    commit_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One change of the members: who left and who came. ``joined_ms``: the end of the join phase.

    ``stays``: members before and after. ``waited_ms``: the rebalance waited so long for a member, at least.
    """

    joined_ms: int
    stays: int
    waited_ms: int
    departures: tuple[Departure, ...]
    arrivals: tuple[Arrival, ...]

    @property
    def is_first(self) -> bool:
        """Whether the group was empty."""
        return not self.stays and not self.departures


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRestart:
    """A static member that was away, and back before its session ended; ``closed`` as of ``Departure``."""

    client: int
    last_ms: int | None
    back_ms: int
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHang:
    """A member that did not poll: its last commit before, and its first one after.

    ``joins``: not a commit was next, but the end of a join phase that had waited for it.
    """

    client: int
    last_ms: int
    next_ms: int
    joins: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A member that was silent when the history ended, since its last commit; ``hangs``: longer than its session."""

    client: int
    last_ms: int
    hangs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """All that the clients of a history did. ``first``: the clients of the first generation.

    ``before_joining``: they commit before each join.
    """

    first: tuple[Arrival, ...]
    turns: tuple[Turn, ...]
    restarts: tuple[StaticRestart, ...]
    hangs: tuple[ClientHang, ...]
    silences: tuple[Silence, ...]
    before_joining: bool
    lineages: Lineages


def moments(recorded: Recorded) -> Moments:
    """What the clients did."""
    lineages = Lineages.of(recorded)
    before_joining = _commits_before_joining(recorded)
    reader = _Reader(recorded, lineages, before_joining, _commits_at_close(recorded))
    turns, restarts, waiting = reader.read()
    return Moments(
        first=tuple(sorted(reader.first(), key=lambda arrival: arrival.client)),
        turns=tuple(turns),
        restarts=tuple(restarts),
        hangs=(*waiting, *_hangs(recorded, lineages)),
        silences=tuple(_silences(recorded, lineages)),
        before_joining=before_joining,
        lineages=lineages,
    )


def _commits_before_joining(recorded: Recorded) -> bool:
    """Whether they do, by the rebalances that waited for nobody; without any it is assumed, as it is the default."""
    silences = [
        after.silent_ms
        for before, after in pairwise(recorded.generations)
        if after.silent_ms is not None and not _may_have_waited(recorded, before, after)
    ]
    return not silences or median(silences) <= _BEFORE_JOINING * recorded.commits.interval_ms


def _may_have_waited(recorded: Recorded, before: Generation, after: Generation) -> bool:
    """Whether a member is gone that had been silent for as long as a session."""
    return any(
        after.joined_ms - (recorded.commits.last_ms(member.places, after.joined_ms) or 0)
        >= (member.session_timeout_ms or 0) - _NO_WAIT_MS
        for member_id, member in before.members.items()
        if member_id not in after.members
    )


def _commits_at_close(recorded: Recorded) -> bool:
    """Whether they do: the last commits of half of the members that went came before the usual time.

    One of them in twenty comes at the usual time by chance.
    """
    members, early = dict[str, RecordedMember](), list[bool]()
    for change in recorded.changes:
        if isinstance(change, Replacement):
            gone = [members[change.old_member_id]] if change.old_member_id in members else []
            members, at_ms = replaced(members, change.old_member_id, change.new_member_id), change.at_ms
        else:
            gone = [
                member
                for member_id, member in members.items()
                if member_id not in change.members
                and recorded.reasons.get(member_id, "unknown") in ("left", "unknown")
            ]
            members, at_ms = dict(change.members), change.joined_ms
        lasts = (recorded.commits.last_two(member.places, at_ms) for member in gone)
        early += [recorded.commits.is_early(each) for each in lasts if _is_usual(recorded, each, at_ms)]
    return 2 * sum(early) > len(early)


def _is_usual(recorded: Recorded, lasts: tuple[int, ...], until_ms: int) -> bool:
    """Whether no regular commit is missing after the last one."""
    return bool(lasts) and until_ms - lasts[-1] < recorded.commits.interval_ms


@dataclass(slots=True)
class _Reader:
    recorded: Recorded
    lineages: Lineages
    before_joining: bool
    at_close: bool

    def read(self) -> tuple[list[Turn], list[StaticRestart], list[ClientHang]]:
        """The changes after the first generation, and the members that rebalances waited for."""
        turns, restarts, hangs = list[Turn](), list[StaticRestart](), list[ClientHang]()
        hanging, members = set[int](), dict(self.recorded.generations[0].members)
        for change in self.recorded.changes[1:]:
            if isinstance(change, Replacement):
                if (member := members.pop(change.old_member_id, None)) is not None:
                    client = self.lineages.client_of[change.new_member_id]
                    last_ms, closed = self._last(member, change.at_ms)
                    # It was stopped in order (docs/whatif.md), so that its last commit is that of its close, however
                    # long it was away: by chance one of them comes at the usual time.
                    closed = closed or (self.at_close and last_ms is not None)
                    restarts.append(
                        StaticRestart(client=client, last_ms=last_ms, back_ms=change.at_ms, closed=closed)
                    )
                    members[change.new_member_id] = member
                continue
            turn = self._turn(members, change, hanging)
            turns += [] if turn is None else [turn]
            hang = self._waiting(members, change, turn)
            hangs += [] if hang is None else [hang]
            members = dict(change.members)
        return turns, restarts, hangs

    def first(self) -> Iterator[Arrival]:
        """The clients of the first generation."""
        generation = self.recorded.generations[0]
        for member_id in generation.members:
            client = self.lineages.client_of[member_id]
            yield Arrival(
                client=client, commit_ms=regular_commit_ms(self.recorded, member_id, generation.at_ms)
            )

    def _turn(
        self, members: Mapping[str, RecordedMember], after: Generation, hanging: set[int]
    ) -> Turn | None:
        """The change from these members to a generation; None: it has the same ones.

        ``hanging``: clients that left because they hung, and have not come back yet.
        """
        waited_ms = self._waited_ms(after)
        departures = tuple(
            self._departure(member, after, waited_ms)
            for member_id, member in members.items()
            if member_id not in after.members
        )
        hanging |= {each.client for each in departures if each.reason in TOO_SLOW}
        arrivals = list[Arrival]()
        for member_id in after.members.keys() - members.keys():
            client = self.lineages.client_of[member_id]
            commit_ms = regular_commit_ms(self.recorded, member_id, after.at_ms)
            arrivals.append(Arrival(client=client, resumes=client in hanging, commit_ms=commit_ms))
            hanging.discard(client)
        if not departures and not arrivals:
            return None
        return Turn(
            joined_ms=after.joined_ms,
            stays=len(members.keys() & after.members.keys()),
            waited_ms=waited_ms,
            departures=departures,
            arrivals=tuple(sorted(arrivals, key=lambda arrival: arrival.client)),
        )

    def _departure(self, member: RecordedMember, after: Generation, waited_ms: int) -> Departure:
        """A member that left; one that was started again within a rebalance has no reason of its own."""
        last_ms, closed = self._last(member, after.joined_ms)
        reason = self.recorded.reasons.get(member.member_id, "unknown")
        if waited_ms and reason in ("unknown", "left"):
            reason = self._waited_for(member, after, waited_ms, last_ms) or reason
        if reason == "unknown" and self.recorded.is_consumer:
            reason = self._removed(member, after, last_ms)
        return Departure(
            client=self.lineages.client_of[member.member_id],
            reason="left" if reason == "unknown" else reason,
            last_ms=last_ms,
            closed=closed and reason in ("left", "unknown"),
        )

    def _last(self, member: RecordedMember, until_ms: int) -> tuple[int | None, bool]:
        """Its last commit, and whether it was made at its close, as of clients that commit automatically."""
        lasts = self.recorded.commits.last_two(member.places, until_ms)
        if not lasts:
            return None, False
        is_usual = _is_usual(self.recorded, lasts, until_ms)
        return lasts[-1], self.recorded.commits.is_early(lasts) or (self.at_close and is_usual)

    def _waited_for(
        self, member: RecordedMember, after: Generation, waited_ms: int, last_ms: int | None
    ) -> str | None:
        """The timeout by which a member left that a rebalance waited for; None: it waited for another one."""
        interval_ms = self.recorded.commits.interval_ms
        if last_ms is None:
            return "session_timeout"
        if last_ms > after.joined_ms - waited_ms:
            return None
        # The end of a rebalance begins its session anew.
        last_ms = max(last_ms, self._assigned_ms(after))
        timeouts = {"session_timeout": member.session_timeout_ms, "poll_timeout": member.rebalance_timeout_ms}
        for reason, timeout_ms in timeouts.items():
            silent_ms = after.joined_ms - (timeout_ms or 0) - last_ms
            if timeout_ms is not None and -_NO_WAIT_MS <= silent_ms <= interval_ms + _NO_WAIT_MS:
                return reason
        client = self.lineages.client_of[member.member_id]
        is_back = any(self.lineages.client_of[each] == client for each in after.members)
        return "session_timeout" if is_back else "rebalance_timeout"

    def _removed(self, member: RecordedMember, after: Generation, last_ms: int | None) -> str:
        """Why a member of a consumer group is gone that may have been silent: by the timeout that its silence fits."""
        interval_ms, timeout_ms = self.recorded.commits.interval_ms, member.rebalance_timeout_ms
        silent_ms = 0 if last_ms is None else after.joined_ms - last_ms
        if silent_ms <= _SILENT_OF_USUAL * interval_ms:
            return "left"
        over_ms = silent_ms - (timeout_ms or 0)
        gave_up = timeout_ms is not None and -_NO_WAIT_MS <= over_ms <= interval_ms + _NO_WAIT_MS
        return "poll_timeout" if gave_up else "session_timeout"

    def _assigned_ms(self, after: Generation) -> int:
        """The assignment of the generation before another one."""
        return max((each.at_ms for each in self.recorded.generations if each.at_ms < after.at_ms), default=0)

    def _waiting(
        self, members: Mapping[str, RecordedMember], after: Generation, turn: Turn | None
    ) -> ClientHang | None:
        """The member that a rebalance waited for, which stayed: the first one that committed nothing more."""
        gone = () if turn is None else turn.departures
        if not self._waited_ms(after) or any(each.reason != "left" for each in gone):
            return None
        lasts = [
            (last_ms, self.lineages.client_of[member_id])
            for member_id, member in members.items()
            if member_id in after.members
            and (last_ms := self.recorded.commits.last_ms(member.places, after.joined_ms)) is not None
        ]
        if not lasts:
            return None
        last_ms, client = min(lasts)
        return ClientHang(client=client, last_ms=last_ms, next_ms=after.joined_ms, joins=True)

    def _waited_ms(self, after: Generation) -> int:
        """How long the rebalance waited: without commits, which members make before they join."""
        silent_ms = after.silent_ms or 0
        slack_ms = _NO_WAIT_MS if self.before_joining else 2 * self.recorded.commits.interval_ms
        return silent_ms if silent_ms > slack_ms else 0


def _hangs(recorded: Recorded, lineages: Lineages) -> Iterator[ClientHang]:
    """Members that committed nothing for long between two rebalances, although they stayed."""
    least_ms = max(_HANG_OF_USUAL * recorded.commits.interval_ms, _SHORTEST_HANG_MS)
    generations = [change for change in recorded.changes if isinstance(change, Generation)]
    for number, generation in enumerate(generations):
        after = generations[number + 1] if number + 1 < len(generations) else None
        until_ms = recorded.end_ms if after is None else after.joined_ms - (after.silent_ms or 0)
        for member_id, member in generation.members.items():
            if after is None or member_id in after.members:
                client, span = lineages.client_of[member_id], (generation.at_ms, until_ms)
                yield from _hangs_of(recorded.commits, client, member.places, span, least_ms)


def _silences(recorded: Recorded, lineages: Lineages) -> Iterator[Silence]:
    """The last members whose next commits are missing at the end, unless all are silent."""
    last = recorded.changes[-1]
    members = recorded.generations[-1].members if isinstance(last, Replacement) else last.members
    lasts = {
        member: last_ms
        for member in members.values()
        if (last_ms := recorded.commits.last_ms(member.places, recorded.end_ms)) is not None
        and member.member_id in lineages.client_of
    }
    least_ms = _SILENT_OF_USUAL * recorded.commits.interval_ms
    if all(recorded.end_ms - last_ms > least_ms for last_ms in lasts.values()):
        return
    for member, last_ms in lasts.items():
        silent_ms = recorded.end_ms - max(last_ms, last.at_ms)
        if silent_ms > least_ms:
            session_ms = member.session_timeout_ms or 0
            client = lineages.client_of[member.member_id]
            yield Silence(client=client, last_ms=last_ms, hangs=silent_ms > session_ms)


def _hangs_of(
    commits: CommitTimes, client: int, places: frozenset[Place], span: tuple[int, int], least_ms: int
) -> Iterator[ClientHang]:
    since_ms, until_ms = span
    for last_ms, next_ms in pairwise(commits.between(places, since_ms, until_ms)):
        if next_ms - last_ms > least_ms:
            yield ClientHang(client=client, last_ms=last_ms, next_ms=next_ms)
