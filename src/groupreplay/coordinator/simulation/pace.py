"""How long the clients of the simulation need, drawn; with ``Script.exact`` as Kafka's with a quick application."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from groupreplay.coordinator.simulation.script import Script

#: The heartbeats of members that were assigned partitions at the same time.
_HEARTBEATS_APART_MS: Final = 20


def notice_delays_ms(script: Script, numbers: random.Random) -> Iterator[int]:
    """Until each member of a classic group notices a rebalance, with its next heartbeat."""
    interval_ms, first_ms = script.heartbeat_interval_ms, 0
    if script.exact:
        first_ms = numbers.randrange(interval_ms)
        interval_ms = min(_HEARTBEATS_APART_MS, interval_ms)
    while True:
        yield first_ms + 1 + numbers.randrange(interval_ms)


def sync_delay_ms(script: Script, numbers: random.Random, *, leads: bool) -> int:
    """From the answer to a JoinGroup to the SyncGroup; a leader computes the assignment."""
    return numbers.randrange(20, 300) if leads and not script.exact else numbers.randrange(1, 20)
