"""What a run of the job can be told: frozen, checked once, passed down.

Knows names, defaults and limits; must not read flags, files or the environment (cli.py does).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from groupreplay.state.policy.redaction import Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.rules_file import RulesSource

#: What Kafka accepts as the name of a topic (org.apache.kafka.common.internals.Topic).
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def default_master() -> str:
    """Spark in this process, on up to eight cores; a task may fail three times before its batch does.

    ``local[N]`` allows a single failure, which one lost connection would use up.
    """
    return f"local[{min(os.cpu_count() or 1, 8)},4]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How to reach one Kafka cluster.

    ``properties`` are those of a Kafka client properties file, under Kafka's own (Java) names; they may hold
    passwords and so are left out of every text form.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise _unusable("no bootstrap server is given", "add --bootstrap-server host:port")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNames:
    """The five topics that the job writes (docs/events.md)."""

    events: str = "group-events"
    states: str = "group-states"
    dead_letters: str = "group-dead-letters"
    job: str = "group-job"
    probes: str = "group-probes"

    def __post_init__(self) -> None:
        names = [getattr(self, item.name) for item in fields(self)]
        for name in names:
            if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
                raise _unusable(
                    f"{name!r} cannot be the name of a topic",
                    "use up to 249 letters, digits, dots, underscores and hyphens",
                )
        if len(set(names)) < len(names):
            raise _unusable("two output topics have the same name", "give each of the five a name of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFlags:
    """The brokers' retention of committed offsets; a broker is asked for what is None."""

    retention_minutes: int | None = None
    check_interval_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Everything ``run`` can be told.

    ``source`` is the watched cluster and ``sink`` the one that gets the five topics (None: the same).
    ``checkpoint`` is a local folder or a URI of a Hadoop file system. ``shuffle_partitions`` is frozen by the
    first start on a checkpoint. ``master`` None leaves the choice to spark-submit, or else takes
    ``default_master()``. ``probe``: every ``probe_interval_seconds`` the brokers are asked which classic
    groups are rebalancing. ``retention`` is what the brokers need not be asked, ``redaction`` what events and
    documents hide. ``spark_conf`` are further Spark options, which win over ours.
    """

    source: Cluster
    checkpoint: str
    sink: Cluster | None = None
    topics: TopicNames = field(default_factory=TopicNames)
    trigger_seconds: float = 10.0
    master: str | None = None
    shuffle_partitions: int = 4
    max_offsets_per_trigger: int = 2_000_000
    backfill_events: bool = False
    member_events: bool = False
    probe: bool = True
    probe_interval_seconds: float = 10.0
    retention: RetentionFlags = field(default_factory=RetentionFlags)
    labels: Mapping[str, str] = field(default_factory=dict)
    redaction: Redaction | None = None
    rules: RulesSource = field(default_factory=RulesSource)
    ivy_settings: Path | None = None
    log_level: str = "WARN"
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.checkpoint.strip():
            raise _unusable("no checkpoint is given", "add --checkpoint FOLDER, on a disk that stays")
        # Every batch without a pause would follow the last one at once: timers make Spark run empty ones too.
        if self.trigger_seconds < 0.1:
            raise _unusable("the trigger is too short", "use --trigger 0.1 or more; 10 seconds are usual")
        if self.probe_interval_seconds < 1:
            raise _unusable(
                "the prober would ask too often", "use --probe-interval 1 or more; 10 seconds are usual"
            )
        if self.shuffle_partitions < 1:
            raise _unusable("there must be at least one shuffle partition", "use --shuffle-partitions 4")
        if self.max_offsets_per_trigger < 1:
            raise _unusable("a batch must hold at least one offset", "use --max-offsets-per-trigger 2000000")

    @property
    def sink_cluster(self) -> Cluster:
        """Where the five topics are."""
        return self.sink or self.source


def _unusable(what: str, fix: str) -> GroupReplayError:
    return GroupReplayError(what, fix=fix, exit_code=ExitCode.USAGE)
