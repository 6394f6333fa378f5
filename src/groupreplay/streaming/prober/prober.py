"""The prober: asks the brokers at an interval which classic groups are in the middle of a rebalance.

The offsets topic does not show that. A round lists the groups in the two rebalancing states, and describes those
and the ones of the previous round, so that the end of a rebalance is also seen. Other groups are never described.
It also lists the topics, so that groups learn why their offsets of a topic were removed, and the groups of KIP-848,
because a group may have timeouts of its own.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.probe_messages import (
    DeletedTopicsAnswer,
    GroupAnswer,
    GroupSettingsAnswer,
    GroupTransactionsAnswer,
    ProbeMessage,
    Rights,
    RoundSummary,
)
from groupreplay.streaming.kafka.group_admin import GroupAdmin, GroupDescription, Refusal
from groupreplay.streaming.prober.open_transactions import ByGroup, OpenTransactions
from groupreplay.streaming.prober.own_settings import OwnSettings

log = logging.getLogger(__name__)

#: The coordinators of other brokers may learn of the deletion later than the broker that was asked.
_ROUNDS: Final = 3


class DeletedTopics:
    """What one prober remembers between two rounds. The first round only learns which topics there are."""

    def __init__(self, queries: GroupAdmin) -> None:
        self._queries = queries
        self._known: frozenset[str] = frozenset()
        #: Topics that are gone, and in how many rounds their tombstones are still looked for.
        self._gone: dict[str, int] = {}
        self._answered: set[tuple[str, str]] = set()
        #: The ends of the log in the last two rounds: the deletion was before the round that notices it.
        self._ends: deque[Mapping[int, int]] = deque(maxlen=2)
        self._warned = False

    def find(self, ends: Mapping[int, tuple[int, int]]) -> dict[str, tuple[str, ...]]:
        """Groups that have lost their offsets of deleted topics since the last rounds: the topics of each.

        ``ends`` are the high watermark and the last stable offset of each partition of the offsets topic.
        """
        now = {number: stable for number, (_, stable) in ends.items()}
        self._ends.append(now)
        self._notice()
        if not self._gone:
            return {}
        spans = {number: (self._ends[0].get(number, end), end) for number, end in now.items()}
        try:
            removed = self._queries.removed_offsets(spans, frozenset(self._gone))
        except GroupReplayError as error:
            if not self._warned:
                log.warning("the groups that consumed a deleted topic are not known: %s", error)
            self._warned, removed = True, set()
        self._gone = {topic: left - 1 for topic, left in self._gone.items() if left > 1}
        gone_topics: dict[str, tuple[str, ...]] = {}
        for group, topic in sorted(removed - self._answered):
            gone_topics[group] = (*gone_topics.get(group, ()), topic)
        self._answered = {one for one in self._answered | removed if one[1] in self._gone}
        return gone_topics

    def _notice(self) -> None:
        """Compare the topics of the cluster with those of the last round."""
        topics = self._queries.topics()
        if topics is None:
            return
        missing = self._known - topics
        gone = self._queries.unknown_topics(missing) if missing else frozenset()
        self._gone |= dict.fromkeys(gone, _ROUNDS)
        self._known = (self._known - gone) | topics


#: States of a classic group in the middle of a rebalance.
IN_PROGRESS: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})

_LONGEST_PAUSE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class ProbeRound:
    """The result of one round: answers about groups, deleted topics, settings and transactions, and a summary.

    ``began`` is its begin in seconds of the prober's clock for lengths. ``complete``: all brokers have listed their
    groups. ``missed`` are groups that were listed and not described.
    """

    answers: tuple[GroupAnswer, ...]
    summary: RoundSummary
    began: float = 0.0
    complete: bool = False
    missed: frozenset[str] = frozenset()
    deletions: tuple[DeletedTopicsAnswer, ...] = ()
    settings: tuple[GroupSettingsAnswer, ...] = ()
    transactions: tuple[GroupTransactionsAnswer, ...] = ()

    @property
    def messages(self) -> list[ProbeMessage]:
        """The messages to write; the summary follows the answers that it covers."""
        return [*self.answers, *self.deletions, *self.settings, *self.transactions, self.summary]


class Prober:
    """Probes one cluster. ``in_progress``: groups that were rebalancing in the last round of an earlier process.

    ``clock`` is for the times that are written, ``seconds`` for the time between rounds: no one can set it.
    ``listed_ms`` is when a round of an earlier process has listed all groups (None: not known), ``transactions`` are
    those that it has told their groups of. ``ahead_ms`` returns by how much the clock is ahead of the brokers' at most
    (None: not measured).
    """

    def __init__(
        self,
        queries: GroupAdmin,
        *,
        cluster_id: str,
        clock: Callable[[], int],
        interval_ms: int = 10_000,
        job_id: str | None = None,
        in_progress: Collection[str] = (),
        listed_ms: int | None = None,
        transactions: ByGroup | None = None,
        ahead_ms: Callable[[], int | None] = lambda: None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queries = queries
        self._cluster_id = cluster_id
        self._clock = clock
        self._seconds = seconds
        self._interval_ms = interval_ms
        self._job_id = job_id
        self._in_progress = frozenset(in_progress)
        self._deleted_topics = DeletedTopics(queries)
        self._own_settings = OwnSettings(queries, seconds)
        self._open_transactions = OpenTransactions(
            queries.uncommitted,
            cluster_id=cluster_id,
            interval_ms=interval_ms,
            seconds=seconds,
            written=transactions,
        )
        self._brokers: frozenset[int] = frozenset()
        self._ahead_ms = ahead_ms
        #: When a round was begun that was written and has listed all groups.
        self._listed: float | None = None
        if listed_ms is not None:
            self._listed = seconds() - max(0, clock() - listed_ms) / 1_000
        #: Groups that were listed and not described since: the last such round before.
        self._missed: dict[str, float | None] = {}
        # No right can exist for this random group alone, so a refusal means that the right to all groups is missing.
        self._unknown_group = f"groupreplay-{uuid.uuid4()}"

    def take(self) -> ProbeRound:
        """Probe once. Call ``remember`` after the result was written.

        Raises:
            GroupReplayError: no broker answers, and none has answered before.
        """
        started_ms, started = self._clock(), self._seconds()
        try:
            layout = self._queries.layout()
        except GroupReplayError as error:
            if not self._brokers:
                raise
            return self._silent_round(started_ms, error)
        self._brokers = layout.brokers
        listing = self._queries.rebalancing(layout.brokers)
        # The time before the request: a generation that is written during the request must count as newer.
        taken_ms = self._clock()
        answers, rights = self._describe(sorted(listing.groups | self._in_progress), taken_ms)
        ends = self._queries.ends(layout.partitions)
        summary = self._summary(
            started_ms,
            listing.brokers,
            rights,
            ends,
            # The topic does not exist before the first commit in the cluster.
            layout.partitions or None,
            len(listing.groups),
            layout.leaders,
        )
        return ProbeRound(
            tuple(answers),
            summary,
            began=started,
            complete=not any(listing.brokers.values()),
            missed=listing.groups - {answer.group_id for answer in answers},
            deletions=self._deletions(ends),
            settings=self._settings(),
            transactions=self._open_transactions.answers(ends, taken_ms),
        )

    def _silent_round(self, started_ms: int, error: GroupReplayError) -> ProbeRound:
        """Without any answer the groups stay unchanged, and the summary contains the error."""
        silent = dict.fromkeys(sorted(self._brokers), error.what)
        return ProbeRound((), self._summary(started_ms, silent, "unknown", {}, None, 0))

    def _deletions(self, ends: Mapping[int, tuple[int, int]]) -> tuple[DeletedTopicsAnswer, ...]:
        gone_topics = self._deleted_topics.find(ends)
        # The time after the log was read: the tombstones are older.
        taken_ms = self._clock() if gone_topics else 0
        return tuple(
            DeletedTopicsAnswer(
                cluster_id=self._cluster_id,
                group_id=group,
                taken_ms=taken_ms,
                topics=topics,
                interval_ms=self._interval_ms,
            )
            for group, topics in gone_topics.items()
        )

    def _settings(self) -> tuple[GroupSettingsAnswer, ...]:
        own_settings = self._own_settings.find()
        taken_ms = self._clock() if own_settings else 0
        return tuple(
            GroupSettingsAnswer(
                cluster_id=self._cluster_id,
                group_id=group,
                taken_ms=taken_ms,
                settings=settings,
                interval_ms=self._interval_ms,
            )
            for group, settings in own_settings.items()
        )

    def _describe(self, asked: Sequence[str], taken_ms: int) -> tuple[list[GroupAnswer], Rights]:
        unseen_ms = {group: self._unseen_ms(group) for group in asked}
        descriptions = self._queries.describe([*asked, self._unknown_group])
        answered_ms = max(taken_ms, self._clock())
        answers = [
            self._answer(group, (taken_ms, answered_ms), description, unseen_ms[group])
            for group in asked
            if isinstance(description := descriptions[group], GroupDescription)
        ]
        return answers, _rights(descriptions[self._unknown_group])

    def _unseen_ms(self, group: str) -> int | None:
        """The time since the last round that would have found the group; at least the interval. None: not known."""
        listed = self._missed.get(group, self._listed)
        return None if listed is None else max(self._interval_ms, round(1_000 * (self._seconds() - listed)))

    def remember(self, taken: ProbeRound) -> None:
        """Update the groups to describe in the next round; groups that could not be described stay in the list."""
        ended = {answer.group_id for answer in taken.answers if answer.state not in IN_PROGRESS}
        begun = {answer.group_id for answer in taken.answers if answer.state in IN_PROGRESS}
        self._in_progress = (self._in_progress - ended) | begun
        for group in ended | begun:
            self._missed.pop(group, None)
        self._missed.update({group: self._missed.get(group, self._listed) for group in taken.missed})
        self._own_settings.remember(taken.settings)
        self._open_transactions.remember(taken.transactions)
        if taken.complete:
            self._listed = taken.began

    def _answer(
        self, group: str, times_ms: tuple[int, int], description: GroupDescription, unseen_ms: int | None
    ) -> GroupAnswer:
        taken_ms, answered_ms = times_ms
        return GroupAnswer(
            cluster_id=self._cluster_id,
            group_id=group,
            taken_ms=taken_ms,
            state=description.state,
            broker=description.broker,
            protocol_type=description.protocol_type,
            protocol=description.protocol,
            members=description.members,
            interval_ms=self._interval_ms,
            unseen_ms=unseen_ms,
            answered_ms=answered_ms,
            ahead_ms=self._ahead_ms(),
        )

    def _summary(
        self,
        taken_ms: int,
        brokers: Mapping[int, str | None],
        rights: Rights,
        partitions: Mapping[int, tuple[int, int]],
        partition_count: int | None,
        groups: int,
        leaders: Mapping[int, int] | None = None,
    ) -> RoundSummary:
        return RoundSummary(
            cluster_id=self._cluster_id,
            taken_ms=taken_ms,
            brokers=dict(sorted(brokers.items())),
            rights=rights,
            partitions=dict(partitions),
            partition_count=partition_count,
            groups=groups,
            job_id=self._job_id,
            leaders=dict(leaders or {}),
            transactions=self._open_transactions.find(partitions),
        )


def _rights(answer: GroupDescription | Refusal) -> Rights:
    """The rights, from DescribeGroups: ListGroups returns no error if the right to see groups is missing."""
    if isinstance(answer, GroupDescription):
        return "ok"
    return "missing" if answer.unauthorised else "unknown"


def prober_thread(
    prober: Callable[[], Prober],
    *,
    interval_seconds: float,
    write: Callable[[Sequence[ProbeMessage]], None],
    on_round: Callable[[ProbeRound], None],
) -> Background:
    """The thread that probes every ``interval_seconds``.

    ``prober`` opens the prober, and is called again while that fails. If ``write`` raises, the round does not count.
    ``on_round`` receives every round that was written.
    """
    opened: Prober | None = None

    def take_round() -> None:
        nonlocal opened
        opened = opened or prober()
        taken = opened.take()
        write(taken.messages)
        opened.remember(taken)
        on_round(taken)

    return Background(
        name="prober",
        tick=take_round,
        pause_seconds=interval_seconds,
        retry_seconds=interval_seconds,
        longest_seconds=_LONGEST_PAUSE_SECONDS,
        failing="the prober failed",
    )


def check_round(summary: RoundSummary) -> None:
    """Check that a round covers all groups.

    Raises:
        GroupReplayError: rights are missing, or brokers did not answer.
    """
    if summary.rights == "missing":
        raise GroupReplayError(
            "this login may not see all groups", fix=GRANT_DESCRIBE, exit_code=ExitCode.AUTHORISATION
        )
    for number, error in summary.brokers.items():
        if error is not None:
            raise GroupReplayError(
                f"a broker did not answer: {error}",
                where=f"broker {number}",
                fix="the groups that it coordinates are missing above; probe again when the broker is back",
                exit_code=ExitCode.CONNECTION,
            )


def round_line(summary: RoundSummary) -> str:
    """A round as one line of text."""
    silent = sum(error is not None for error in summary.brokers.values())
    parts = [
        f"{timestamp(summary.taken_ms)}: {summary.groups} groups rebalancing",
        f"{len(summary.brokers) - silent} of {len(summary.brokers)} brokers answered",
    ]
    open_transactions = sum(stable < high for high, stable in summary.partitions.values())
    if open_transactions:
        parts.append(f"{open_transactions} partitions with an open transaction")
    if summary.rights != "ok":
        parts.append(f"rights {summary.rights}")
    return ", ".join(parts)


def round_documents(taken: ProbeRound) -> list[Mapping[str, Any]]:
    """The answers as in the topic ``group-probes``."""
    return [msgspec.to_builtins(answer) for answer in taken.answers]
