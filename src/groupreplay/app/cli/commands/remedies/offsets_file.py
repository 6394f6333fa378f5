"""``groupreplay offsets-file``: the offsets before an event, for Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.cluster_flags import ClusterFlags, ProbesFlags, retention_flags, topic_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.inputs import LogInput, context_of, log_flags, reading
from groupreplay.app.cli.options import declared_as

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import RetentionFlags, TopicNames


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

    events, where = _captured(settings) if settings.log.from_file else _written(settings, TYPES)
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
    topic = EventTopic(settings.log.source.need(), settings.topics.events, wanted)
    return topic.read(follow=False), settings.topics.events


def _captured(settings: OffsetsFileSettings) -> tuple[Iterable[bytes], str]:
    """The events of the captures, and their names."""
    from groupreplay.streaming.contract.messages import Output
    from groupreplay.streaming.engine.replay import Replay

    probes = ProbesFlags(
        settings.topics.probes, ClusterFlags(bootstrap_server=None, command_config=None), asked_for=False
    )
    log = LogInput(from_file=settings.log.from_file, source=settings.log.source, probes=probes)
    with reading(log) as (rows, is_probed):
        context = context_of(rows, retention=settings.retention, probing=is_probed)
        made = [row.value for row in Replay(context).feed(rows) if row.output is Output.EVENTS and row.value]
    return made, ", ".join(map(str, settings.log.from_file))
