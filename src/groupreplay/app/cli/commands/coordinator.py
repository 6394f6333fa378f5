"""``groupreplay coordinator``: the partition and the coordinator of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.cluster_flags import ClusterFlags, cluster_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.options import TABLE_FORMATS, declared_as, flag, output_flag
from groupreplay.app.cli.table_flags import TableFlags, table_flags

if TYPE_CHECKING:
    from groupreplay.app.text.tables import OutputFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The argument and the flags of ``coordinator``; ``partitions`` of the offsets topic."""

    group: str = declared_as(click.argument("group"))
    source: ClusterFlags = cluster_flags()
    partitions: int | None = flag(
        "Number of partitions of the offsets topic; by default that of the cluster, or 50.",
        type=click.IntRange(min=1),
    )
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()


@with_settings("coordinator", CoordinatorSettings)
def command(settings: CoordinatorSettings) -> None:
    """Print the partition of the offsets topic that holds GROUP and, given a cluster, its leader.

    The leader of that partition is the group's coordinator.
    """
    from groupreplay.app.text.tables import Table
    from groupreplay.streaming.kafka.group_partition import locate

    found = locate(settings.group, settings.source.find(), settings.partitions)
    table = Table(
        ("GROUP", "PARTITION", "COORDINATOR (ID)"),
        [tuple(found[name] for name in ("group_id", "partition", "coordinator"))],
    )
    settings.table.print([table], [found], settings.output)
    if found["assumed"]:
        count = found["partitions"]
        what = f"assumed: {count} partitions, Kafka's default of offsets.topic.num.partitions"
        click.echo(f"{what}; --bootstrap-server asks a cluster, --partitions gives the number", err=True)
    if found["coordinator"] is None and settings.source.find() is not None:
        click.echo(f"partition {found['partition']} has no leader now", err=True)
