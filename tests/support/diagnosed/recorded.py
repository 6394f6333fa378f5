"""Real incidents recorded on brokers of their own, and what ``groupreplay explain`` says of each from the capture."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.departures.recorded import SHORTENED
from support.diagnosed.real_incidents import RealIncident
from support.diagnosed.stage import Play, play
from support.job.captures import GROUPREPLAY, printed_by

_USUAL: Final = {**SHORTENED, "group.consumer.session.timeout.ms": 20_000}
#: Brokers by name; what an administrator does to a whole broker happens on one of its own.
BROKERS: Final[Mapping[str, Mapping[str, object]]] = {
    "usual": _USUAL,
    "brief retention": {
        **_USUAL,
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 5_000,
    },
    "small records": _USUAL,
}


def record_incidents(folder: Path, incidents: Sequence[RealIncident], show: Callable[[str], None]) -> None:
    """Plays them; the captures are in the folder then.

    Raises:
        AssertionError: a play has failed.
    """
    # It reports every JVM that is killed.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with ThreadPoolExecutor(len(BROKERS)) as pool:
        played = [
            pool.submit(
                record_broker,
                capture_of(folder, those[0]),
                settings,
                {incident.group: incident.play for incident in those},
                show,
            )
            for name, settings in BROKERS.items()
            if (those := [incident for incident in incidents if incident.broker == name])
        ]
        for recording in played:
            recording.result()


def capture_of(folder: Path, incident: RealIncident) -> Path:
    """The capture of the broker on which it was played."""
    return folder / f"{incident.broker.replace(' ', '-')}.parquet"


def record_broker(
    capture: Path,
    settings: Mapping[str, object],
    plays: Mapping[str, Play],
    show: Callable[[str], None],
) -> None:
    """Plays on a broker with these settings beside a prober; group id -> play.

    Raises:
        AssertionError: a play has failed.
    """
    with EmbeddedBroker(overrides=settings) as broker:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        with GuardedProcess([*GROUPREPLAY, "probe", *at], capture.with_suffix(".log")):
            play(broker.bootstrap_servers, plays, show)
        subprocess.run([*GROUPREPLAY, "capture", *at, "-o", str(capture)], check=True, capture_output=True)


def explained(folder: Path, incident: RealIncident) -> list[dict[str, Any]]:
    """The diagnosis of its group, as the command prints it from the capture."""
    capture = capture_of(folder, incident)
    told = json.loads(printed_by("explain", incident.group, "--from-file", capture, "-o", "json"))
    (explanation,) = told if isinstance(told, list) else [told]
    return list(explanation["diagnosis"])
