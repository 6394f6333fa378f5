"""Finds deleted topics, and the groups whose offsets of them the log has removed.

A topic counts as deleted only if a broker answers that it does not know it. A login that may not describe a topic gets
another error for it (``TOPIC_AUTHORIZATION_FAILED``), and a topic that is missing in a list proves nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Final

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.kafka.group_admin import GroupAdmin

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
        found: dict[str, tuple[str, ...]] = {}
        for group, topic in sorted(removed - self._answered):
            found[group] = (*found.get(group, ()), topic)
        self._answered = {one for one in self._answered | removed if one[1] in self._gone}
        return found

    def _notice(self) -> None:
        """Compare the topics of the cluster with those of the last round."""
        topics = self._queries.topics()
        if topics is None:
            return
        missing = self._known - topics
        gone = self._queries.unknown_topics(missing) if missing else frozenset()
        self._gone |= dict.fromkeys(gone, _ROUNDS)
        self._known = (self._known - gone) | topics
