"""Departures on a broker of their own, recorded: the capture, the broker's log, and what was done."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupreplay.streaming.local.broker import DEFAULT_VERSION, EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.departures.broker_words import endings
from support.departures.plan import Cell
from support.departures.player import Departed, Player, read_truth, write_truth
from support.departures.scores import Score, left_events, score
from support.job.captures import GROUPREPLAY

#: Kafka's defaults, in place of the short ones of the embedded broker; a group may choose shorter sessions for itself.
DEFAULTS: Final[Mapping[str, object]] = {
    "group.min.session.timeout.ms": 6_000,
    "group.initial.rebalance.delay.ms": 3_000,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
}
#: Sessions of KIP-848 that the broker has shortened.
SHORTENED: Final[Mapping[str, object]] = {
    **DEFAULTS,
    "group.consumer.session.timeout.ms": 8_000,
    "group.consumer.heartbeat.interval.ms": 2_000,
}


@dataclass(frozen=True)
class Recording:
    """The files of one broker."""

    capture: Path
    log: Path
    done: Sequence[Departed]

    def score(self, *, probed: bool = True) -> Score:
        """What is said, beside what the broker has logged."""
        return score(self.done, left_events(self.capture, probed=probed), endings(self.log))


def recorded_or_played(
    folder: Path,
    name: str,
    cells: Sequence[Cell],
    settings: Mapping[str, object],
    show: Callable[[str], None],
) -> Recording:
    """What the folder has of this name; if that is nothing, the cells are played, and the folder keeps them."""
    truth = folder / f"{name}-truth.jsonl"
    if not truth.exists():
        write_truth(truth, record(folder, name, cells, settings, show).done)
    return Recording(folder / f"{name}.parquet", folder / f"{name}.log", read_truth(truth))


def record(
    folder: Path,
    name: str,
    cells: Sequence[Cell],
    settings: Mapping[str, object],
    show: Callable[[str], None],
    seconds: float | None = None,
    version: str = DEFAULT_VERSION,
) -> Recording:
    """Play the cells on a broker with these settings, with a prober beside it; ``seconds`` is as for ``Player``."""
    # It reports every JVM that is killed.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    capture, log = folder / f"{name}.parquet", folder / f"{name}.log"
    with EmbeddedBroker(version, overrides=settings) as broker:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        with GuardedProcess([*GROUPREPLAY, "probe", *at], folder / f"{name}-prober.log"):
            player = Player(broker.bootstrap_servers, cells, lambda line: show(f"{name}: {line}"), seconds)
            done = player.play()
        subprocess.run([*GROUPREPLAY, "capture", *at, "-o", str(capture)], check=True, capture_output=True)
        shutil.copy(broker.log_path, log)
    return Recording(capture, log, done)
