"""The command ``simulate``: its flags, and the lines that hand them to the simulation.

Must not import anything heavy at the top, because ``--help`` is made from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from groupreplay.streaming.cli.options import cluster_options, display_options, need_cluster, option

#: The scenarios of `state.simulation.scenarios`, which takes too long to load for a help text; a test compares them.
SCENARIO_NAMES: Final = (
    "mixed",
    "rolling-restart",
    "autoscale",
    "deployment",
    "cluster-restart",
    "irregular",
    "transactions",
    "stuck",
    "storm",
    "flapping",
    "crash-loop",
    "conflict",
    "timeouts",
    "idle",
    "silent",
    "poison",
    "expiry",
    "kip848",
    "migration",
)


@click.command()
@option("--groups", type=click.IntRange(min=1), default=100, show_default=True, help="How many groups.")
@option(
    "--seconds",
    type=click.IntRange(min=1, max=366 * 86_400),
    default=600,
    show_default=True,
    help="How long, in their time.",
)
@option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same files.")
@option("--scenario", type=click.Choice(SCENARIO_NAMES), default="mixed", show_default=True)
@option(
    "--partitions", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Of the offsets topic."
)
@option(
    "--probe-interval",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Between two rounds of a prober; 0: none looks on.",
)
@option(
    "--retention-minutes",
    type=click.IntRange(min=1),
    default=7 * 24 * 60,
    show_default=True,
    help="How long the brokers keep offsets; replay wants to know it, too.",
)
@option("--scala", is_flag=True, help="The older coordinator: no generation 0, no tombstone of it.")
@option("-o", "--output-file", type=click.Path(path_type=Path), metavar="FILE", help="The capture.")
@option("--to-topic", metavar="NAME", help="In place of a capture: a topic, made when it is missing.")
@option(
    "--probes-topic", default="group-probes", show_default=True, metavar="NAME", help="Beside --to-topic."
)
@option(
    "--into-offsets-topic",
    is_flag=True,
    help="Allow --to-topic __consumer_offsets, on a cluster of your own.",
)
@option(
    "--truth-file", type=click.Path(path_type=Path), metavar="FILE", help="By default beside the capture."
)
@cluster_options
@display_options
def simulate(
    *,
    groups: int,
    seconds: int,
    seed: int,
    scenario: str,
    partitions: int,
    probe_interval: int,
    retention_minutes: int,
    scala: bool,
    output_file: Path | None,
    to_topic: str | None,
    probes_topic: str,
    into_offsets_topic: bool,
    truth_file: Path | None,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Write a capture of groups that a model of Kafka's coordinator has made, and the truth about them.

    The truth is in FILE with .truth.jsonl in place of its ending: every change of state of every group, also
    those that no record tells of. The capture can be read by replay, list, describe and decode. With --to-topic
    the records go to a live cluster, and the truth about topic T to T.truth.jsonl.
    """
    if (output_file is None) == (to_topic is None):
        raise click.UsageError("Give either -o FILE or --to-topic NAME.")
    from groupreplay.state.model.requests import Settings
    from groupreplay.state.simulation.simulation import SimulationPlan
    from groupreplay.streaming.simulate.files import truth_path, write_simulation
    from groupreplay.streaming.text.terminal import Bar

    plan = SimulationPlan(
        scenario=scenario,
        groups=groups,
        duration_ms=seconds * 1_000,
        seed=seed,
        partitions=partitions,
        probe_interval_ms=probe_interval * 1_000 or None,
        settings=Settings(retention_ms=retention_minutes * 60_000, scala=scala),
    )
    with Bar("groups simulated") as progress:
        if to_topic is not None:
            from groupreplay.streaming.simulate.topics import Topics, write_to_topic

            truth = truth_file or Path(f"{to_topic}.truth.jsonl")
            topics = Topics(
                cluster=need_cluster(bootstrap_server, command_config),
                topic=to_topic,
                probes_topic=probes_topic,
                offsets_topic=into_offsets_topic,
            )
            count = write_to_topic(plan, topics, truth, progress)
        else:
            assert output_file is not None
            truth = truth_file or truth_path(output_file)
            count = write_simulation(plan, output_file, progress, truth=truth)
    click.echo(f"{count:,} records in {to_topic or output_file}, the truth in {truth}", err=True)
