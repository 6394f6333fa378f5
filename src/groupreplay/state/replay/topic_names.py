"""Names of topics of which the records of the newer groups contain only the ids, and counts that depend on them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from groupreplay.codecs import uuid_bytes, uuid_text
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.replay.generation_diff import GenerationDiff, Moves, Orphans, moves
from groupreplay.state.snapshot.members import Member, Pairing, group_topics
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.offsets import Offsets


def names(offsets: Offsets, known: Modern | None, given: Mapping[str, str]) -> dict[str, str]:
    """Topic id (text) -> name, as far as the log or the job knows names."""
    from_commits = {uuid_text(raw): offsets.topics[place] for place, raw in offsets.topic_ids.items()}
    return {**given, **from_commits, **(known.topic_names if known else {})}


def named(member: Member, topic_names: Mapping[str, str]) -> Member:
    """The member with its topics by name; a topic without a known name keeps its id."""
    return msgspec.structs.replace(member, partitions=by_name(member.partitions or {}, topic_names))


def named_orphans(orphans: Orphans, topic_names: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The same for partitions without an owner: their names may have become known since."""
    return {owner: by_name(held, topic_names) for owner, held in orphans.items()}


def by_name(held: Mapping[str, str], topic_names: Mapping[str, str]) -> dict[str, str]:
    """Partitions by topic id as partitions by topic name, where that is known."""
    return {topic_names.get(topic, topic): ranges for topic, ranges in held.items()}


def _nameless(topic: str) -> bool:
    try:
        uuid_bytes(topic)
    except ValueError:
        return False
    return True


def counted_moves(diff: GenerationDiff, former: Pairing, kind: GroupType) -> Moves | None:
    """``generation_diff.moves`` for members whose topics have names as far as those are known.

    A new id and a name that is missing now may be the same topic, and an id without an owner may still be
    subscribed to: then the numbers are not known.
    """
    last = {topic for topic, _ in diff.last_owners}
    now = {topic for member in diff.new for topic in member.partitions or ()}
    if kind is GroupType.STREAMS:
        return moves(diff, former, frozenset(last | now))  # tasks, which have names of their own
    lost = {topic for topic in last - now if _nameless(topic)}
    subscribed = group_topics(diff.new, diff.protocol_type) or frozenset()
    found = moves(diff, former, subscribed | now | lost)
    mixed = any(map(_nameless, now - last)) and bool(last - now - lost)
    if found is None or not (mixed or lost):
        return found
    return msgspec.structs.replace(found, moved=None if mixed else found.moved, unassigned=None)
