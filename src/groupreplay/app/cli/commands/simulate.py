"""``groupreplay simulate``: a capture of simulated groups, and their true states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.command import giving_way, with_settings
from groupreplay.app.cli.flags import ClusterFlags, cluster_flags, topic_flags
from groupreplay.app.cli.options import file_flag, flag, force_flag, pairs_flag, switch

if TYPE_CHECKING:
    from groupreplay.app.text.terminal import Progress
    from groupreplay.coordinator.simulation.simulation import SimulationPlan
    from groupreplay.streaming.config.settings import TopicNames


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateSettings:
    """The flags of ``simulate``; ``probe_interval`` in seconds."""

    groups: int = flag("Number of groups.", type=click.IntRange(min=1), default=100)
    seconds: int = flag("Simulated time.", type=click.IntRange(min=1, max=366 * 86_400), default=600)
    seed: int = flag("Random seed: the same seed gives the same files.", type=int, default=0)
    scenario: str = flag(
        "What the groups do: one of the scenarios of --list (docs/simulations.md).",
        metavar="NAME",
        default="mixed",
    )
    list_scenarios: bool = flag("Print the scenarios, and end.", "--list", is_flag=True)
    broker_property: Mapping[str, str] = pairs_flag(
        "A setting of the simulated brokers by Kafka's name, such as group.max.size=2; may be repeated.",
        "--broker-property",
    )
    client_property: Mapping[str, str] = pairs_flag(
        "A setting of all simulated clients, such as session.timeout.ms=10000; may be repeated.",
        "--client-property",
    )
    partitions: int | None = flag(
        "offsets.topic.num.partitions of the simulated brokers.", type=click.IntRange(1, 1_000)
    )
    probe_interval: int = flag(
        "Time between two probes of the simulated prober; 0 simulates no prober.",
        type=click.IntRange(min=0),
        default=10,
        metavar="SECONDS",
    )
    retention_minutes: int | None = flag(
        "offsets.retention.minutes of the simulated brokers; give replay the same value.",
        type=click.IntRange(min=1),
    )
    scala: bool = switch("Simulate the older coordinator, the default before Kafka 4.0.")
    output_file: Path | None = file_flag("Capture file to write.", "-o")
    to_topic: str | None = flag("Write to this topic instead of a file; created if missing.", metavar="NAME")
    topics: TopicNames = topic_flags("probes")
    into_offsets_topic: bool = switch("Allow --to-topic __consumer_offsets; only for a cluster of your own.")
    truth_file: Path | None = file_flag("File for the true states; by default next to the capture.")
    trace: bool = switch(
        "Also write every step of the coordinator (requests, timers, votes), to FILE with the ending .trace.jsonl."
    )
    force: bool = force_flag()
    source: ClusterFlags = cluster_flags()

    @property
    def trace_file(self) -> Path | None:
        """The file of ``--trace``; None without it."""
        from groupreplay.app.simulate.files import trace_path

        if not self.trace:
            return None
        return trace_path(self.output_file) if self.output_file else Path(f"{self.to_topic}.trace.jsonl")

    def plan(self) -> SimulationPlan:
        """What to simulate.

        Raises:
            GroupReplayError: the scenario or a setting is unknown or wrong.
        """
        from groupreplay.app.simulate.files import simulation_plan

        short = {
            "offsets.topic.num.partitions": self.partitions,
            "offsets.retention.minutes": self.retention_minutes,
        }
        return simulation_plan(
            self.scenario,
            self.broker_property,
            self.client_property,
            {name: value for name, value in short.items() if value is not None},
            scala=self.scala,
            groups=self.groups,
            duration_ms=self.seconds * 1_000,
            seed=self.seed,
            probe_interval_ms=self.probe_interval * 1_000 or None,
            traced=self.trace,
        )


@with_settings("simulate", SimulateSettings)
def command(settings: SimulateSettings) -> None:
    """Write a capture of groups simulated with a model of Kafka's coordinator, and their true states.

    The true states go to FILE with the ending .truth.jsonl: every state change of every group, including those
    that no record shows. replay, list, describe and decode can read the capture. With --to-topic the records go
    to topic T of a live cluster, the true states to T.truth.jsonl, and the trace to T.trace.jsonl.
    """
    from groupreplay.app.text.terminal import Progress

    empty = {"output_file": None, "to_topic": None, "list_scenarios": False}
    settings = replace(settings, **giving_way(empty, list_scenarios="list"))
    if settings.list_scenarios:
        _print_scenarios()
        return
    if (settings.output_file is None) == (settings.to_topic is None):
        raise click.UsageError("Give either -o FILE or --to-topic NAME.")
    with Progress("groups simulated") as progress:
        count, target, truth = _write(settings, progress)
    trace = settings.trace_file
    traced = "" if trace is None else f", the trace in {trace}"
    click.echo(f"{count:,} records in {target}, the true states in {truth}{traced}", err=True)


def _print_scenarios() -> None:
    """The names and titles of the scenarios."""
    from groupreplay.coordinator.simulation.scenarios import SCENARIOS

    width = max(map(len, SCENARIOS))
    for name, scenario in SCENARIOS.items():
        click.echo(f"{name:{width}}  {scenario.title}")


def _write(settings: SimulateSettings, progress: Progress) -> tuple[int, str, Path]:
    """The number of records, where they are, and the file of the true states."""
    if settings.to_topic is None:
        from groupreplay.app.simulate.files import truth_path, write_simulation

        file = settings.output_file
        assert file is not None
        count = write_simulation(
            settings.plan(),
            file,
            progress,
            truth=settings.truth_file,
            trace=settings.trace_file,
            force=settings.force,
        )
        return count, str(file), settings.truth_file or truth_path(file)
    from groupreplay.app.simulate.topics import SimulationTopics, write_to_topic

    truth = settings.truth_file or Path(f"{settings.to_topic}.truth.jsonl")
    topics = SimulationTopics(
        cluster=settings.source.need(),
        topic=settings.to_topic,
        probes_topic=settings.topics.probes,
        offsets_topic=settings.into_offsets_topic,
    )
    count = write_to_topic(
        settings.plan(), topics, truth, progress, trace=settings.trace_file, force=settings.force
    )
    return count, settings.to_topic, truth
