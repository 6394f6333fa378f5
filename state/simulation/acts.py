"""What can happen to the clients of a simulated group, and the script that says when it does.

Knows the words of a script; must not know a scenario (`client_scripts`) nor how a client talks to its coordinator
(`simulated_group`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Verb(str, Enum):
    """What happens to a client."""

    START = "it starts"
    STOP = "it ends in order: a dynamic member leaves, a static one is silent"
    KILL = "it is gone without a word"
    HANG = "it sends heartbeats, and nothing else any more, until it has not polled for too long and leaves"
    WAKE = "it goes on"


@dataclass(frozen=True, slots=True)
class Act:
    """At a time since the script's beginning something happens to the client of this number."""

    at_ms: int
    verb: Verb
    client: int


class Committer(str, Enum):
    """Who commits a group's offsets."""

    CONSUMERS = "its consumers"
    PRODUCERS = "producers, each time in a transaction"
    BOTH = "now the one, now the other, which Kafka warns of"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The life of one group.

    ``alone``: its client commits offsets without being a member. ``irregular``: commits come at any distance,
    those of ``commit_interval_ms`` being the most frequent. ``repeats``: the share of commits that find nothing
    new. The offset of partition 0 stays as it is from ``poisoned_ms`` on. ``namesakes``: clients that were given
    the instance id of another one by mistake. ``consumer_starts``: the starts of a client, from 1, after which it
    speaks KIP-848.
    """

    acts: tuple[Act, ...]
    static: bool = False
    cooperative: bool = False
    alone: bool = False
    consumer_starts: range = range(0)
    partitions: int = 6
    commit_interval_ms: int = 5_000
    irregular: bool = False
    repeats: float = 0.0
    committer: Committer = Committer.CONSUMERS
    poisoned_ms: int | None = None
    namesakes: Mapping[int, int] = field(default_factory=dict)
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000


def most_at_once(acts: Iterable[Act]) -> int:
    """How many clients run at the same time, at most."""
    running: set[int] = set()
    most = 0
    for act in acts:
        if act.verb is Verb.START:
            running.add(act.client)
        elif act.verb in (Verb.STOP, Verb.KILL):
            running.discard(act.client)
        most = max(most, len(running))
    return most
