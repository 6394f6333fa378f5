"""Subscriptions by regular expression (KIP-848): which expressions are resolved when, and the topics they match.

Kafka resolves them in another thread; here that is done at once after the request (``maybeUpdateRegularExpressions``,
``TopicRegexResolver``). Expressions are Python's instead of RE2's; the constructs that RE2 does not have are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from groupreplay.codecs.kafka_terms import java_hash
from groupreplay.coordinator.java_maps import HashOrder, buckets_for
from groupreplay.coordinator.requests import Error, Refused

#: Expressions are resolved at most so often (``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``).
_LEAST_INTERVAL_MS: Final = 10_000
#: Look-around and back references.
_NOT_IN_RE2: Final = re.compile(r"\(\?(<?[=!]|P=|\()|(?<!\\)(\\\\)*\\[1-9]")


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that an expression matched, with a version of the cluster's metadata, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Subscribed(Protocol):
    """The part of a group that this module reads: by expression, its members and its topics, in Kafka's order."""

    @property
    def regex_members(self) -> Mapping[str, int]:
        """How many members subscribe with each expression."""

    @property
    def regexes(self) -> Mapping[str, ResolvedRegex]:
        """The resolved expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexChange:
    """A member's expression before and after a request, "" for none."""

    before: str
    after: str

    def drops(self, group: Subscribed) -> bool:
        """Whether no other member has the former expression."""
        changed = self.before != self.after
        return changed and bool(self.before) and group.regex_members.get(self.before, 0) == 1

    def is_new(self, group: Subscribed) -> bool:
        """Whether no member has the new expression yet. Raises ``Refused`` for one that is not valid."""
        if self.before == self.after or not self.after or self.after in group.regex_members:
            return False
        _compiled(self.after)
        return True

    def changes_topics(self, group: Subscribed) -> bool:
        """Whether the member's topics change at once: to those of a resolved expression, or of none."""
        if self.before == self.after:
            return False
        return self.after in group.regexes if self.after else bool(self.before)

    def to_resolve(
        self, group: Subscribed, *, now_ms: int, interval_ms: int, newest_topic: int
    ) -> tuple[str, ...]:
        """The expressions to resolve now, in Kafka's order; none unless it is time to resolve all of them.

        ``newest_topic`` is the version of the metadata with the newest topic.
        """
        is_new = self.is_new(group)
        if not is_new and not group.regex_members:
            return ()
        last = next(iter(group.regexes.values()), None)
        if last is not None and now_ms <= last.timestamp_ms + _LEAST_INTERVAL_MS:
            return ()
        expressions = self._members_after(group)
        stale = last is None or last.version < newest_topic or now_ms > last.timestamp_ms + interval_ms
        if not is_new and not stale and len(expressions) == len(group.regexes):
            return ()
        # A map of the results is made twice, each with as many buckets as expressions.
        for _ in range(2):
            buckets = 1 << (len(expressions) - 1).bit_length()
            expressions = list(HashOrder(java_hash, expressions, buckets=buckets))
        return tuple(expressions)

    def _members_after(self, group: Subscribed) -> list[str]:
        """The expressions with members after the change, in the order of a changed copy of the group's table."""
        counts = dict(group.regex_members)
        order = HashOrder(java_hash, counts, buckets=buckets_for(len(counts)))
        for expression, change in ((self.before, -1), (self.after, 1)):
            if expression:
                counts[expression] = counts.get(expression, 0) + change
                if counts[expression] > 0:
                    order.compute(expression)
                else:
                    order.discard(expression)
        return list(order)


def resolve(expression: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics that an expression matches from beginning to end."""
    pattern = _compiled(expression)
    return frozenset(name for name in topics if pattern.fullmatch(name))


def _compiled(expression: str) -> re.Pattern[str]:
    try:
        if _NOT_IN_RE2.search(expression):
            raise re.error("not in RE2")
        return re.compile(expression)
    except re.error as error:
        raise Refused(Error.INVALID_REGULAR_EXPRESSION) from error
