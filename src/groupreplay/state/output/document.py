"""The document of a group: what ``describe`` prints and what ``group-states`` holds."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, Phase
from groupreplay.state.conditions.tracker import active_conditions
from groupreplay.state.output.envelope import fit_json
from groupreplay.state.policy.context import Context
from groupreplay.state.policy.rules import Rules
from groupreplay.state.replay import retention
from groupreplay.state.replay.group_summary import GroupSummary, summarize
from groupreplay.state.replay.topic_names import names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.members import Member, Worker, group_topics, settings_fields, slowest_member
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.offsets import Offsets
from groupreplay.state.snapshot.partitions import from_ranges

MAX_BYTES: Final = 256 * 1024
MAX_MEMBERS: Final = 200
#: Fields that change with every commit: a change in them alone is no reason to write the document again.
_RESTLESS: Final = ("log_position", "oldest_commit_ms", "newest_commit_ms")
#: In place of a digest: the topic holds a document with unknown content. No digest has this length.
UNKNOWN_DIGEST: Final = b"?"
#: The next expiry is rounded down to this part of the retention: six hours of seven days.
_EXPIRY_STEPS: Final = 28
#: Protocol types as the broker names those of the newer kinds.
_PROTOCOL_TYPES: Final = {
    GroupType.CONSUMER: CONSUMER_PROTOCOL_TYPE,
    GroupType.SHARE: "share",
    GroupType.STREAMS: "streams",
}
#: Partitions by topic, or tasks by subtopology or connector, as ranges; None when they are not known.
_Held = Mapping[str, str] | None


class Deleted:
    """The group was deleted: a tombstone replaces its document."""


DELETED: Final = Deleted()


def _head(group_id: str, group: GroupState, seen: GroupSummary) -> dict[str, Any]:
    modern_group = group.modern
    return {
        "group_id": group_id,
        "type": group.group_type.value,
        "simple": group.simple,
        "state": seen.state,
        "protocol_type": group.classic.protocol_type
        if modern_group is None
        else _PROTOCOL_TYPES[group.group_type],
        "protocol": group.classic.protocol if modern_group is None else _assignor(modern_group),
        "leader": group.classic.leader,
        **_slowest(group),
        "generation": group.classic.generation,
        "group_epoch": modern.group_epoch(modern_group) if modern_group else None,
        "target_epoch": modern.target_epoch(modern_group) if modern_group else None,
        "since_ms": group.in_progress.since_ms if group.in_progress else group.since_ms,
        "since_ms_earliest": group.in_progress.earliest_ms if group.in_progress else group.since_ms,
        "history": group.history.value,
        "topology_epoch": modern_group.topology_epoch if modern_group else None,
    }


def _slowest(group: GroupState) -> dict[str, Any]:
    """How long a classic group waits for members to rejoin, and the member that asked for it."""
    slowest = slowest_member(group.classic.members)
    return {
        "rebalance_timeout_ms": slowest.rebalance_timeout_ms if slowest else None,
        "rebalance_timeout_member": slowest.member_id if slowest else None,
    }


def _assignor(group: Modern) -> str | None:
    """The assignor that most members ask for; without one the broker's settings decide, in no record."""
    asked = Counter(member.assignor for member in modern.living(group).values() if member.assignor)
    return min(asked, key=lambda name: (-asked[name], name), default=None)


def _lists(owned: _Held) -> dict[str, list[int]] | None:
    return None if owned is None else {name: from_ranges(ranges) for name, ranges in owned.items()}


def _ranges(owned: _Held) -> dict[str, str] | None:
    return None if owned is None else dict(owned)


def _member(
    member: Member, group: GroupState, topic_names: Mapping[str, str], shown: Callable[[_Held], Any]
) -> dict[str, Any]:
    """A member; ``shown`` is how partitions are written. What its kind of group does not have is None."""
    modern_member = group.modern.members.get(member.member_id) if group.modern else None

    def by_name(owned: _Held) -> Any:
        return shown(owned and {topic_names.get(topic, topic): ranges for topic, ranges in owned.items()})

    classic = modern_member is None or modern_member.classic_session_timeout_ms is not None
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "state": modern_member.phase.value if modern_member else Phase.STABLE.value,
        "epoch": modern_member.epoch if modern_member else None,
        "partitions": by_name(member.partitions),
        "supported_protocols": list(member.supported_protocols),
        "member_protocol": GroupType.CLASSIC.value if classic else group.group_type.value,
        "target_partitions": by_name(modern_member.target) if modern_member else None,
        "revoking": by_name(modern_member.revoking) if modern_member else None,
        "rack_id": modern_member.rack_id if modern_member else None,
        "process_id": modern_member.process_id if modern_member else None,
        "connect": member.worker and _worker(member.worker, shown),
        "is_leader": group.classic.leader == member.member_id if modern_member is None else None,
        **settings_fields(member, native=not classic),
    }


def _worker(worker: Worker, shown: Callable[[_Held], Any]) -> dict[str, Any]:
    return {
        "url": worker.url,
        "config_offset": worker.config_offset,
        "connectors": None if worker.connectors is None else list(worker.connectors),
        "tasks": shown(worker.tasks),
    }


def _suppressed(snapshot: GroupSnapshot) -> dict[str, int]:
    """How many events of each name were not emitted, and are told by no event: those of a burst that is over."""
    return dict(sorted(snapshot.repeats.suppressed.items()))


def _vote(group: GroupState, member: Mapping[str, Any]) -> str | None:
    """The assignor that a member of a newer kind asks for; None: no record has it, or it leaves that to the brokers."""
    return group.modern.members[member["member_id"]].assignor if group.modern else None


def _topics(group: GroupState, seen: GroupSummary) -> list[str] | None:
    """The topics of the members' subscriptions; None where these cannot be read: then nothing expires."""
    if group.modern is not None:
        return sorted(modern.subscribed_topics(group.group_type, group.modern))
    if not seen.members:
        return []
    topics = group_topics(seen.members, group.classic.protocol_type)
    return None if topics is None else sorted(topics)


def describe(group_id: str, snapshot: GroupSnapshot, offsets: Offsets, context: Context) -> dict[str, Any]:
    """``Group.describe()``: partitions as lists, every committed offset by topic and partition."""
    seen = summarize(snapshot.group)
    topic_names = names(offsets, snapshot.group.modern, context.topic_names)
    members = [_member(member, snapshot.group, topic_names, _lists) for member in seen.members]
    return {
        **_head(group_id, snapshot.group, seen),
        "members": [
            {**member, "partitions": member["partitions"] or {}, "assignor": _vote(snapshot.group, member)}
            for member in members
        ],
        "subscribed_topics": _topics(snapshot.group, seen),
        "offsets": _with_deadlines(snapshot.group, offsets, context),
        "pending_offsets": [commit.document() for commit in context.pending.get(group_id, ())],
        "conditions": active_conditions(snapshot.conditions.active),
        "suppressed": _suppressed(snapshot),
    }


def _with_deadlines(group: GroupState, offsets: Offsets, context: Context) -> list[dict[str, Any]]:
    """Every offset with its deadline, with the one that is possible, and with what decides about them."""
    due = retention.deadlines(group, offsets, context)
    possible = retention.possible_deadlines(group, offsets, context)
    place_of = {name: place for place, name in enumerate(offsets.names(np.arange(len(offsets))))}
    basis = {own: retention.grounds_of_one(group, context, is_own=own) for own in (False, True)}
    protected = retention.surely_protected(group)
    shown = []
    for offset in offsets:
        place = place_of[offset["topic"], offset["partition"]]
        own = offset["expire_timestamp_ms"] is not None
        kept = possible[place] == retention.NEVER and (not own or offset["topic"] in protected)
        safe = kept and basis[own].base is not None
        shown.append(
            {
                **offset,
                "expires_at_ms": _moment(due[place]),
                "may_expire_at_ms": _moment(possible[place]),
                "expiry_rule": basis[own].rule,
                "expiry_base": None if kept else basis[own].base,
                # A topic that members are subscribed to is protected with each retention and by each release.
                "expiry_assumed": {} if safe else basis[own].assumed,
                "expiry_assumed_release": None if safe else basis[own].assumed_release,
            }
        )
    return shown


def _moment(deadline_ms: np.int64) -> int | None:
    return None if deadline_ms == retention.NEVER else int(deadline_ms)


def _next_expiry_ms(group: GroupState, offsets: Offsets, context: Context) -> int | None:
    """The first deadline, rounded down: it moves with every commit, and the document must not."""
    retention_ms = context.assumed_retention_ms
    first = retention.first_deadline(group, offsets, context)
    step_ms = max(retention_ms // _EXPIRY_STEPS, 1)
    return None if first is None else first // step_ms * step_ms


def group_document(
    group_id: str, snapshot: GroupSnapshot, offsets: Offsets, context: Context, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The document of ``group-states``: members with ranges (at most 200), offsets in summary."""
    seen = summarize(snapshot.group)
    topic_names = names(offsets, snapshot.group.modern, context.topic_names) if seen.members else {}
    return {
        "cluster_id": context.cluster_id,
        **_head(group_id, snapshot.group, seen),
        "member_count": len(seen.members),
        "members": [
            _member(member, snapshot.group, topic_names, _ranges) for member in seen.members[:MAX_MEMBERS]
        ],
        "subscribed_topics": _topics(snapshot.group, seen),
        "offsets": {**offsets.summary(), "next_expiry_ms": _next_expiry_ms(snapshot.group, offsets, context)},
        "conditions": active_conditions(snapshot.conditions.active),
        "suppressed": _suppressed(snapshot),
        "labels": {**context.labels, **labels},
        "log_position": {
            "partition": snapshot.log.partition,
            "offset": snapshot.log.last_offset,
            "timestamp_ms": snapshot.log.last_timestamp_ms,
        },
    }


def next_document(
    group_id: str, snapshot: GroupSnapshot, offsets: Offsets, context: Context, rules: Rules
) -> dict[str, Any] | Deleted | None:
    """The group's document, if it differs from the last one, whose digest the snapshot has; else None."""
    known = snapshot.document_digest
    if snapshot.group.phase is Phase.DEAD or rules.ignore:
        if known == UNKNOWN_DIGEST and snapshot.log.pending:
            # The open operation may create the group: a tombstone would announce a deletion that never was.
            return None
        snapshot.document_digest = b""
        return DELETED if known else None
    document = group_document(group_id, snapshot, offsets, context, rules.labels)
    snapshot.document_digest = digest(document)
    return None if snapshot.document_digest == known else document


def digest(document: dict[str, Any]) -> bytes:
    """Eight bytes that change when something other than commit times does."""
    offsets = document["offsets"]
    steady = {
        **document,
        "log_position": None,
        "offsets": {name: value for name, value in offsets.items() if name not in _RESTLESS},
    }
    return hashlib.blake2b(msgspec.json.encode(steady), digest_size=8).digest()


def encode_document(document: dict[str, Any]) -> bytes:
    """The document as JSON of at most 256 KiB; it has ``truncated: true`` when something was cut."""
    return fit_json(document, MAX_BYTES)
