"""The sums from which a cause is concluded: from a sign and the facts of the group to a sentence, or to nothing.

A conclusion has its evidence, whether it is proven, and how it follows. Nothing is concluded where a number is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupreplay.state import phrases
from groupreplay.state.phrases import counted, first_of, milliseconds, safe_text
from groupreplay.timeline.diagnosis import (
    BlamedMember,
    Certainty,
    LinkEvidence,
    Parts,
    blamed_member,
    certainty_of,
    evidence_of,
)
from groupreplay.timeline.document import SlotLane
from groupreplay.timeline.episodes import (
    COMPLETED,
    SLOW_LEADER,
    Episode,
    VerdictFacts,
    departure_at_end,
    failed_generations,
)
from groupreplay.timeline.event_reading import ReadEvent, whole, words
from groupreplay.timeline.facts import FAILED_GENERATIONS, SAME_MOMENT_MS, is_too_slow, may_have_been_closed

#: Shorter silences are ordinary pauses between two commits.
_LEAST_SILENCE_MS: Final = 10_000
#: A member that came back so often in one episode is restarted by something.
_RETURNS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A cause as it was found: the members that it is about, its sentence, and how it follows."""

    parts: Parts
    members: tuple[BlamedMember, ...] = ()
    certainty: Certainty = "proven"
    how: str = ""
    evidence: LinkEvidence = field(default_factory=LinkEvidence)


Sum = Callable[[Episode, VerdictFacts], "Conclusion | None"]


def who(members: Sequence[BlamedMember]) -> str:
    """The members as a person knows them, each with its host."""
    return first_of(members, _name)


def _name(member: BlamedMember) -> str:
    place = {"client_id": member.client_id, "client_host": member.client_host}
    if member.instance_id is None:
        return phrases.member(place)
    host = f" on {safe_text(member.client_host)}" if member.client_host else ""
    return phrases.member({"instance_id": member.instance_id}) + host


# -- rebalances


def waits(reason: str, text: str, several: str = "") -> Sum:
    """A rebalance that waits for this, as the log shows; ``several``: the text about more than one member."""

    def concludes(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
        if episode.event.text("reason") != reason:
            return None
        # The reason of the event is that of the longest wait; others may wait for something else.
        listed = (one for one in episode.event.mappings("blockers") if one.get("reason", reason) == reason)
        blockers = tuple(filter(None, map(blamed_member, listed)))
        sentence = (several if len(blockers) > 1 else text).format(who(blockers))
        return Conclusion(parts=(sentence,), members=blockers, evidence=evidence_of([episode.event]))

    return concludes


def syncs_fail(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """Generations that were begun and never completed, more of them than were."""
    failed, turns = failed_generations(episode, facts)
    completed = facts.named(COMPLETED, episode.began_ms, episode.end_ms(facts) + SAME_MOMENT_MS)
    if facts.group_type != "classic" or failed < FAILED_GENERATIONS or failed <= len(completed):
        return None
    how = (
        "the coordinator counts a generation when its join phase ends and writes it when the leader's assignment "
        "is stored; the numbers between two records were never stored"
    )
    if not completed:
        how = f"the answers of the brokers went from CompletingRebalance back to PreparingRebalance {failed} times"
    return Conclusion(
        parts=(
            f"{counted(failed, 'generation')} were begun and never completed: members join, and the assignment of the "
            "leader is not stored",
        ),
        how=how,
        evidence=evidence_of([*completed, episode.event], turns),
    )


def leader_is_slow(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """The leader of a rebalance that is over, or of one that waits for its assignment."""
    event = episode.event
    if episode.sign == SLOW_LEADER:
        times = milliseconds(event.number("sync_ms"))
        return Conclusion(
            parts=(f"The leader, {who(episode.members)}, needed {times} for its assignment",),
            members=episode.members,
            certainty=certainty_of(event),
            how="from the end of the join phase, which the record has, to the time of the record",
            evidence=evidence_of([event]),
        )
    if event.text("reason") != "not_synced" or not episode.members:
        return None
    return Conclusion(
        parts=(f"The leader, {who(episode.members)}, has not sent its assignment",),
        members=episode.members,
        certainty="inferred",
        how="all members have joined, as the brokers answered, and the leader of the last generation is in the group",
        evidence=evidence_of([event], _probes(episode, facts)),
    )


def session_ended(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """The member that a rebalance waited for sent no heartbeat, either."""
    left = departure_at_end(episode, episode.members, facts)
    if left is None or left.text("reason") != "session_timeout":
        return None
    return ended_without_a_word(left, episode.members)


def absent(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """The rebalance waits for a static member of which the brokers see no process."""
    suspects = [
        suspect
        for suspect in episode.event.mappings("suspects")
        if suspect.get("reason") == "static_member_absent"
    ]
    members = tuple(filter(None, map(blamed_member, suspects[:1])))
    if not members or members[0].name not in {member.name for member in episode.members}:
        return None
    return Conclusion(
        parts=(f"{who(members)} is not there: its process has ended and has not come back",),
        members=members,
        certainty="inferred",
        how="it is in the last generation, and not among the members that the brokers show in this rebalance",
        evidence=evidence_of([episode.event], _probes(episode, facts)),
    )


def silent_before(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """The member had committed nothing for longer than usual when the rebalance began, and others had."""
    suspect = _suspect(episode)
    last_ms = None if suspect is None else whole(suspect.get("last_commit_ms"))
    if last_ms is None or not episode.members or last_ms >= episode.began_ms:
        return None
    usual_ms, silent_ms = facts.usual_gap_ms(), episode.began_ms - last_ms
    if not usual_ms or silent_ms <= max(2 * usual_ms, _LEAST_SILENCE_MS):
        return None
    if not len(facts.commits.within(last_ms + usual_ms, episode.since_ms).at_ms):
        return None
    return Conclusion(
        parts=(
            f"{who(episode.members)} had stopped before the rebalance began: it committed last at ",
            last_ms,
            f", {milliseconds(silent_ms)} before",
        ),
        members=episode.members,
        certainty="inferred",
        how=f"its last commit, the begin of the rebalance at the earliest, and the usual time between two commits, "
        f"{milliseconds(usual_ms)}; others committed meanwhile",
        evidence=evidence_of([episode.event], _probes(episode, facts)),
    )


def _suspect(episode: Episode) -> Mapping[str, Any] | None:
    """The suspect that is the member of the episode."""
    names = {member.name for member in episode.members}
    suspects = ((suspect, blamed_member(suspect)) for suspect in episode.event.mappings("suspects"))
    return next((suspect for suspect, member in suspects if member and member.name in names), None)


def did_not_rejoin(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """The likeliest suspect of a rebalance that waits for members to rejoin, or who was removed at its end."""
    if not episode.members or episode.event.text("reason") != "not_joined":
        return None
    how = "the first of the suspects, by their commits; members at work commit when they learn of a rebalance"
    left = None if _suspect(episode) else departure_at_end(episode, episode.members, facts)
    if left is not None:
        how = "it was removed when the rebalance ended, because it had not rejoined"
    return Conclusion(
        parts=(f"{who(episode.members)} did not come back to poll() when the rebalance began",),
        members=episode.members,
        certainty="inferred",
        how=how,
        evidence=evidence_of([episode.event, *([left] if left else [])], _probes(episode, facts)),
    )


def removed_again(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """A slot that was gone several times after its rebalance timeout."""
    event, places = episode.event, set(map(_place, episode.members))
    # The condition counts those that began it.
    later = [
        left
        for left in facts.named("member.left", event.time_ms + 1, episode.end_ms(facts))
        if is_too_slow(left) and (member := blamed_member(left.data)) is not None and _place(member) in places
    ]
    times = counted(len(event.items("dropped_ms")) + len(later), "time")
    timeout = milliseconds(event.number("rebalance_timeout_ms"))
    return _of_members(
        episode,
        f"{{}} needs longer between two calls of poll() than its {timeout}: it was gone {times}",
        "inferred",
        how="each time about so long after its last sign of life: its client gave up, or the broker removed it",
    )


# -- members


def left_by(reason: str, conclude: Callable[[ReadEvent, tuple[BlamedMember, ...]], Conclusion]) -> Sum:
    """A member that is gone for this reason, as the times leave it."""

    def concludes(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
        return conclude(episode.event, episode.members) if episode.event.text("reason") == reason else None

    return concludes


def _departure(event: ReadEvent, members: tuple[BlamedMember, ...], text: str) -> Conclusion:
    likely = next(event.mappings("candidates"), {})
    return Conclusion(
        parts=(text.format(who(members)),),
        members=members,
        certainty=certainty_of(event),
        how=words(likely.get("words")) + phrases.assumed(event.data),
        evidence=evidence_of([event]),
    )


def ended_without_a_word(event: ReadEvent, members: tuple[BlamedMember, ...]) -> Conclusion:
    """A member whose session ended."""
    text = "{} sent no heartbeat until its session ended: its process was killed or frozen, or cut off"
    if may_have_been_closed(event):
        text += "; or it was closed, after which a static member does not leave"
    return _departure(event, members, text)


def gave_up(event: ReadEvent, members: tuple[BlamedMember, ...]) -> Conclusion:
    """A member whose client left by itself."""
    return _departure(
        event,
        members,
        "{} did not call poll() for max.poll.interval.ms, so its client left the group by itself",
    )


def missed_the_rebalance(event: ReadEvent, members: tuple[BlamedMember, ...]) -> Conclusion:
    """A member that the coordinator removed at the end of a join phase."""
    return _departure(event, members, "{} did not rejoin within the rebalance timeout")


def _of_members(
    episode: Episode, text: str, certainty: Certainty | None = None, how: str = ""
) -> Conclusion | None:
    """What an event says of its own members."""
    if not episode.members:
        return None
    return Conclusion(
        parts=(text.format(who(episode.members)),),
        members=episode.members,
        certainty=certainty or certainty_of(episode.event),
        how=how,
        evidence=evidence_of([episode.event]),
    )


def restarts(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """A slot whose process starts again and again."""
    told = len(episode.event.data.get("returned_ms") or episode.event.data.get("restarted_ms") or ())
    # The condition counts those that began it; the slot has had a member more for each one since.
    times = max(told, *(_came_back(member, episode, facts) for member in episode.members), 0)
    came, how = f"{{}} came back {counted(times, 'time')} under a new member id", "the slot is the same"
    if facts.group_type == "classic" and any(member.instance_id is not None for member in episode.members):
        # ClassicGroup.replaceStaticMember keeps the client id and the host of the first process.
        why = "its process starts again and again, or several processes have this instance id"
        how = "of the process that replaces a static member without a rebalance no record has the client id or the host"
        return _of_members(episode, f"{came}: {why}", how=how)
    how = f"the member id is new at each start of a client; {how}"
    return _of_members(episode, f"{came}: its process starts again and again", how=how)


def _came_back(member: BlamedMember, episode: Episode, facts: VerdictFacts) -> int:
    """How many members have come in the place of this one during the episode.

    If one comes before the member in front of it is removed, it has another lane.
    """
    places = {
        _place(lane)
        for lane in facts.slots
        if any(tenure.member_id == member.member_id for tenure in lane.tenures)
    }
    end_ms = episode.end_ms(facts)
    tenures = [tenure for lane in facts.slots if _place(lane) in places for tenure in lane.tenures]
    return sum(episode.began_ms <= tenure.since_ms <= end_ms for tenure in tenures)


def _place(member: BlamedMember | SlotLane) -> tuple[str, ...]:
    """By what the members of a slot are recognised."""
    if member.instance_id is not None:
        return (member.instance_id,)
    return member.client_id, member.client_host


def one_slot_returns(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """A storm in which most joins are those of one slot."""
    joined = facts.named("member.joined", episode.began_ms, episode.end_ms(facts))
    places = [tuple(map(event.text, ("instance_id", "client_id", "client_host"))) for event in joined]
    if not places:
        return None
    ((place, times),) = Counter(places).most_common(1)
    mine = [event for event, its_place in zip(joined, places, strict=True) if its_place == place]
    member = blamed_member(mine[-1].data)
    if times < _RETURNS or 2 * times < len(joined) or member is None:
        return None
    return Conclusion(
        parts=(f"{who((member,))} came back {counted(times, 'time')}: its process starts again and again",),
        members=(member,),
        certainty="inferred",
        how=f"{times} of {len(joined)} joins in this time are those of one client id and host",
        evidence=evidence_of(mine),
    )


def shares_an_id(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """An instance id that went from one place to another and back, again and again."""
    instance_id = episode.event.text("instance_id")
    places = sorted({safe_text(words(place)) for place in episode.event.items("places")})
    member = BlamedMember(
        name=instance_id, member_id="", client_id="", client_host="", instance_id=instance_id
    )
    return Conclusion(
        parts=(f"Two processes use the instance id {safe_text(instance_id)}: {' and '.join(places)}",),
        members=(member,),
        certainty=certainty_of(episode.event),
        how="the id went from one place to another, back, and away again",
        evidence=evidence_of([episode.event]),
    )


def subscriptions_change(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """A storm whose rebalances begin with another subscription of a member."""
    completed = facts.named(COMPLETED, episode.began_ms, episode.end_ms(facts))
    triggered = [event for event in completed if event.text("trigger") == "subscription_changed"]
    updated = [
        event
        for event in facts.named("member.updated", episode.began_ms, episode.end_ms(facts))
        if "topics" in event.items("changed")
    ]
    if len(updated) < _RETURNS or 2 * len(triggered) < len(completed):
        return None
    by_name = Counter(member.name for event in updated if (member := blamed_member(event.data)))
    members = {
        member.name: member
        for event in updated
        if (member := blamed_member(event.data)) and by_name[member.name] >= _RETURNS
    }
    if not members:
        return None
    blamed = tuple(members.values())
    return Conclusion(
        parts=(f"{who(blamed)} changes its subscription again and again, and each change is a rebalance",),
        members=blamed,
        how=f"{len(triggered)} of {counted(len(completed), 'rebalance')} began with another subscription",
        evidence=evidence_of([*triggered[-3:], *updated[-3:]]),
    )


def _probes(episode: Episode, facts: VerdictFacts) -> list[int]:
    """The first and the last answer about the group in this time."""
    times = [
        one.answered_ms for one in facts.answers if episode.began_ms <= one.asked_ms <= episode.end_ms(facts)
    ]
    return list(dict.fromkeys([*times[:1], *times[-1:]]))
