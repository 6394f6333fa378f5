"""``groupreplay probe``: the prober without the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.cluster_flags import ClusterFlags, cluster_flags, sink_flags, topic_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.options import TABLE_FORMATS, flag, output_flag, switch
from groupreplay.app.cli.table_flags import TableFlags, table_flags
from groupreplay.streaming.base.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupreplay.app.text.tables import OutputFormat, Table
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.contract.probe_messages import GroupAnswer


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
        table, documents = answers_table(taken.answers), service.round_documents(taken)
        settings.table.print([table], documents, settings.output)
        service.check_round(taken.summary)
        return ExitCode.OK
    return service.probe(source, settings.sink.find() or source, settings.topics, settings.interval)


def answers_table(answers: Iterable[GroupAnswer]) -> Table:
    """The answers of one round, a row for each group that is rebalancing."""
    from groupreplay.app.text.tables import Table

    rows = []
    for answer in answers:
        names = [member.instance_id or f"{member.client_id}{member.client_host}" for member in answer.members]
        rows.append((answer.group_id, answer.broker, answer.state, len(names), ", ".join(names)))
    return Table(("GROUP", "BROKER", "STATE", "#MEMBERS", "MEMBERS"), rows)
