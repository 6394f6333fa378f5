"""Commands that deal with a cluster or with our own contract: run, probe, capture, coordinator, schema.

Knows flags and help texts, and the few lines that hand them to the module that does the work; must not import
anything heavy at the top, because ``--help`` is made from here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from groupreplay.streaming.cli.options import (
    TABLE_FORMATS,
    Display,
    ProbesChoice,
    cluster_options,
    display_options,
    find_cluster,
    moment,
    need_cluster,
    need_event_types,
    option,
    output_option,
    pair,
    probes_options,
    redact_options,
    retention_options,
    rules_options,
    sink_options,
    topic_options,
)


@click.command()
@cluster_options
@option("--checkpoint", metavar="FOLDER", required=True, help="Where the job keeps its state; must last.")
@sink_options
@topic_options
@option(
    "--trigger", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Time between batches."
)
@option("--master", help="Spark master; by default this machine, or what spark-submit says.")
@option("--backfill-events", is_flag=True, help="At a first start, emit the events of the past, too.")
@option("--member-events", is_flag=True, help="Emit member.joined, member.left and member.updated, too.")
@option(
    "--probe/--no-probe", default=True, show_default=True, help="Ask the brokers who is rebalancing, too."
)
@option(
    "--probe-interval",
    "probe_interval_seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How often.",
)
@option("--label", "labels", type=pair, multiple=True, metavar="KEY=VALUE", help="Copied into every event.")
@redact_options
@rules_options
@retention_options
@option("--max-offsets-per-trigger", type=int, default=2_000_000, show_default=True, help="Limit of a batch.")
@option("--shuffle-partitions", type=int, default=4, show_default=True, help="Fixed by the first start.")
@option(
    "--ivy-settings", type=click.Path(path_type=Path), metavar="FILE", help="Where jars come from (mirrors)."
)
@option("--spark-conf", type=pair, multiple=True, metavar="KEY=VALUE", help="Any further Spark setting.")
@display_options
@click.pass_obj
@click.pass_context
def run(
    ctx: click.Context,
    display: Display,
    /,
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    sink_bootstrap_server: str | None,
    sink_command_config: Path | None,
    trigger: float,
    topics: dict[str, str],
    labels: Sequence[tuple[str, str]],
    rules: Path | None,
    rule_numbers: Sequence[tuple[str, str]],
    spark_conf: Sequence[tuple[str, str]],
    **settings: Any,
) -> None:
    """Run the job until it is stopped: SIGTERM and Ctrl-C end it between two batches.

    It reads __consumer_offsets, joins no consumer group, and writes what happened to every group to five
    topics, which it creates when it may. Stop it and start it again on the same checkpoint at any time.
    """
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RunSettings, TopicNames
    from groupreplay.streaming.job.run import run as run_job

    ctx.exit(
        run_job(
            RunSettings(
                source=need_cluster(bootstrap_server, command_config),
                sink=find_cluster(sink_bootstrap_server, sink_command_config),
                topics=TopicNames(**topics),
                trigger_seconds=trigger,
                labels=dict(labels),
                rules=RulesSource(path=rules, numbers=rule_numbers),
                spark_conf=dict(spark_conf),
                log_level={"WARNING": "WARN"}.get(display.log_level.upper(), display.log_level.upper()),
                **settings,
            )
        )
    )


@click.command()
@cluster_options
@sink_options
@option("--probes-topic", default="group-probes", show_default=True, metavar="NAME")
@option(
    "--interval",
    type=click.FloatRange(min=1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Between rounds.",
)
@option("--once", is_flag=True, help="Print one round and write nothing.")
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
@click.pass_context
def probe(
    ctx: click.Context,
    display: Display,
    /,
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    sink_bootstrap_server: str | None,
    sink_command_config: Path | None,
    probes_topic: str,
    interval: float,
    once: bool,
    output: str,
) -> None:
    """Ask the brokers which classic groups are rebalancing at this moment, which no log shows.

    Round after round the answers go to the topic group-probes, where the job reads them; the job does the
    same by itself unless it runs with --no-probe. With --once they are printed instead, and nothing is
    written. Rebalances of Kafka Connect workers are not seen.
    """
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.prober import service
    from groupreplay.streaming.text.terminal import Output, show

    source = need_cluster(bootstrap_server, command_config)
    if once:
        taken = service.probe_once(source)
        table, documents = service.round_table(taken.answers), service.round_documents(taken)
        show(table, documents, Output(output), colour=display.colour)
        service.check_round(taken.summary)
        return
    sink = find_cluster(sink_bootstrap_server, sink_command_config) or source
    ctx.exit(service.probe(source, sink, TopicNames(probes=probes_topic), interval))


@click.command()
@cluster_options
@option(
    "--events-topic", default="group-events", show_default=True, metavar="NAME", help="The topic to read."
)
@option("--follow", is_flag=True, help="Go on with what comes; without --since begin with what is new.")
@option("--since", type=moment, metavar="TIME", help="Only what happened then or later; 2h is two hours ago.")
@option("--until", type=moment, metavar="TIME", help="Only what happened before.")
@option("--group", "groups", multiple=True, metavar="GLOB", help="Only these groups; may be repeated.")
@option("--type", "types", multiple=True, metavar="EVENT", help="Only rebalance.stuck and the like.")
@option(
    "--min-severity",
    type=click.Choice(("info", "warn", "error"), case_sensitive=False),
    default="info",
    show_default=True,
    help="Only this and above.",
)
@output_option("table", "jsonl")
@display_options
@click.pass_obj
def events(
    display: Display,
    /,
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    events_topic: str,
    follow: bool,
    since: int | None,
    until: int | None,
    groups: Sequence[str],
    types: Sequence[str],
    min_severity: str,
    output: str,
) -> None:
    """Print the events that the job has written, each once, by time; with --follow those that come, too.

    Reads group-events on the cluster of the job's topics, without joining a group. jsonl prints the
    CloudEvents as they are, one a line.
    """
    from groupreplay.state import Severity
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sinks.event_topic import EventTopic, Wanted
    from groupreplay.streaming.text.event_text import line_of
    from groupreplay.streaming.text.screen import Screen
    from groupreplay.streaming.text.terminal import escape_json

    if follow and until is not None:
        raise click.UsageError("--follow has no end: leave one of --follow and --until away.")
    wanted = Wanted(
        groups=groups,
        least_severity=Severity[min_severity.upper()],
        filter=Filter(types=need_event_types(types), since_ms=since, until_ms=until),
    )
    topic = EventTopic(need_cluster(bootstrap_server, command_config), events_topic, wanted)
    screen = Screen(colour=display.colour)
    for value in topic.read(follow=follow):
        if output == "jsonl":
            click.echo(escape_json(value.decode()))
            continue
        event = json.loads(value)
        line = line_of(event)
        screen.line(replace(line, time=f"{event['time'][:10]} {line.time}"))
    if topic.unreadable:
        click.echo(f"{topic.unreadable} messages in {events_topic} are no events", err=True)


@click.command()
@cluster_options
@option(
    "-o", "--output-file", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The capture."
)
@option(
    "--duration", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="Follow so much longer."
)
@probes_options
@display_options
def capture(
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    output_file: Path,
    duration: float,
    probes: ProbesChoice,
) -> None:
    """Copy everything that the offsets topic holds at this moment into a Parquet file.

    The prober's answers go along, if there are any. The file appears only when it is whole. With --duration
    the copy goes on; Ctrl-C then ends it early and keeps what was read.
    """
    from groupreplay.streaming.inspection.capture import capture as capture_topic
    from groupreplay.streaming.text.terminal import Progress

    cluster = need_cluster(bootstrap_server, command_config)
    with Progress("records copied") as progress:
        count = capture_topic(
            cluster,
            output_file,
            probes=probes.place(cluster),
            follow_seconds=duration,
            progress=progress,
        )
    click.echo(f"{count:,} records in {output_file}", err=True)


@click.command()
@click.argument("group")
@cluster_options
@option(
    "--partitions", type=click.IntRange(min=1), help="Of the offsets topic; 50 unless a cluster is asked."
)
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
def coordinator(
    display: Display,
    /,
    *,
    group: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    partitions: int | None,
    output: str,
) -> None:
    """Print which partition of the offsets topic holds GROUP and, given a cluster, which broker leads it."""
    from groupreplay.streaming.kafka.group_partition import locate
    from groupreplay.streaming.text.terminal import Output, Table, show

    found = locate(group, find_cluster(bootstrap_server, command_config), partitions)
    table = Table(("GROUP", "PARTITION", "COORDINATOR (ID)"), [tuple(found.values())])
    show(table, [found], Output(output), colour=display.colour)


@click.command()
@click.argument("event", required=False)
@option("-o", "--output-folder", type=click.Path(path_type=Path), metavar="FOLDER", help="One file an event.")
@display_options
def schema(*, event: str | None, output_folder: Path | None) -> None:
    """Print the JSON Schema of EVENT (rebalance.completed, for instance), or of all of them by name."""
    from groupreplay.state.output.schemas import json_schemas

    schemas = json_schemas()
    if event is not None and event not in schemas:
        raise click.UsageError(f"There is no event {event!r}; there are {', '.join(schemas)}.")
    chosen = schemas if event is None else {event: schemas[event]}
    if output_folder is None:
        click.echo(json.dumps(chosen if event is None else chosen[event], indent=2))
        return
    output_folder.mkdir(parents=True, exist_ok=True)
    for name, text in chosen.items():
        path = output_folder / f"{name}.json"
        path.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
        click.echo(str(path), err=True)
