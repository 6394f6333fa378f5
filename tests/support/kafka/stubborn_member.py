"""A consumer (KIP-848) that is asked to give a partition up and does not.

``stubborn_member.py SERVERS GROUP NAME TOPIC REBALANCE_TIMEOUT_MS``, a process that is ended by its starter.
Its library goes on with heartbeats while the callback hangs; the broker's rebalance timeout has to end it.
"""

from __future__ import annotations

import sys
import threading

from confluent_kafka import Consumer

if __name__ == "__main__":
    servers, group, name, topic, timeout_ms = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": name,
            "group.protocol": "consumer",
            # What the library tells the broker as its rebalance timeout.
            "max.poll.interval.ms": int(timeout_ms),
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic], on_revoke=lambda *_: threading.Event().wait())
    while True:
        # Inside a call that waits, time does not count towards max.poll.interval.ms.
        consumer.poll(0.5)
