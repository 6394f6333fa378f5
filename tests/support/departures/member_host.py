"""Consumers (librdkafka) in one process, which can be stopped or killed with all of them.

``member_host.py`` reads one JSON object a line from its standard input: ``{"do": "start", "name": ..., "topic": ...,
"settings": {...}}``, or ``close``, ``unsubscribe``, ``hang`` (poll no more) or ``block`` (the next revocation never
ends).
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

_FOR_EVER = threading.Event()


class Member:
    """A consumer that its own thread polls."""

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        self.wish = ""
        self._blocks = False
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_revoke=self._revoked)
        threading.Thread(target=self._poll, daemon=True).start()

    def block(self) -> None:
        self._blocks = True

    def _revoked(self, *_: object) -> None:
        if self._blocks:
            # Inside poll(): the library does not count the time towards max.poll.interval.ms.
            _FOR_EVER.wait()

    def _poll(self) -> None:
        while not self.wish:
            self._consumer.poll(0.5)
        if self.wish == "close":
            self._consumer.close()
        elif self.wish == "unsubscribe":
            self._consumer.unsubscribe()
            while True:
                self._consumer.poll(0.5)


def main() -> None:
    """Obeys until the standard input ends."""
    members: dict[str, Member] = {}
    for line in sys.stdin:
        told = json.loads(line)
        name, action = told["name"], told["do"]
        if action == "start":
            members[name] = Member(told["topic"], told["settings"])
        elif action == "block":
            members[name].block()
        else:
            members[name].wish = action


if __name__ == "__main__":
    main()
