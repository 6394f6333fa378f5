"""``groupreplay events`` (alias ``watch``): the events that the job has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import click

from groupreplay.streaming.cli.cluster_flags import ClusterFlags, cluster_flags, topic_flags
from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.display import display
from groupreplay.streaming.cli.options import (
    flag,
    output_flag,
    repeated_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.streaming.cli.policy_flags import need_event_types
from groupreplay.streaming.cli.time_range import live_end, time_range
from groupreplay.streaming.text.given_time import GivenTime
from groupreplay.streaming.text.time_zone import TimeZone

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import TopicNames


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSettings:
    """The flags of ``events``."""

    source: ClusterFlags = cluster_flags()
    topics: TopicNames = topic_flags("events")
    follow: bool = switch("Continue with new events; without --since print only new events.")
    since: GivenTime | None = time_flag("Only events at or after this time, or an age such as 2h.")
    until: GivenTime | None = time_flag("Only events before this time.")
    zone: TimeZone = time_zone_flag()
    groups: Sequence[str] = repeated_flag("Only these groups; may be repeated.", "--group", "GLOB")
    types: Sequence[str] = repeated_flag(
        "Only these events, for example rebalance.stuck; may be repeated.", "--type", "EVENT"
    )
    min_severity: str = flag(
        "Lowest severity to print.",
        type=click.Choice(("info", "warn", "error"), case_sensitive=False),
        default="info",
    )
    output: Literal["table", "jsonl"] = output_flag("table", "jsonl")


@with_settings("events", EventsSettings)
def command(settings: EventsSettings) -> None:
    """Print the events that the job has written, ordered by time, each once.

    Reads the topic group-events on the cluster of the job's topics, without joining a consumer group. With
    --follow, also prints events as they arrive, and on a terminal below them what fires now. The end of a
    condition names its begin. jsonl prints one unchanged CloudEvent per line.
    """
    from groupreplay.state import Severity
    from groupreplay.streaming.contract.message_decoder import OBJECTS
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sinks.event_topic import EventTopic, Wanted
    from groupreplay.streaming.text.event_text import line_of
    from groupreplay.streaming.text.screen import Screen
    from groupreplay.streaming.text.terminal import escape_json

    if settings.follow and settings.until is not None:
        raise click.UsageError("--follow never ends: leave out either --follow or --until.")
    types = need_event_types(settings.types)
    times = time_range(settings.since, settings.until, settings.zone, live_end)
    wanted = Wanted(
        groups=settings.groups,
        least_severity=Severity[settings.min_severity.upper()],
        filter=Filter(types=types, since_ms=times.since_ms, until_ms=times.until_ms),
    )
    topic = EventTopic(settings.source.need(), settings.topics.events, wanted)
    screen = Screen(colour=display().colour, follows=settings.follow)
    try:
        for value in topic.read(follow=settings.follow):
            if settings.output == "jsonl":
                click.echo(escape_json(value.decode()))
                continue
            # EventTopic leaves out what cannot be decoded.
            event = OBJECTS.decode(value) or {}
            line = line_of(event)
            screen.event(event, replace(line, time=f"{event['time'][:10]} {line.time}"))
    finally:
        screen.close()
        # Also after an interrupt, which is how --follow ends.
        if topic.unreadable:
            click.echo(f"{topic.unreadable} messages in {settings.topics.events} are not events", err=True)
