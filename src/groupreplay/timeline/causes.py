"""The causes that a diagnosis tells apart: one table. A cause is stated where its sum holds, and never as a guess.

Each row has the signs under which it is looked for, the sum that proves or infers it, the signs that it explains beside
its own, and what to do first. Rows are in the order in which they are tried; the first whose sum holds is the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.events.event import Severity
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.timeline.broker_conclusions import (
    coordinator_is_away,
    coordinator_moved,
    deleted,
    nobody_commits,
    says,
    set_by_hand,
    transaction_is_open,
)
from groupreplay.timeline.conclusions import (
    Conclusion,
    Sum,
    absent,
    did_not_rejoin,
    ended_without_a_word,
    gave_up,
    leader_is_slow,
    left_by,
    missed_the_rebalance,
    one_slot_returns,
    removed_again,
    restarts,
    session_ended,
    shares_an_id,
    silent_before,
    subscriptions_change,
    syncs_fail,
    waits,
)
from groupreplay.timeline.episodes import FAILED_SYNCS, MEMBER_LEFT, SLOW_LEADER, Episode, VerdictFacts
from groupreplay.timeline.shared_ids import fenced_at_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A row of the table. ``first`` and ``command`` have places for what ``chain.first_step`` knows.

    Conditions below the severity ``least`` are observations, and have no cause.
    """

    name: str
    signs: frozenset[str]
    concludes: Sum
    first: str
    command: str
    section: str
    explains: frozenset[str] = frozenset()
    least: Severity = Severity.INFO


_MEMBERS: Final = "groupreplay describe --bootstrap-server HOST:PORT --group {group} --members --verbose"
_HISTORY: Final = "groupreplay describe --bootstrap-server HOST:PORT --group {group} --history"
_COORDINATOR: Final = "groupreplay coordinator {group} --bootstrap-server HOST:PORT"
_OFFSETS: Final = "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --describe --group {group}"
_PRODUCERS: Final = (
    f"kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic {OFFSETS_TOPIC} "
    "--partition {log_partition}"
)
_LOST: Final = "groupreplay events --bootstrap-server HOST:PORT --group {group} --type {sign}"
_DUMP: Final = "Take a thread dump of {who} (jstack); restart what does not go on"
_IS_THERE: Final = (
    "See whether there is still a process of {who}: out of memory, a stopped container, a long pause"
)
_RESTARTED: Final = "Look at the restarts of the process of {who}, and at its last lines and exit code"
_STUCK: Final = frozenset({"rebalance.stuck", "rebalance.slow"})
_STANDSTILL: Final = frozenset(
    {
        *_STUCK,
        "commits.paused",
        "rebalance.suspected",
        "owner.silent",
        MEMBER_LEFT,
        FAILED_SYNCS,
        "rebalance.storm",
    }
)
_RESTARTS: Final = frozenset({"member.flapping", "static.crash_loop"})
_UNREST: Final = frozenset({*_STANDSTILL, *_RESTARTS, "leader.flapping", "rebalance.timeouts"})

#: All causes, in the order in which they are tried.
CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        name="sync_fails",
        signs=frozenset({*_STUCK, "rebalance.storm", FAILED_SYNCS}),
        concludes=syncs_fail,
        first="Look at the log of the coordinator: it says why it cannot store the assignment (too few in-sync "
        "replicas, a record that is too large)",
        command=_COORDINATOR,
        section="rebalance-stuck",
        explains=_UNREST,
    ),
    Cause(
        name="not_revoked",
        signs=_STUCK,
        concludes=waits(
            "not_revoked",
            "{} has not given up partitions that others wait for",
            "{} have not given up partitions that others wait for",
        ),
        first=_DUMP,
        command=_MEMBERS,
        section="rebalance-stuck",
        explains=_STANDSTILL,
    ),
    Cause(
        name="not_heartbeating",
        signs=_STUCK,
        concludes=waits(
            "not_heartbeating",
            "{} sends no heartbeat, and the coordinator does not remove it",
            "{} send no heartbeat, and the coordinator does not remove them",
        ),
        first="Move the coordinator: a restart of its broker, or another leader of the group's partition",
        command=_COORDINATOR,
        section="rebalance-stuck",
        explains=_STANDSTILL,
    ),
    Cause(
        name="no_assignment",
        signs=_STUCK,
        concludes=waits("not_assigned", "The coordinator has made no target assignment"),
        first="Look at the log of the coordinator for an assignor or a regular expression that fails, and for topics "
        "that were deleted",
        command=_COORDINATOR,
        section="rebalance-stuck",
        explains=_STANDSTILL,
    ),
    Cause(
        name="process_lost",
        signs=frozenset({"rebalance.stuck"}),
        concludes=session_ended,
        first=_IS_THERE,
        command=_MEMBERS,
        section="member-left",
        explains=_STANDSTILL,
    ),
    Cause(
        name="process_lost",
        signs=_STUCK,
        concludes=absent,
        first="Start the process of {who} again, or remove the member",
        command=_MEMBERS,
        section="rebalance-stuck",
        explains=_STANDSTILL,
        least=Severity.WARN,
    ),
    Cause(
        name="slow_leader",
        signs=frozenset({*_STUCK, SLOW_LEADER}),
        concludes=leader_is_slow,
        first="Look at the log and the assignor of {who}: metadata requests, a custom assignor, many partitions",
        command=_MEMBERS,
        section="rebalance-stuck",
        explains=_STUCK | {"commits.paused"},
    ),
    Cause(
        name="silent_member",
        signs=_STUCK,
        concludes=silent_before,
        first=_DUMP,
        command=_MEMBERS,
        section="rebalance-stuck",
        explains=_STANDSTILL,
        least=Severity.WARN,
    ),
    Cause(
        name="slow_rejoin",
        signs=frozenset({"rebalance.timeouts"}),
        concludes=removed_again,
        first="Lower max.poll.records of {who}, or raise max.poll.interval.ms above its longest work",
        command=_HISTORY,
        section="rebalance-timeouts",
        explains=_UNREST,
    ),
    Cause(
        name="shared_instance_id",
        signs=frozenset({"static.conflict"}),
        concludes=shares_an_id,
        first="Stop one of the two processes, or give it an instance id of its own",
        command=_MEMBERS,
        section="static-conflict",
        explains=_UNREST,
    ),
    Cause(
        name="shared_instance_id",
        signs=_RESTARTS,
        concludes=fenced_at_work,
        first="Look for FencedInstanceIdException in the logs of the group's processes: two have the id of {who}. Stop "
        "one, or give it an instance id of its own",
        command=_HISTORY,
        section="static-crash-loop",
        explains=_UNREST,
    ),
    Cause(
        name="subscription_flapping",
        signs=frozenset({"rebalance.storm"}),
        concludes=subscriptions_change,
        first="Find out why {who} changes its subscription: a pattern, or two versions of one program",
        command=_HISTORY,
        section="rebalance-storm",
        explains=frozenset({"leader.flapping", *_STUCK, "commits.paused"}),
    ),
    Cause(
        name="crash_loop",
        signs=_RESTARTS,
        concludes=restarts,
        first=_RESTARTED,
        command=_HISTORY,
        section="member-flapping",
        explains=_UNREST,
    ),
    Cause(
        name="crash_loop",
        signs=frozenset({"rebalance.storm"}),
        concludes=one_slot_returns,
        first=_RESTARTED,
        command=_HISTORY,
        section="rebalance-storm",
        explains=_UNREST,
    ),
    Cause(
        name="hanging_transaction",
        signs=frozenset({TransactionHanging.NAME}),
        concludes=transaction_is_open,
        first="See whether the producer lives, and when it wrote last; {fix}",
        command=_PRODUCERS,
        section="transaction-hanging",
        # Readers of committed records get no commit of the group meanwhile, whoever makes it.
        explains=frozenset({"commits.paused", "owner.silent"}),
    ),
    Cause(
        name="coordinator_moved",
        signs=frozenset({*_STUCK, "commits.paused", "rebalance.suspected"}),
        concludes=coordinator_moved,
        first="Look at the log of the new coordinator: it serves the group when it has loaded the partition",
        command=_COORDINATOR,
        section="commits-paused",
        explains=_STUCK | {"commits.paused"},
    ),
    Cause(
        name="broker_unreachable",
        signs=frozenset({*_STUCK, "commits.paused", "rebalance.suspected"}),
        concludes=coordinator_is_away,
        first="See whether the broker runs, and whether clients can reach it",
        command=_COORDINATOR,
        section="commits-paused",
        explains=_STUCK | {"commits.paused"},
    ),
    Cause(
        name="slow_rejoin",
        signs=_STUCK,
        concludes=did_not_rejoin,
        first=_DUMP,
        command=_MEMBERS,
        section="rebalance-stuck",
        explains=_STANDSTILL,
        least=Severity.WARN,
    ),
    Cause(
        name="process_lost",
        signs=frozenset({MEMBER_LEFT}),
        concludes=left_by("session_timeout", ended_without_a_word),
        first=_IS_THERE,
        command=_MEMBERS,
        section="member-left",
        explains=_STANDSTILL - {MEMBER_LEFT},
    ),
    Cause(
        name="gave_up",
        signs=frozenset({MEMBER_LEFT}),
        concludes=left_by("poll_timeout", gave_up),
        first="Take a thread dump of {who} (jstack), to see what it processes for so long",
        command=_MEMBERS,
        section="member-left",
        explains=_STANDSTILL - {MEMBER_LEFT},
    ),
    Cause(
        name="slow_rejoin",
        signs=frozenset({MEMBER_LEFT}),
        concludes=left_by("rebalance_timeout", missed_the_rebalance),
        first="Look at the rebalance callbacks and the longest work of {who}",
        command=_MEMBERS,
        section="member-left",
        explains=_STANDSTILL - {MEMBER_LEFT},
    ),
    Cause(
        name="owner_silent",
        signs=frozenset({"owner.silent"}),
        concludes=says(
            "{who} commits nothing while the others do: it hangs, or its topics have no new records"
        ),
        first=_DUMP,
        command=_MEMBERS,
        section="owner-silent",
    ),
    Cause(
        name="partition_stuck",
        signs=frozenset({"partition.poison"}),
        concludes=says(
            "The commits of {place} do not move, whoever owns it: a record that cannot be processed, or no new records"
        ),
        first="Read the record at the committed offset of {place}",
        command="kafka-console-consumer.sh --bootstrap-server HOST:PORT --topic {topic} --partition {partition} "
        "--offset {offset} --max-messages 1",
        section="partition-poison",
    ),
    Cause(
        name="commits_stopped",
        signs=frozenset({"commits.paused"}),
        concludes=nobody_commits,
        first="Compare the lag twice: where it grows, take a thread dump of each member",
        command=_OFFSETS,
        section="commits-paused",
        explains=frozenset({"rebalance.slow", "owner.silent"}),
    ),
    Cause(
        name="offsets_expired",
        signs=frozenset({"offsets.expired"}),
        concludes=says("The retention of the committed offsets ended, and the broker removed them"),
        first="Set the lost offsets again before the group starts",
        command=_LOST,
        section="offsets-expired",
        explains=frozenset({"offsets.expiring", "offsets.reset"}),
    ),
    Cause(
        name="offsets_deleted",
        signs=frozenset({"offsets.deleted"}),
        concludes=deleted,
        first="Ask who deleted them; if it was a mistake, set them again before the group starts",
        command=_LOST,
        section="offsets-expired",
        explains=frozenset({"offsets.reset"}),
    ),
    Cause(
        name="offsets_set",
        signs=frozenset({"offsets.set"}),
        concludes=set_by_hand,
        first="Ask who did it; if it was a mistake, set the former offsets again before the group starts",
        command=_LOST,
        section="offsets-set",
    ),
    Cause(
        name="offsets_expiring",
        signs=frozenset({"offsets.expiring"}),
        concludes=says("The group has no member that protects these offsets, so that their retention runs"),
        first="If the group is needed, start it, or give its offsets time as the runbook says for its type",
        command="groupreplay describe --bootstrap-server HOST:PORT --group {group}",
        section="offsets-expiring",
    ),
)


def cause_of(episode: Episode, facts: VerdictFacts) -> tuple[Cause, Conclusion] | None:
    """The first cause whose sum holds; None: what is known shows none."""
    for cause in CAUSES:
        if episode.sign in cause.signs and Severity[episode.severity] >= cause.least:
            conclusion = cause.concludes(episode, facts)
            if conclusion is not None and conclusion.evidence:
                return cause, conclusion
    return None
