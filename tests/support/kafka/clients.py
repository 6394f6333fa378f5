"""Consumers with the settings that most tests need."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer


def new_consumer(servers: str, group: str, *topics: str, **settings: Any) -> Consumer:
    """A consumer without automatic commits, subscribed to these topics; ``_`` in names of settings stands for a dot."""
    made = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    if topics:
        made.subscribe(list(topics))
    return made
