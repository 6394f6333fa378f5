"""Settings of the job as frozen dataclasses that check their values; they read no flags, files or variables."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from groupreplay.state.policy.context import FIELDS, LEAST_KEY_BYTES, BrokerRelease, Redaction
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.base.files import warn_readable
from groupreplay.streaming.config.rules_file import RulesSource

#: A single run has nothing to wait for; without any pause it would start many empty batches.
_SINGLE_RUN_SECONDS: Final = 1.0
#: What Kafka accepts as the name of a topic (org.apache.kafka.common.internals.Topic).
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def default_master() -> str:
    """Local Spark on up to eight cores, with up to four attempts per task.

    ``local[N]`` allows one attempt only, so one lost connection would fail the batch.
    """
    return f"local[{min(os.cpu_count() or 1, 8)},4]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The address of one Kafka cluster and the client properties for it.

    ``properties`` have Kafka's own (Java) names; they may contain passwords and are left out of ``repr``.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise unusable("the bootstrap server is empty", None, "give --bootstrap-server HOST:PORT")


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
                raise unusable(
                    f"{name!r} is not a valid topic name",
                    None,
                    "use up to 249 letters, digits, dots, underscores and hyphens",
                )
        if len(set(names)) < len(names):
            raise unusable(
                "two output topics have the same name", None, "give each of the five a different name"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFlags:
    """The brokers' retention of committed offsets, and their release; a broker is asked for what is None.

    ``session_settings``: by Kafka's names, those of sessions that are given; a broker is asked for the others.
    """

    retention_minutes: int | None = None
    check_interval_ms: int | None = None
    broker_release: BrokerRelease | None = None
    session_settings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of ``run``.

    ``source`` is the cluster whose groups are followed, ``sink`` the cluster of the five topics (None: the same).
    ``checkpoint`` is a local folder or a URI of a Hadoop file system. ``shuffle_partitions`` is fixed by the first
    start on a checkpoint. ``master`` None: that of spark-submit, otherwise ``default_master()``. ``probe``: ask the
    brokers every ``probe_interval_seconds`` which classic groups are rebalancing. ``ends``: the prober
    also records the ends of partitions every ``ends_interval_seconds``. ``redaction``: fields to replace by hashes in
    events and documents. ``retry_quarantined``: process groups again that were set aside. ``take_over``:
    replace another job that writes to the same topics. ``standby``: wait beside such a job, and go on when it is gone.
    ``once``: read what is there, and end. ``adopt``: the file of a ``watch`` after which a new checkpoint begins.
    ``spark_conf`` overrides the job's own Spark configuration. ``plain_spark``: use no private part of Spark.
    ``log_source`` reads the log: the Kafka ``connector``, ``python``, which is groupreplay in the workers, or ``auto``:
    python where all workers are on this machine and can.
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
    retry_quarantined: bool = False
    take_over: bool = False
    standby: bool = False
    once: bool = False
    adopt: Path | None = None
    probe: bool = True
    probe_interval_seconds: float = 10.0
    ends: bool = True
    ends_interval_seconds: float = 30.0
    retention: RetentionFlags = field(default_factory=RetentionFlags)
    labels: Mapping[str, str] = field(default_factory=dict)
    redaction: Redaction | None = None
    rules: RulesSource = field(default_factory=RulesSource)
    ivy_settings: Path | None = None
    log_level: str = "WARN"
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    plain_spark: bool = False
    log_source: str = "auto"

    def __post_init__(self) -> None:
        if not self.checkpoint.strip():
            raise unusable("the checkpoint is empty", None, "give --checkpoint FOLDER, on persistent storage")
        # Without a pause batches would follow each other at once: with timers, Spark also runs empty batches.
        if self.trigger_seconds < 0.1:
            raise unusable(
                "the trigger is too short", None, "use --trigger 0.1 or more; 10 seconds are usual"
            )
        if self.probe_interval_seconds < 1:
            raise unusable(
                "the probe interval is too short",
                None,
                "use --probe-interval 1 or more; 10 seconds are usual",
            )
        if self.ends_interval_seconds < 1:
            raise unusable(
                "the interval of the ends is too short",
                None,
                "use --ends-interval 1 or more; 30 seconds are usual",
            )
        self._check_standby()
        if self.shuffle_partitions < 1:
            raise unusable(
                "the number of shuffle partitions is too small", None, "use --shuffle-partitions 4"
            )
        if self.max_offsets_per_trigger < 1:
            raise unusable(
                "the maximum number of offsets is too small", None, "use --max-offsets-per-trigger 2000000"
            )

    def _check_standby(self) -> None:
        if self.standby and self.take_over:
            raise unusable(
                "--standby waits for another job, --take-over ends it",
                None,
                "use one of the two: --standby for a service, --take-over for one start by hand",
            )
        if self.standby and self.adopt is not None:
            raise unusable(
                "--standby begins after another job, --adopt after a watch",
                None,
                "start once without --standby; the checkpoint then goes on with it",
            )
        if self.standby and self.once:
            raise unusable(
                "--standby waits for another job for ever, --once ends when everything was read",
                None,
                "use one of the two: --standby for a service, --once for a scheduler",
            )

    @property
    def sink_cluster(self) -> Cluster:
        """The cluster of the five topics."""
        return self.sink or self.source

    @property
    def batch_seconds(self) -> float:
        """The time between two micro-batches."""
        return min(self.trigger_seconds, _SINGLE_RUN_SECONDS) if self.once else self.trigger_seconds


def need_redaction(what: str | None, key_file: Path | None) -> Redaction:
    """A redaction of the comma-separated names; the key is the file's content without surrounding whitespace.

    Raises:
        GroupReplayError: a flag is missing, a name is unknown, or the key cannot be read or is too short.
    """
    names = frozenset(filter(None, (name.strip() for name in (what or "").split(","))))
    if not names or names - FIELDS.keys():
        unknown = ", ".join(sorted(names - FIELDS.keys()))
        what = f"--redact cannot replace {unknown}" if unknown else "--redact has no names"
        raise unusable(what, None, f"give one or more of: {', '.join(FIELDS)}")
    if key_file is None:
        # There are few hosts: without a secret key somebody could try out all hashes within a minute.
        raise unusable("--redact needs --redact-key-file", None, f"create a key: {_make('redact.key')}")
    return Redaction(names, _read(key_file))


def _read(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        what = f"cannot read the key, {error.strerror}"
        raise unusable(what, file, "check the path and its permissions") from None
    warn_readable(file, "key of --redact")
    if len(key) < LEAST_KEY_BYTES:
        raise unusable(f"the key is too short: {len(key)} bytes", file, f"create another: {_make(str(file))}")
    return key


def _make(file: str) -> str:
    return f"(umask 077; openssl rand -hex 32 > {shlex.quote(file)})"
