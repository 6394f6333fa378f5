"""Names of topics that the newer kinds of group hold by id: what the log tells, what the cluster tells.

Must not know what the names are used for.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from groupreplay.codecs import uuid_text
from groupreplay.state.members import Member
from groupreplay.state.modern import Modern
from groupreplay.state.offsets import Offsets


def names(offsets: Offsets, known: Modern | None, given: Mapping[str, str]) -> dict[str, str]:
    """Topic id (text) -> name, as far as the log or the job tell."""
    from_commits = {uuid_text(raw): offsets.topics[place] for place, raw in offsets.topic_ids.items()}
    return {**given, **from_commits, **(known.topic_names if known else {})}


def named(member: Member, topic_names: Mapping[str, str]) -> Member:
    """The member with its topics by name; a topic without a known name keeps its id."""
    held = member.partitions or {}
    return msgspec.structs.replace(
        member, partitions={topic_names.get(topic, topic): ranges for topic, ranges in held.items()}
    )
