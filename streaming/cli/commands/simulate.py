"""``groupreplay simulate``: a capture of simulated groups, and their true states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupreplay.streaming.cli.cluster_flags import ClusterFlags, cluster_options, topic_options
from groupreplay.streaming.cli.display import display_options
from groupreplay.streaming.cli.options import file_option, option

if TYPE_CHECKING:
    from groupreplay.state.simulation.simulation import SimulationPlan
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.text.terminal import Bar

#: The names of ``state.simulation.scenarios.SCENARIOS``, whose import would slow down --help; a test compares them.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateSettings:
    """The flags of ``simulate``; ``probe_interval`` in seconds."""

    groups: int
    seconds: int
    seed: int
    scenario: str
    partitions: int
    probe_interval: int
    retention_minutes: int
    scala: bool
    output_file: Path | None
    to_topic: str | None
    topics: TopicNames
    into_offsets_topic: bool
    truth_file: Path | None
    source: ClusterFlags

    def plan(self) -> SimulationPlan:
        """What to simulate."""
        from groupreplay.state.model.requests import Settings
        from groupreplay.state.simulation.simulation import SimulationPlan

        return SimulationPlan(
            scenario=self.scenario,
            groups=self.groups,
            duration_ms=self.seconds * 1_000,
            seed=self.seed,
            partitions=self.partitions,
            probe_interval_ms=self.probe_interval * 1_000 or None,
            settings=Settings(retention_ms=self.retention_minutes * 60_000, scala=self.scala),
        )


@click.command("simulate")
@option("--groups", type=click.IntRange(min=1), default=100, show_default=True, help="Number of groups.")
@option(
    "--seconds",
    type=click.IntRange(min=1, max=366 * 86_400),
    default=600,
    show_default=True,
    help="Simulated time.",
)
@option(
    "--seed", type=int, default=0, show_default=True, help="Random seed: the same seed gives the same files."
)
@option(
    "--scenario",
    type=click.Choice(SCENARIO_NAMES),
    default="mixed",
    show_default=True,
    help="What the groups do (docs/simulations.md).",
)
@option(
    "--partitions",
    type=click.IntRange(1, 1_000),
    default=50,
    show_default=True,
    help="Number of partitions of the offsets topic.",
)
@option(
    "--probe-interval",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time between two probes of the simulated prober; 0 simulates no prober.",
)
@option(
    "--retention-minutes",
    type=click.IntRange(min=1),
    default=7 * 24 * 60,
    show_default=True,
    help="offsets.retention.minutes of the simulated brokers; give replay the same value.",
)
@option(
    "--scala",
    is_flag=True,
    help="Simulate the older coordinator: no record of generation 0, nor its tombstone.",
)
@file_option("-o", "--output-file", help="Capture file to write.")
@option("--to-topic", metavar="NAME", help="Write to this topic instead of a file; created if missing.")
@topic_options("probes")
@option(
    "--into-offsets-topic",
    is_flag=True,
    help="Allow --to-topic __consumer_offsets; only for a cluster of your own.",
)
@file_option("--truth-file", help="File for the true states; by default next to the capture.")
@cluster_options
@display_options
def command(**flags: Any) -> None:
    """Write a capture of groups simulated with a model of Kafka's coordinator, and their true states.

    The true states go to FILE with the ending .truth.jsonl: every state change of every group, including those
    that no record shows. replay, list, describe and decode can read the capture. With --to-topic the records go
    to a live cluster, and the true states of topic T to T.truth.jsonl.
    """
    from groupreplay.streaming.text.terminal import Bar

    settings = SimulateSettings(**flags)
    if (settings.output_file is None) == (settings.to_topic is None):
        raise click.UsageError("Give either -o FILE or --to-topic NAME.")
    with Bar("groups simulated") as progress:
        count, target, truth = _write(settings, progress)
    click.echo(f"{count:,} records in {target}, the true states in {truth}", err=True)


def _write(settings: SimulateSettings, progress: Bar) -> tuple[int, str, Path]:
    """The number of records, where they are, and the file of the true states."""
    if settings.to_topic is None:
        from groupreplay.streaming.simulate.files import truth_path, write_simulation

        file = settings.output_file
        assert file is not None
        truth = settings.truth_file or truth_path(file)
        return write_simulation(settings.plan(), file, progress, truth=truth), str(file), truth
    from groupreplay.streaming.simulate.topics import SimulationTopics, write_to_topic

    truth = settings.truth_file or Path(f"{settings.to_topic}.truth.jsonl")
    topics = SimulationTopics(
        cluster=settings.source.need(),
        topic=settings.to_topic,
        probes_topic=settings.topics.probes,
        offsets_topic=settings.into_offsets_topic,
    )
    return write_to_topic(settings.plan(), topics, truth, progress), settings.to_topic, truth
