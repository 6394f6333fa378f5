"""A consumer (KIP-848) that never revokes a partition that the broker asks it to revoke.

``stubborn_member.py SERVERS GROUP NAME TOPIC REBALANCE_TIMEOUT_MS`` runs until its parent ends it. The library keeps
sending heartbeats while the callback hangs, so only the broker's rebalance timeout removes the member.
"""

from __future__ import annotations

import sys
import threading


def stubborn_command(servers: str, group: str, name: str, topic: str, rebalance_timeout_ms: int) -> list[str]:
    """The command line of such a member."""
    return [sys.executable, __file__, servers, group, name, topic, str(rebalance_timeout_ms)]


if __name__ == "__main__":
    from confluent_kafka import Consumer

    servers, group, name, topic, timeout_ms = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": name,
            "group.protocol": "consumer",
            # The library sends this to the broker as its rebalance timeout.
            "max.poll.interval.ms": int(timeout_ms),
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic], on_revoke=lambda *_: threading.Event().wait())
    while True:
        # Time that is spent inside poll() does not count towards max.poll.interval.ms.
        consumer.poll(0.5)
