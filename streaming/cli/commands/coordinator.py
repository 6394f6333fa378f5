"""``groupreplay coordinator``: the partition and the coordinator of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from groupreplay.streaming.cli.cluster_flags import ClusterFlags, cluster_options
from groupreplay.streaming.cli.display import Display, display_options
from groupreplay.streaming.cli.options import TABLE_FORMATS, option, output_option

if TYPE_CHECKING:
    from groupreplay.streaming.text.terminal import OutputFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The argument and the flags of ``coordinator``; ``partitions`` of the offsets topic."""

    group: str
    source: ClusterFlags
    partitions: int | None
    output: OutputFormat


@click.command("coordinator")
@click.argument("group")
@cluster_options
@option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions of the offsets topic; by default that of the cluster, or 50.",
)
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
def command(display: Display, /, **flags: Any) -> None:
    """Print the partition of the offsets topic that holds GROUP and, given a cluster, its leader.

    The leader of that partition is the group's coordinator.
    """
    from groupreplay.streaming.kafka.group_partition import locate
    from groupreplay.streaming.text.terminal import Table, show

    settings = CoordinatorSettings(**flags)
    found = locate(settings.group, settings.source.find(), settings.partitions)
    table = Table(("GROUP", "PARTITION", "COORDINATOR (ID)"), [tuple(found.values())])
    show(table, [found], settings.output, colour=display.colour)
