"""``groupreplay events`` (alias ``watch``): the events that the job has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import click

from groupreplay.app.cli.cluster_flags import ClusterFlags, cluster_flags, topic_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.display import display
from groupreplay.app.cli.file_settings import giving_way
from groupreplay.app.cli.inputs import nothing_found
from groupreplay.app.cli.options import (
    groups_flag,
    output_flag,
    repeated_flag,
    severity_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.policy_flags import need_event_types
from groupreplay.app.cli.time_range import TimeRange, event_headings, given_flags, live_end, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.base.time_zones import TimeZone

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.sinks.event_topic import EventTopic, Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSettings:
    """The flags of ``events``."""

    source: ClusterFlags = cluster_flags()
    topics: TopicNames = topic_flags("events")
    follow: bool = switch("Continue with new events; without --since print only new events.")
    since: GivenTime | None = time_flag("Only events at or after this time, or an age such as 2h.")
    until: GivenTime | None = time_flag("Only events before this time.")
    zone: TimeZone = time_zone_flag()
    groups: Sequence[str] = groups_flag("Only this group")
    types: Sequence[str] = repeated_flag(
        "Only these events, for example rebalance.stuck; may be repeated.", "--type", "EVENT"
    )
    min_severity: str = severity_flag()
    output: Literal["table", "jsonl"] = output_flag("table", "jsonl")


@with_settings("events", EventsSettings)
def command(settings: EventsSettings) -> int:
    """Print the events that the job has written, ordered by time, each once.

    Reads the topic group-events on the cluster of the job's topics, without joining a consumer group. With
    --follow, also prints events as they arrive; below them a terminal shows the conditions that are active now.
    The line of a condition's end has the time of its begin. jsonl prints one unchanged CloudEvent per line.
    """
    from groupreplay.app.text.event_text import line_of
    from groupreplay.app.text.screen import Screen
    from groupreplay.app.text.terminal import escape_json
    from groupreplay.streaming.contract.message_decoder import OBJECTS
    from groupreplay.streaming.sinks.event_topic import EventTopic

    settings = replace(settings, **giving_way({"follow": False, "until": None}))
    if settings.follow and settings.until is not None:
        raise click.UsageError("--follow never ends: leave out either --follow or --until.")
    times = time_range(settings.since, settings.until, settings.zone, live_end)
    topic = EventTopic(settings.source.need(), settings.topics.events, _wanted(settings, times))
    screen = Screen(colour=display().colour, follows=settings.follow)
    try:
        for number, value in enumerate(topic.read(follow=settings.follow)):
            if settings.output == "jsonl":
                click.echo(escape_json(value.decode()))
                continue
            # EventTopic leaves out what cannot be decoded.
            event = OBJECTS.decode(value) or {}
            if number == 0:
                for heading in event_headings(times):
                    screen.heading(heading)
            screen.event(event, line_of(event, settings.zone))
    finally:
        screen.close()
        # Also after an interrupt, which is how --follow ends.
        if topic.unreadable:
            click.echo(f"{topic.unreadable} messages in {settings.topics.events} are not events", err=True)
    # What is followed may still come.
    return ExitCode.OK if settings.follow else _exit_code(settings, times, topic)


def _wanted(settings: EventsSettings, times: TimeRange) -> Wanted:
    from groupreplay.state import Severity
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sinks.event_topic import Wanted

    chosen = Filter(
        types=need_event_types(settings.types),
        since_ms=times.since_ms,
        until_ms=times.until_ms,
        least_severity=Severity[settings.min_severity.upper()],
    )
    return Wanted(groups=settings.groups, filter=chosen)


def _exit_code(settings: EventsSettings, times: TimeRange, topic: EventTopic) -> int:
    """Say what was not found; 5 if anything was not."""
    from groupreplay.app.cli.nothing_found import no_event_in_topic, no_group_in_events

    choice, name = topic.choice, settings.topics.events
    if choice.unmatched and topic.tally.seen:
        return nothing_found(no_group_in_events(choice.unmatched, choice, topic.tally, name))
    if topic.tally.shown:
        return ExitCode.OK
    asked = given_flags({"--group": settings.groups, "--type": settings.types}, times, settings.min_severity)
    latest = None if topic.tally.seen or times.since_ms is None else topic.latest_time()
    return nothing_found(no_event_in_topic(asked, topic.tally, name, settings.zone, latest))
