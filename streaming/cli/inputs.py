"""What reading commands read: a capture or a live topic, the probes beside it, and the driver for it.

Knows flags and which module opens what; must not know what a command prints. Imports nothing heavy at the top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.cli.options import ProbesChoice, find_cluster

if TYPE_CHECKING:
    from groupreplay.state import Context
    from groupreplay.streaming.config.retention import RetentionFlags
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.kafka.topic_reader import Advance, Rows


@contextmanager
def reading(
    from_file: Sequence[Path],
    bootstrap_server: str | None,
    command_config: Path | None,
    probes: ProbesChoice,
    groups: Sequence[str] | None = None,
    *,
    retention: RetentionFlags,
    rules: Path | None,
    until_ms: int | None,
    member_events: bool = False,
) -> Iterator[tuple[Replay, Rows]]:
    """A driver and what to feed it, with progress shown and bad records mentioned at the end.

    A live topic is known up to this moment, also where nothing was written lately; a capture only up to its
    last record.
    """
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.text.terminal import Progress

    policy = RulesSource(path=rules).load()
    opened_ms = now_ms()
    with Progress("records read") as progress:
        rows = open_rows(from_file, bootstrap_server, command_config, probes=probes, progress=progress)
        rows, is_probed = with_probes(rows)
        context = context_of(
            rows, retention=retention, policy=policy, probing=is_probed, member_events=member_events
        )
        known_ms = None if rows.connection is None else min(opened_ms, until_ms or opened_ms)
        driver = Replay(context, groups, until_ms=until_ms, now_ms=known_ms)
        yield driver, rows
    warn_of_dead_letters(driver.dead_letters)


def with_probes(rows: Rows) -> tuple[Rows, bool]:
    """The same rows, and whether a prober has looked on."""
    from groupreplay.streaming.prober.probe_log import shows_rounds

    is_probed, probes = shows_rounds(rows.probes)
    return replace(rows, probes=probes), is_probed


def need_connection(rows: Rows) -> Connection:
    """The cluster that the rows come from, for --with-lag; a capture has none."""
    if rows.connection is None:
        raise click.UsageError("--with-lag asks a cluster: give --bootstrap-server in place of --from-file.")
    return rows.connection


def context_of(rows: Rows, *, retention: RetentionFlags, **settings: Any) -> Context:
    """What the groups are told, also the names of topics that the log has by id only."""
    from groupreplay.state import Context

    names = rows.connection.topic_names() if rows.connection else rows.topic_names
    settings |= retention.resolve(rows.connection).for_context()
    return Context(cluster_id=rows.cluster_id, era=rows.era, topic_names=names, **settings)


def open_rows(
    from_file: Sequence[Path],
    bootstrap_server: str | None,
    command_config: Path | None,
    partitions: Sequence[int] = (),
    *,
    probes: ProbesChoice | None = None,
    progress: Advance,
) -> Rows:
    """The rows to read, with the probes beside them where those are wanted."""
    if from_file:
        from groupreplay.streaming.inspection.capture_file import read_captures

        topic = "" if probes is None else probes.topic
        return read_captures(from_file, partitions, probes_topic=topic, progress=progress)
    cluster = find_cluster(bootstrap_server, command_config)
    if cluster is None:
        raise click.UsageError("Nothing to read: give --from-file FILE or --bootstrap-server host:port.")
    from groupreplay.streaming.kafka.topic_reader import read_topic

    rows = read_topic(cluster, partitions, progress=progress)
    if probes is None:
        return rows
    from groupreplay.streaming.prober.probe_log import open_probes

    found = open_probes(probes.place(cluster))
    return replace(rows, probes=found.batches if found else (), probes_topic=probes.topic)


def warn_of_dead_letters(count: int) -> None:
    """Says on stderr how many records could not be read, if there are any."""
    if count:
        click.echo(f"{count} records could not be read; groupreplay decode tells which", err=True)
