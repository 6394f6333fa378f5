"""``groupreplay probe``: the prober without the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.cli.cluster_flags import ClusterFlags, cluster_flags, sink_flags, topic_flags
from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.options import TABLE_FORMATS, flag, output_flag, switch
from groupreplay.streaming.cli.table_flags import TableFlags, table_flags

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.text.terminal import OutputFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """The flags of ``probe``; ``interval`` in seconds."""

    source: ClusterFlags = cluster_flags()
    sink: ClusterFlags = sink_flags()
    topics: TopicNames = topic_flags("probes")
    interval: float = flag(
        "Time between two probes.", type=click.FloatRange(min=1), default=10.0, metavar="SECONDS"
    )
    once: bool = switch("Probe once, print the answers, and write nothing.")
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()


@with_settings("probe", ProbeSettings)
def command(settings: ProbeSettings) -> int:
    """Ask the brokers which classic groups are rebalancing now, which the offsets topic does not show.

    Writes the answers to the topic group-probes at a fixed interval, and the job reads them there. The job
    does the same itself unless it runs with --no-probe. With --once the answers are printed instead and
    nothing is written. Rebalances of Kafka Connect workers are not visible to this command.
    """
    from groupreplay.streaming.prober import service

    source = settings.source.need()
    if settings.once:
        taken = service.probe_once(source)
        table, documents = service.round_table(taken.answers), service.round_documents(taken)
        settings.table.print([table], documents, settings.output)
        service.check_round(taken.summary)
        return ExitCode.OK
    return service.probe(source, settings.sink.find() or source, settings.topics, settings.interval)
