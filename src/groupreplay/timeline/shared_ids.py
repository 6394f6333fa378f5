"""Two processes with one instance id, told from one that starts again, by the commits before each takeover.

A coordinator keeps the client id and the host of a classic group's static member when another process takes its place
without a rebalance (``ClassicGroup.replaceStaticMember``), so no record names the second process. But a process that
works commits until the very moment at which the coordinator fences it, and one that has died cannot commit: it is
silent for as long as its end, its start and its join take. KIP-848 refuses an instance id whose holder has not left
(UNRELEASED_INSTANCE_ID): there nobody is fenced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from groupreplay.state.phrases import counted, milliseconds, safe_text
from groupreplay.state.snapshot.partitions import from_ranges
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.conclusions import Conclusion
from groupreplay.timeline.diagnosis import evidence_of
from groupreplay.timeline.document import SlotLane
from groupreplay.timeline.episodes import COMPLETED, Episode, VerdictFacts
from groupreplay.timeline.event_reading import ReadEvent

#: Fewer takeovers show no habit.
_LEAST_TAKEOVERS: Final = 3
#: Assumed: in less time no process ends, is started by its supervisor, finds the coordinator and joins. A small
#: program that was started at once, on a quiet machine, was back after less than 250 ms.
RESTART_MS: Final = 50
#: A process that works commits at its interval, give or take this share.
_TOLERANCE: Final = 0.25
#: So many takeovers at least, because a broker or a machine that stands still delays commits of both.
_AT_WORK: Final = 0.75


@dataclass(frozen=True, slots=True)
class _Takeover:
    """When the id changed hands, and how long its holder, which had committed, had been silent."""

    at_ms: int
    silent_ms: int
    event: ReadEvent | None


def fenced_at_work(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """Processes of one instance id that each worked until another one took it.

    Most had committed within the usual interval, and one so shortly before that it cannot have been started again.
    Where all are that short, a client that is closed and made anew within its process looks the same: nothing is
    concluded.
    """
    lanes = {member.instance_id: member for member in episode.members if member.instance_id is not None}
    if facts.group_type != "classic" or len(lanes) != 1:
        return None
    ((instance_id, member),) = lanes.items()
    lane = next((one for one in facts.slots if one.instance_id == instance_id), None)
    takeovers = [] if lane is None else list(_takeovers(lane, episode, facts))
    usual_ms = facts.usual_gap_ms()
    at_work = [takeover for takeover in takeovers if takeover.silent_ms <= usual_ms * (1 + _TOLERANCE)]
    if len(at_work) < max(_LEAST_TAKEOVERS, _AT_WORK * len(takeovers)):
        return None
    silent_ms = [takeover.silent_ms for takeover in at_work]
    if not min(silent_ms) < RESTART_MS <= max(silent_ms):
        return None
    return Conclusion(
        parts=(
            f"Two processes use the instance id {safe_text(instance_id)} and fence each other: "
            f"{_times(len(at_work), len(takeovers))} the former one still worked when another one took its place",
        ),
        members=(member,),
        certainty="assumed",
        how=f"the former one had committed {milliseconds(min(silent_ms))} .. {milliseconds(max(silent_ms))} before, as "
        f"is usual ({milliseconds(usual_ms)}); one process would have ended, started again and joined within "
        f"{milliseconds(min(silent_ms))} (assumed: it needs {milliseconds(RESTART_MS)} at least). No record has the "
        "client id or the host of the second one",
        evidence=evidence_of(
            [episode.event, *(one.event for one in at_work if one.event is not None)],
        ),
    )


def _times(part: int, whole: int) -> str:
    return counted(whole, "time") if part == whole else f"{part} of {counted(whole, 'time')}"


def _takeovers(lane: SlotLane, episode: Episode, facts: VerdictFacts) -> Iterator[_Takeover]:
    """Those in the time of an episode in which the id passed from a process that had committed to another one."""
    commits = CommitTimes.of(facts.commits)
    replaced = {
        event.time_ms: event
        for event in facts.named("static.replaced", facts.since_ms, facts.until_ms)
        if event.text("instance_id") == lane.instance_id
    }
    for former, holder in pairwise(lane.tenures):
        at_ms = holder.since_ms
        is_takeover = former.until_ms == at_ms and former.reason is None
        if not is_takeover or not episode.began_ms <= at_ms <= episode.end_ms(facts):
            continue
        last_ms = commits.last_ms(_places(lane, at_ms, facts), at_ms)
        if last_ms is not None and last_ms > former.since_ms:
            yield _Takeover(at_ms, at_ms - last_ms, replaced.get(at_ms))


def _places(lane: SlotLane, at_ms: int, facts: VerdictFacts) -> set[Place]:
    """What the slot held before a moment: a takeover without a rebalance leaves the assignment as it is."""
    pictures = [
        picture
        for event in facts.events
        if event.name == COMPLETED and event.time_ms < at_ms
        for picture in event.mappings("members")
        if picture.get("instance_id") == lane.instance_id
    ]
    held = pictures[-1].get("partitions") if pictures else None
    return {(topic, number) for topic, ranges in (held or {}).items() for number in from_ranges(ranges)}
