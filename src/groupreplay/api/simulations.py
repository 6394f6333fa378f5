"""Captures of simulated groups: ``simulate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from groupreplay.api.sources import public


@dataclass(frozen=True, slots=True)
class Simulation:
    """The capture of a simulation, the true states of its groups, and the number of records."""

    path: Path
    truth: Path
    records: int


@public
def simulate(
    scenario: str,
    path: str | Path,
    *,
    groups: int = 100,
    seconds: int = 600,
    seed: int = 0,
    probe_interval: int = 10,
    brokers: Mapping[str, str] | None = None,
    clients: Mapping[str, str] | None = None,
    force: bool = False,
) -> Simulation:
    """Write a capture of groups simulated with a model of Kafka's coordinator, and their true states beside it.

    >>> import groupreplay
    >>> simulation = groupreplay.simulate("steady", "night.parquet", groups=2, seconds=60)
    >>> simulation.truth.name, len(groupreplay.list_groups("night.parquet"))
    ('night.truth.jsonl', 2)

    ``scenario`` is one of ``groupreplay simulate --list``. ``brokers`` and
    ``clients`` are settings with Kafka's names. The same arguments give the same bytes.

    Raises:
        GroupReplayError: there is no such scenario or setting, or a file exists and ``force`` is false.
    """
    from groupreplay.app.cli.commands.simulate import SimulateSettings
    from groupreplay.app.cli.flags import ClusterFlags
    from groupreplay.app.simulate.files import truth_path, write_simulation
    from groupreplay.streaming.config.settings import TopicNames

    settings = SimulateSettings(
        groups=groups,
        seconds=seconds,
        seed=seed,
        scenario=scenario,
        list_scenarios=False,
        broker_property=dict(brokers or {}),
        client_property=dict(clients or {}),
        partitions=None,
        probe_interval=probe_interval,
        retention_minutes=None,
        scala=False,
        output_file=Path(path),
        to_topic=None,
        topics=TopicNames(),
        into_offsets_topic=False,
        truth_file=None,
        trace=False,
        force=force,
        source=ClusterFlags(),
    )
    records = write_simulation(settings.plan(), Path(path), force=force)
    return Simulation(Path(path), truth_path(Path(path)), records)
