"""``groupreplay probe``: the prober without the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from groupreplay.streaming.cli.cluster_flags import (
    ClusterFlags,
    cluster_options,
    sink_options,
    topic_options,
)
from groupreplay.streaming.cli.display import Display, display_options
from groupreplay.streaming.cli.options import TABLE_FORMATS, option, output_option

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.text.terminal import OutputFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """The flags of ``probe``; ``interval`` in seconds."""

    source: ClusterFlags
    sink: ClusterFlags
    topics: TopicNames
    interval: float
    once: bool
    output: OutputFormat


@click.command("probe")
@cluster_options
@sink_options
@topic_options("probes")
@option(
    "--interval",
    type=click.FloatRange(min=1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two probes.",
)
@option("--once", is_flag=True, help="Probe once, print the answers, and write nothing.")
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, display: Display, /, **flags: Any) -> None:
    """Ask the brokers which classic groups are rebalancing now, which the offsets topic does not show.

    Writes the answers to the topic group-probes at a fixed interval, and the job reads them there. The job
    does the same itself unless it runs with --no-probe. With --once the answers are printed instead and
    nothing is written. Rebalances of Kafka Connect workers are not visible to this command.
    """
    from groupreplay.streaming.prober import service
    from groupreplay.streaming.text.terminal import show

    settings = ProbeSettings(**flags)
    source = settings.source.need()
    if settings.once:
        taken = service.probe_once(source)
        table, documents = service.round_table(taken.answers), service.round_documents(taken)
        show(table, documents, settings.output, colour=display.colour)
        service.check_round(taken.summary)
        return
    ctx.exit(service.probe(source, settings.sink.find() or source, settings.topics, settings.interval))
