"""How long the clients of the simulation need, drawn; with ``Script.exact`` as Kafka's with a quick application."""

from __future__ import annotations

import random
from typing import Final

from groupreplay.coordinator.simulation.script import Script

#: A heartbeat is at most so late, as its thread and the network are.
_LATE_MS: Final = 20
#: Of so many heartbeats the times are known by the assignment before them; those of later ones are spread by then.
KNOWN_BEATS: Final = 20


def notice_delay_ms(script: Script, numbers: random.Random, since_ms: int) -> int:
    """Until a member of a classic group notices a rebalance, with its next heartbeat, so long after its assignment.

    The timer of heartbeats begins anew with each assignment (``AbstractCoordinator.initiateJoinGroup``).
    """
    interval_ms = script.heartbeat_interval_ms
    if not script.exact or since_ms >= KNOWN_BEATS * interval_ms:
        return 1 + numbers.randrange(interval_ms)
    beat_ms = 0
    while beat_ms <= since_ms:
        beat_ms += interval_ms + numbers.randrange(_LATE_MS)
    return beat_ms - since_ms


def sync_delay_ms(script: Script, numbers: random.Random, *, leads: bool) -> int:
    """From the answer to a JoinGroup to the SyncGroup; a leader computes the assignment."""
    return numbers.randrange(20, 300) if leads and not script.exact else numbers.randrange(1, 20)
