"""Rebalances in progress, as the snapshot keeps them."""

from __future__ import annotations

import msgspec

from groupreplay.state.events.event import Trigger
from groupreplay.state.kafka_terms import Phase
from groupreplay.state.snapshot.members import Member


class RebalanceInProgress(msgspec.Struct, array_like=True):
    """A classic rebalance that the prober has seen. ``seen``: member and instance ids of its last answer.

    It may have begun up to ``unseen_ms`` before ``since_ms``: after the round before the first that saw it.
    """

    rebalance_id: str
    since_ms: int
    phase: Phase
    seen: tuple[str, ...] = ()
    unseen_ms: int = 10_000


class OpenRound(msgspec.Struct, frozen=True, array_like=True):
    """A rebalance under way in a group of one of the newer kinds; ``members`` are those at its start.

    ``owners_known``: the last owner of every partition is, as the round before was seen or there was none.
    """

    rebalance_id: str
    started_ms: int
    trigger: Trigger
    members: tuple[Member, ...]
    owners_known: bool = False
