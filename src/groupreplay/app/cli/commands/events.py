"""``groupreplay events``, ``replay`` and ``offsets-file``: the events of the job, read or made again.

``replay`` makes them from a capture or a live topic, without Spark; ``offsets-file`` prints the offsets from before one
of them, for Kafka's own tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from groupreplay.app.cli.command import display, giving_way, with_settings
from groupreplay.app.cli.flags import (
    ClusterFlags,
    ProbesFlags,
    cluster_flags,
    labels_flag,
    member_events_flag,
    public_url_flag,
    redaction_flags,
    retention_flags,
    rules_flags,
    topic_flags,
)
from groupreplay.app.cli.inputs import (
    LogInput,
    history_flags,
    log_flags,
    log_read,
    nothing_found,
    warn_of_assumptions,
    warn_of_losses,
)
from groupreplay.app.cli.options import (
    complete_since_flag,
    declared_as,
    file_flag,
    groups_flag,
    output_flag,
    processes_flag,
    repeated_flag,
    severity_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.outlets import WebhookFlags, webhook_flags
from groupreplay.app.cli.printing_flags import (
    EventLines,
    TimeRange,
    event_filter,
    event_headings,
    given_flags,
    live_end,
    point_ms,
    time_range,
)
from groupreplay.app.text.times import GivenTime, event_time
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.base.errors import ExitCode

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import LogRead
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags, TopicNames
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import EventTally
    from groupreplay.streaming.sinks.event_topic import EventTopic
    from groupreplay.streaming.sources.source import RecordSource


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
    public_url: str | None = public_url_flag(
        "Address of the live pages (serve): lines of WARN and ERROR end with the page of their group."
    )
    webhook: WebhookFlags = webhook_flags()
    webhook_state: Path | None = file_flag(
        "SQLite file with what was read and has not arrived: a restart goes on where it ended."
    )
    output: Literal["table", "jsonl"] = output_flag("table", "jsonl")


@with_settings("events", EventsSettings)
def events_command(settings: EventsSettings) -> int:
    """Print the events that the job has written, ordered by time, each once.

    Reads the topic group-events on the cluster of the job's topics, without joining a consumer group. With
    --follow, also prints events as they arrive; below them a terminal shows the conditions that are active now.
    The line of a condition's end has the time of its begin. jsonl prints one unchanged CloudEvent per line. With
    --webhook each event also goes to a receiver.
    """
    from groupreplay.streaming.sinks.event_topic import EventTopic, Wanted

    settings = replace(settings, **giving_way({"follow": False, "until": None}))
    if settings.follow and settings.until is not None:
        raise click.UsageError("--follow never ends: leave out either --follow or --until.")
    times = time_range(settings.since, settings.until, settings.zone, live_end)
    source, chosen = settings.source.need(), event_filter(settings.types, settings.min_severity, times)
    topic = EventTopic(source, settings.topics.events, Wanted(groups=settings.groups, filter=chosen))
    lines = EventLines(times, settings.output, follows=settings.follow, public_url=settings.public_url)
    parts = ExitStack()
    try:
        for value in _events(settings, topic, parts):
            lines.print(value)
    finally:
        parts.close()
        lines.close()
        # Also after an interrupt, which is how --follow ends.
        if topic.unreadable:
            click.echo(f"{topic.unreadable} messages in {settings.topics.events} are not events", err=True)
    # What is followed may still come.
    return ExitCode.OK if settings.follow else _topic_exit_code(settings, times, topic)


def _events(settings: EventsSettings, topic: EventTopic, parts: ExitStack) -> Iterator[bytes]:
    """The events of the topic; each goes to the receiver first, if there is one."""
    outlet = settings.webhook.outlet(lambda _: True, settings.public_url)
    if outlet is None:
        if settings.webhook_state is not None:
            raise click.UsageError("--webhook-state has no meaning without --webhook.")
        return topic.read(follow=settings.follow)
    if not settings.follow:
        raise click.UsageError("--webhook needs --follow.")
    from groupreplay.app.cli.forwarding import forwarded

    return forwarded(topic, outlet, settings.webhook_state, parts)


def _topic_exit_code(settings: EventsSettings, times: TimeRange, topic: EventTopic) -> int:
    """Say what was not found; 5 if anything was not."""
    from groupreplay.app.cli.nothing_found import events_read, no_group, no_such

    choice, name = topic.choice, settings.topics.events
    if choice.unmatched and topic.tally.seen:
        return nothing_found(no_group(choice.unmatched, choice, f"the events of {name}", topic.tally.text()))
    if topic.tally.shown:
        return ExitCode.OK
    asked = given_flags({"--group": settings.groups, "--type": settings.types}, times, settings.min_severity)
    contents = "no events"
    if topic.tally.seen:
        contents = events_read(topic.tally, settings.zone)
    elif times.since_ms is not None and (latest := topic.latest_time()) is not None:
        contents = f"older events, the latest of {event_time(latest, settings.zone)} ({settings.zone.name})"
    return nothing_found(no_such("event", asked, name, contents))


_COLOURS: Final = {"WARN": "yellow", "ERROR": "red", "OK": "green"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The flags of ``replay``."""

    log: LogInput = history_flags()
    retention: RetentionFlags = retention_flags()
    groups: Sequence[str] = groups_flag("Only this group")
    types: Sequence[str] = repeated_flag(
        "Only these events, for example rebalance.completed; may be repeated.", "--type", "EVENT"
    )
    min_severity: str = severity_flag()
    since: GivenTime | None = time_flag("Only events at or after this time.")
    until: GivenTime | None = time_flag("Only events before this time.")
    zone: TimeZone = time_zone_flag()
    member_events: bool = member_events_flag()
    complete_since: GivenTime | None = complete_since_flag()
    labels: Mapping[str, str] = labels_flag()
    redaction: Redaction | None = redaction_flags()
    rules: RulesSource = rules_flags()
    processes: int | None = processes_flag()
    output: Literal["table", "jsonl"] = output_flag("table", "jsonl")


@with_settings("replay", ReplaySettings)
def replay_command(settings: ReplaySettings) -> int:
    """Print the events of all groups ordered by time, as the job would emit them, without Spark.

    jsonl prints the job's CloudEvents, one per line. The job has read every record since its first start; here
    --complete-since states since when none is missing.
    """
    from groupreplay.app.text.terminal import Progress
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import EventTally, Replay, events_in_order
    from groupreplay.streaming.sources.source import context_of

    policy = settings.rules.load()
    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    tally = EventTally(event_filter(settings.types, settings.min_severity, times))
    choice = GroupChoice(settings.groups)
    with Progress("records read") as progress:
        rows = settings.log.open((), progress)
        context = context_of(
            rows,
            settings.retention,
            policy=policy,
            complete_since_ms=point_ms(settings.complete_since, settings.zone, settings.log.end),
            member_events=settings.member_events,
            labels=settings.labels,
            redaction=settings.redaction,
        )
        replay = Replay(context, choice, processes=settings.processes)
        sessions = set[tuple[str, str, int]]()
        events = _noting_assumptions(events_in_order(replay.feed(rows), tally), sessions)
        if settings.output == "jsonl":
            _print_jsonl(events, progress.close)
        else:
            _print_lines(events, progress.close, times)
    warn_of_losses(replay)
    if tally.shown:
        warn_of_assumptions(context, rows, sessions=((kind, {name: value}) for kind, name, value in sessions))
    return _replay_exit_code(settings, times, choice, tally, log_read(rows, settings.zone))


def _noting_assumptions(events: Iterable[bytes], noted: set[tuple[str, str, int]]) -> Iterator[bytes]:
    """The same; adds the type of group and each number that an event assumes."""
    for event in events:
        if b'"assumed":{"' in event:
            data = json.loads(event)["data"]
            noted.update((data["group_type"], *number) for number in data["assumed"].items())
        yield event


def _replay_exit_code(
    settings: ReplaySettings, times: TimeRange, choice: GroupChoice, tally: EventTally, log: LogRead
) -> int:
    """Say what was not found; 5 if anything was not."""
    from groupreplay.app.cli.nothing_found import events_read, no_group, no_such

    if choice.unmatched:
        return nothing_found(no_group(choice.unmatched, choice, log.where, log.text()))
    if tally.shown:
        return ExitCode.OK
    asked = given_flags({"--group": settings.groups, "--type": settings.types}, times, settings.min_severity)
    if tally.seen:
        return nothing_found(no_such("event", asked, log.where, events_read(tally, settings.zone)))
    nothing = no_such("event", asked, log.where, log.text())
    if log.extent.records:
        # The groups are there: that no event follows from their records is a whole answer about them.
        nothing = replace(nothing, is_selection=any(not flag.startswith("--group ") for flag in asked))
    return nothing_found(nothing)


def _print_jsonl(events: Iterable[bytes], before: Callable[[], None]) -> None:
    from groupreplay.app.text.terminal import escape_json

    for value in events:
        before()
        click.echo(escape_json(value.decode()))


def _print_lines(events: Iterable[bytes], before: Callable[[], None], times: TimeRange) -> None:
    from groupreplay.app.text.event_text import line_of

    colour = display().colour
    for number, value in enumerate(events):
        before()
        if number == 0:
            for heading in event_headings(times):
                click.echo(click.style(heading, bold=True) if colour else heading)
        line = line_of(json.loads(value), times.zone)
        text = line.plain()
        click.echo(click.style(text, fg=_COLOURS.get(line.label)) if colour else text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFileSettings:
    """The argument and the flags of ``offsets-file``."""

    event_id: str = declared_as(click.argument("event_id"))
    log: LogInput = log_flags()
    retention: RetentionFlags = retention_flags()
    topics: TopicNames = topic_flags("events", "probes")


@with_settings("offsets-file", OffsetsFileSettings)
def offsets_file_command(settings: OffsetsFileSettings) -> None:
    """Print the offsets from before the event EVENT_ID, one line topic,partition,offset each.

    kafka-consumer-groups.sh --reset-offsets --from-file sets them again. The event is read from the topic
    group-events, or with --from-file made again from a capture of the offsets topic.
    """
    from groupreplay.app.inspection.offsets_plan import TYPES, offsets_plan
    from groupreplay.app.text.terminal import safe_line

    probes = ProbesFlags(settings.topics.probes, ClusterFlags(), asked_for=False)
    recorded = replace(settings.log, probes=probes).recorded()
    events, where = (
        _written_events(settings, TYPES) if recorded is None else _replayed_events(settings, recorded)
    )
    plan = offsets_plan(events, settings.event_id, where)
    for line in plan.lines:
        click.echo(line)
    note = f"group: {plan.group_id}"
    if plan.unknown:
        note += f"; left out, because no offset is known before the event: {', '.join(plan.unknown)}"
    click.echo(safe_line(note), err=True)


def _written_events(settings: OffsetsFileSettings, types: frozenset[str]) -> tuple[Iterable[bytes], str]:
    """The events of the topic, and its name."""
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sinks.event_topic import EventTopic, Wanted

    wanted = Wanted(filter=Filter(types=types))
    topic = EventTopic(settings.log.values["source"].need(), settings.topics.events, wanted)
    return topic.read(follow=False), settings.topics.events


def _replayed_events(settings: OffsetsFileSettings, recorded: RecordSource) -> tuple[Iterable[bytes], str]:
    """The events that follow from the records of an input, and its name."""
    from groupreplay.app.text.terminal import Progress
    from groupreplay.streaming.contract.messages import Output
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import context_of

    with Progress("records read") as progress:
        rows = recorded.open(progress=progress)
        messages = Replay(context_of(rows, settings.retention)).feed(rows)
        events = [row.value for row in messages if row.output is Output.EVENTS and row.value]
    return events, rows.where
