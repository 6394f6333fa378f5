"""Events as ``replay`` gives them, from the log of a broker and from the probes beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from groupreplay.state import Context
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.kafka.broker_config import effective_retention
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.sources.topic import read_topic
from support.job.captures import printed_by

Json = dict[str, Any]


def replayed_topics(server: str, probes: str, *flags: object) -> list[Json]:
    """The events that the command prints for the log and a topic of probes."""
    words = ("replay", "--bootstrap-server", server, "--probes-topic", probes, "-o", "jsonl", *flags)
    return [json.loads(line) for line in printed_by(*words).splitlines()]


def replayed_log(server: str, **known: Any) -> tuple[list[Json], Replay]:
    """The events of the log alone, with the broker's retention, and the replay with its groups."""
    cluster = Cluster(bootstrap_servers=server)
    log = read_topic(cluster)
    retention = effective_retention(RetentionFlags(), Connection(cluster)).for_context()
    replay = Replay(Context(cluster_id=log.cluster_id, era=log.era, **retention, **known))
    return events_of(replay.feed(log)), replay


def events_of(rows: Iterable[OutputRow]) -> list[Json]:
    """The events among the rows, in their order."""
    return [json.loads(row.value or b"") for row in rows if row.output is Output.EVENTS]


def event_name(event: Json) -> str:
    """The name of an event without the prefix and the version."""
    return str(event["type"]).removeprefix("groupreplay.").removesuffix(".v1")


def named(events: Sequence[Json], name: str, group: str | None = None) -> list[Json]:
    """The events with this name, of one group or of all, in the order of their times."""
    found = [one for one in events if event_name(one) == name]
    mine = [one for one in found if group is None or one["data"]["group_id"] == group]
    return sorted(mine, key=lambda one: str(one["time"]))
