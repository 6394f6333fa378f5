"""``groupreplay offsets-file``: the offsets before an event, for Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.cluster_flags import ClusterFlags, ProbesFlags, retention_flags, topic_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.inputs import LogInput, log_flags
from groupreplay.app.cli.options import declared_as

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import RetentionFlags, TopicNames
    from groupreplay.streaming.sources.source import RecordSource


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFileSettings:
    """The argument and the flags of ``offsets-file``."""

    event_id: str = declared_as(click.argument("event_id"))
    log: LogInput = log_flags()
    retention: RetentionFlags = retention_flags()
    topics: TopicNames = topic_flags("events", "probes")


@with_settings("offsets-file", OffsetsFileSettings)
def command(settings: OffsetsFileSettings) -> None:
    """Print the offsets from before the event EVENT_ID, one line topic,partition,offset each.

    kafka-consumer-groups.sh --reset-offsets --from-file sets them again. The event is read from the topic
    group-events, or with --from-file made again from a capture of the offsets topic.
    """
    from groupreplay.app.inspection.offsets_plan import TYPES, offsets_plan
    from groupreplay.app.text.terminal import safe_line

    probes = ProbesFlags(settings.topics.probes, ClusterFlags(), asked_for=False)
    recorded = replace(settings.log, probes=probes).recorded()
    events, where = _written(settings, TYPES) if recorded is None else _made_again(settings, recorded)
    plan = offsets_plan(events, settings.event_id, where)
    for line in plan.lines:
        click.echo(line)
    note = f"group: {plan.group_id}"
    if plan.unknown:
        note += f"; left out, because no offset is known before the event: {', '.join(plan.unknown)}"
    click.echo(safe_line(note), err=True)


def _written(settings: OffsetsFileSettings, types: frozenset[str]) -> tuple[Iterable[bytes], str]:
    """The events of the topic, and its name."""
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sinks.event_topic import EventTopic, Wanted

    wanted = Wanted(filter=Filter(types=types))
    topic = EventTopic(settings.log.values["source"].need(), settings.topics.events, wanted)
    return topic.read(follow=False), settings.topics.events


def _made_again(settings: OffsetsFileSettings, recorded: RecordSource) -> tuple[Iterable[bytes], str]:
    """The events that follow from the records of an input, and its name."""
    from groupreplay.app.text.terminal import Progress
    from groupreplay.streaming.contract.messages import Output
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import context_of

    with Progress("records read") as progress:
        rows = recorded.open(progress=progress)
        messages = Replay(context_of(rows, settings.retention)).feed(rows)
        made = [row.value for row in messages if row.output is Output.EVENTS and row.value]
    return made, rows.where
