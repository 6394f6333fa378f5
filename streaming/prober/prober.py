"""The prober: asks the brokers, round by round, which classic groups are in the middle of a rebalance.

The log cannot show that. Knows when to ask for which group, what to remember between two rounds and what to
write down; must not know what an answer means. Groups that are well are never asked for: a round lists the
groups in the two states, and describes those and the ones of the round before, so that their end is seen.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.probe_messages import GroupAnswer, ProbeMessage, Rights, RoundSummary
from groupreplay.streaming.kafka.group_admin import GroupPicture, Layout, Listing, Refusal

log = logging.getLogger(__name__)

#: States of a classic group in the middle of a rebalance.
IN_PROGRESS: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})

_LONGEST_PAUSE_SECONDS: Final = 20.0


class Questions(Protocol):
    """What is asked of the cluster (``live_groups.LiveGroups``)."""

    def layout(self) -> Layout:
        """Brokers and partitions."""

    def rebalancing(self, brokers: Collection[int]) -> Listing:
        """Groups in one of the two states."""

    def describe(self, groups: Sequence[str]) -> Mapping[str, GroupPicture | Refusal]:
        """Groups as their coordinators see them."""

    def ends(self, partitions: int) -> Mapping[int, tuple[int, int]]:
        """High watermark and last stable offset of the partitions of the offsets topic."""


@dataclass(frozen=True, slots=True)
class ProbeRound:
    """One round: the answers about groups, and how it went."""

    answers: tuple[GroupAnswer, ...]
    summary: RoundSummary

    @property
    def messages(self) -> list[ProbeMessage]:
        """All that is to be written down; the summary stands behind what it sums up."""
        return [*self.answers, self.summary]


class Prober:
    """Takes rounds. ``in_progress`` are the groups that the last round of another process saw so."""

    def __init__(
        self,
        questions: Questions,
        *,
        cluster_id: str,
        clock: Callable[[], int],
        interval_ms: int = 10_000,
        job_id: str | None = None,
        in_progress: Collection[str] = (),
    ) -> None:
        self._questions = questions
        self._cluster_id = cluster_id
        self._clock = clock
        self._interval_ms = interval_ms
        self._job_id = job_id
        self._in_progress = frozenset(in_progress)
        self._brokers: frozenset[int] = frozenset()
        self._listed_ms: int | None = None
        # Nobody may have a right to this one group alone: what is refused here is the right to all groups.
        self._unknown_group = f"groupreplay-{uuid.uuid4()}"

    def take(self) -> ProbeRound:
        """One round. Call ``remember`` when it has been written down.

        Raises:
            GroupReplayError: no broker answers, and none ever did.
        """
        started_ms = self._clock()
        try:
            layout = self._questions.layout()
        except GroupReplayError as error:
            if not self._brokers:
                raise
            # Not a single answer: groups stay as they were, and the round says why.
            silent = dict.fromkeys(sorted(self._brokers), error.what)
            return ProbeRound((), self._summary(started_ms, silent, "unknown", {}, None, 0))
        self._brokers = layout.brokers
        listing = self._questions.rebalancing(layout.brokers)
        # Before the question, not after the answer: a generation that is written in between is newer.
        taken_ms = self._clock()
        unseen_ms = self._interval_ms if self._listed_ms is None else taken_ms - self._listed_ms
        if not any(listing.brokers.values()):
            self._listed_ms = started_ms
        asked = sorted(listing.groups | self._in_progress)
        pictures = self._questions.describe([*asked, self._unknown_group])
        answers = [
            self._answer(group, taken_ms, picture, max(unseen_ms, self._interval_ms))
            for group in asked
            if isinstance(picture := pictures[group], GroupPicture)
        ]
        summary = self._summary(
            started_ms,
            listing.brokers,
            _rights(pictures[self._unknown_group]),
            self._questions.ends(layout.partitions),
            # Before the first commit of all there is no such topic.
            layout.partitions or None,
            len(listing.groups),
        )
        return ProbeRound(tuple(answers), summary)

    def remember(self, taken: ProbeRound) -> None:
        """Whom to ask for in the next round; a group that nobody could describe is asked for again."""
        ended = {one.group_id for one in taken.answers if one.state not in IN_PROGRESS}
        begun = {one.group_id for one in taken.answers if one.state in IN_PROGRESS}
        self._in_progress = (self._in_progress - ended) | begun

    def _answer(self, group: str, taken_ms: int, picture: GroupPicture, unseen_ms: int) -> GroupAnswer:
        return GroupAnswer(
            cluster_id=self._cluster_id,
            group_id=group,
            taken_ms=taken_ms,
            state=picture.state,
            broker=picture.broker,
            protocol_type=picture.protocol_type,
            protocol=picture.protocol,
            members=picture.members,
            interval_ms=self._interval_ms,
            unseen_ms=unseen_ms,
        )

    def _summary(
        self,
        taken_ms: int,
        brokers: Mapping[int, str | None],
        rights: Rights,
        partitions: Mapping[int, tuple[int, int]],
        partition_count: int | None,
        groups: int,
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
        )


def _rights(answer: GroupPicture | Refusal) -> Rights:
    """ListGroups answers without a word when the right to see groups is missing; DescribeGroups refuses."""
    if isinstance(answer, GroupPicture):
        return "ok"
    return "missing" if answer.unauthorised else "unknown"


class ProberThread:
    """Takes a round every ``interval_seconds`` in the background, until it is closed.

    ``prober`` opens one (it is asked again while that fails); ``write`` raises when the messages were not
    taken, and the round then counts as not taken; ``tell`` gets every round that was written.
    """

    def __init__(
        self,
        prober: Callable[[], Prober],
        *,
        interval_seconds: float,
        write: Callable[[Sequence[ProbeMessage]], None],
        tell: Callable[[ProbeRound], None],
    ) -> None:
        self._open = prober
        self._interval = interval_seconds
        self._write = write
        self._tell = tell
        self._closed = threading.Event()
        self._prober: Prober | None = None
        self._thread = threading.Thread(target=self.run, name="groupreplay-prober", daemon=True)

    def start(self) -> None:
        """Starts with a first round."""
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Takes no further round; one that is under way may go on for so long."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def run(self) -> None:
        """ProbeRound after round, in this thread."""
        failures = 0
        pause = 0.0
        while not self._closed.wait(pause):
            try:
                self._round()
                failures, pause = 0, self._interval
            except Exception as error:  # whatever it is, the next round is worth a try
                # Once for each outage, however often it is tried.
                log.log(logging.DEBUG if failures else logging.WARNING, "no round of the prober: %s", error)
                pause = min(
                    self._interval * 2 ** min(failures, 10), max(_LONGEST_PAUSE_SECONDS, self._interval)
                )
                failures += 1

    def _round(self) -> None:
        if self._prober is None:
            self._prober = self._open()
        taken = self._prober.take()
        self._write(taken.messages)
        self._prober.remember(taken)
        self._tell(taken)
