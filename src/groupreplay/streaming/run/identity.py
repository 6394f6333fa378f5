"""The owner of a checkpoint: which cluster and topics it belongs to, written once, and the errors for another one."""

from __future__ import annotations

from typing import Final

import msgspec

from groupreplay.state.events.event import JobGap
from groupreplay.state.phrases import safe_text
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.version import __version__

IDENTITY_FILE: Final = "groupreplay.json"
#: Records that are younger than this are in a segment that Kafka's log cleaner has not touched yet.
_UNCLEANED_MS: Final = 300_000
NEW_CHECKPOINT: Final = (
    "give this job a checkpoint of its own, for instance an empty folder (the state is then built anew from "
    "the log, and no event of the past is repeated)"
)
#: The format of the identity; a release that adds a field which must not get lost raises it.
FORMAT: Final = 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a checkpoint; written at the first start and never again.

    ``era`` is the id of the offsets topic, ``probes`` the second source (cluster and topic). Times are
    milliseconds since 1970. ``gap`` is why the state was built anew here. ``event_era`` is part of the ids of events:
    a log that was truncated uses its offsets a second time. ``taken_over_ms`` is set when the job goes on where a job
    with another checkpoint ended: the state was built then, and the other one emitted the events before
    ``first_start_ms``.
    """

    cluster_id: str
    era: str
    partitions: int
    probes: str
    first_start_ms: int
    job_id: str = ""
    version: str = __version__
    format: int = FORMAT
    gap: JobGap | None = None
    event_era: str = ""
    taken_over_ms: int | None = None

    @property
    def complete_since_ms(self) -> int:
        """The whole log before this moment was read, so that an unknown group is a new one from then on.

        The log may have been compacted between the end of the other job and the moment when it was read.
        """
        taken_over_ms = self.taken_over_ms
        if taken_over_ms is None or taken_over_ms - self.first_start_ms <= _UNCLEANED_MS:
            return self.first_start_ms
        return taken_over_ms


class _IdentityHead(msgspec.Struct):
    """The fields that every format of the identity has."""

    format: int = FORMAT
    version: str = ""


def decode_identity(text: str | bytes, where: str) -> Identity:
    """The identity in the file ``where``.

    Raises:
        GroupReplayError: the file is damaged, or a later release wrote it.
    """
    try:
        # Alone, because a later format may have other fields.
        head = msgspec.json.decode(text, type=_IdentityHead)
        if head.format <= FORMAT:
            return msgspec.json.decode(text, type=Identity)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise unreadable_identity(where, error) from None
    raise GroupReplayError(
        f"the checkpoint has format {head.format}, this release reads format {FORMAT}",
        where=where,
        fix=f"run the release that made it ({safe_text(head.version, 40) or 'a later one'}), or {NEW_CHECKPOINT}",
        exit_code=ExitCode.DATA,
    )


def unreadable_identity(where: str, why: Exception) -> GroupReplayError:
    """The error for an identity whose text cannot be had, or means nothing."""
    return damaged(where, f"the checkpoint's identity cannot be read: {why}")


def check_identity(known: Identity, wanted: Identity, location: str) -> None:
    """Checks that an existing checkpoint belongs to the clusters and topics of this start.

    Raises:
        GroupReplayError: it does not.
    """
    differences = (
        (known.cluster_id, wanted.cluster_id, "belongs to another cluster", NEW_CHECKPOINT),
        (
            known.probes,
            wanted.probes,
            "reads its heartbeats elsewhere",
            "name the same sink and topics again",
        ),
    )
    for before, now, what, fix in differences:
        if before != now:
            raise unusable(f"the checkpoint {what} ({before}, not {now})", location, fix)


def damaged(where: str, what: str) -> GroupReplayError:
    """The error for a checkpoint with a file that is missing or means nothing."""
    fix = "restore the whole folder from a backup, or " + NEW_CHECKPOINT
    return GroupReplayError(what, where=where, fix=fix, exit_code=ExitCode.DATA)


def topic_era(event_era: str) -> str:
    """The id of the topic, of what is in the ids of events (``next_event_era``)."""
    return event_era.partition(".")[0]


def next_event_era(era: str, event_era: str, new_era: str, *, least: int = 1) -> str:
    """What is in the ids of events when the state is built anew, from what was in them before (``event_era``).

    It is the id of the topic. If that is still the same (``era``), offsets may be used a second time: a number follows,
    how often the log has lost a part, and not less than ``least``.
    """
    if new_era != era:
        return new_era
    number = event_era.partition(".")[2]
    known = int(number) if number.isdigit() else 0
    return f"{era}.{max(least, 1 + known)}"


def first_identity(topic: TopicIdentity, probes: str, now_ms: int) -> Identity:
    """That of a checkpoint whose first start is now; ``probes`` are cluster and topic of the second source."""
    return Identity(
        cluster_id=topic.cluster_id,
        era=topic.era,
        partitions=topic.partitions,
        probes=probes,
        first_start_ms=now_ms,
    )
