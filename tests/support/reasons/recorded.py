"""Brokers on which stories were told: the events beside their logs, and how many of the reasons are right."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Final

from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import printed_by
from support.kafka.live_groups import World
from support.reasons.stories import (
    OLD_ROUNDS,
    OTHER_TOPIC,
    PARTITIONS,
    ROUNDS,
    SESSION_MS,
    TOPIC,
    Deed,
    Teller,
)

RELEASES: Final = ("3.9.1", "4.3.1", "4.4.0")
_SETTINGS: Final[Mapping[str, object]] = {
    f"group.{kind}.session.timeout.ms": SESSION_MS for kind in ("consumer", "share", "streams")
}
_LINE: Final = re.compile(r"^(?P<time>\S+) \[.*?\] INFO \S+ - (?P<message>.*)$", re.MULTILINE)
_PREPARED: Final = re.compile(
    r"Preparing to rebalance group (.+) in state \w+ with old generation (\d+) .*?\(reason: (.*)\)\.?$"
)
#: Before the time of a record there may be this much until its line is written, and behind it.
_SLACK_MS: Final = 2_000


@dataclass(frozen=True)
class Told:
    """A rebalance: what was done, the trigger and the reasons that are said, and whether the broker has logged them.

    ``is_first``: it is the one that the deed began, and not one that followed.
    """

    release: str
    group: str
    generation: int
    deed: Deed
    trigger: str
    logged: Sequence[str]
    is_in_log: bool
    is_first: bool

    @property
    def is_right(self) -> bool:
        """Whether it has the reason that the broker logged, which is what was done."""
        expected = self.deed.triggers[:1] if self.is_first else self.deed.triggers
        return self.is_in_log and self.trigger in expected


@dataclass(frozen=True)
class _Log:
    """The lines of a broker's log, read without the program: reasons of generations, and all lines with times."""

    prepared: Mapping[tuple[str, int], str] = field(default_factory=dict)
    lines: Sequence[tuple[int, str]] = ()

    def has(self, group: str, generation: int, reasons: Sequence[str], since_ms: int, until_ms: int) -> bool:
        """Whether these are the reasons: of a classic group by its generation, of others by lines of that time."""
        if not reasons:
            return False
        if (group, generation - 1) in self.prepared:
            return reasons[-1] == self.prepared[group, generation - 1]
        about = f"[GroupId {group}]"
        texts = [text for at_ms, text in self.lines if since_ms <= at_ms <= until_ms and about in text]
        return all(any(reason in text for text in texts) for reason in reasons)


def told(release: str, folder: Path, turns: int, show: Callable[[str], None] = lambda _: None) -> list[Told]:
    """What is said of the rebalances on a broker of this release; if the folder has none, all stories are told."""
    deeds = folder / f"{release}-deeds.jsonl"
    if not deeds.exists():
        done = _record(release, folder, turns, show)
        deeds.write_text("".join(json.dumps(astuple(one)) + "\n" for one in done))
    done = [
        Deed(group, at_ms, what, tuple(triggers))
        for group, at_ms, what, triggers in map(json.loads, deeds.read_text().splitlines())
    ]
    log = folder / f"{release}.log"
    return [*_told(release, done, _events(folder / f"{release}.parquet", log), _log(log.read_text()))]


def _record(release: str, folder: Path, turns: int, show: Callable[[str], None]) -> list[Deed]:
    with (
        EmbeddedBroker(release, overrides=_settings(release)) as broker,
        World(broker.bootstrap_servers, folder) as world,
    ):
        teller = Teller(world, turns)
        for topic in (TOPIC, OTHER_TOPIC):
            world.create(topic, PARTITIONS)
        for together in OLD_ROUNDS if release.startswith("3.") else ROUNDS:
            world.play({name: (kind, getattr(teller, name)(name)) for name, kind in together.items()})
            show(f"{release}: {', '.join(together)} told")
        at = ("--bootstrap-server", broker.bootstrap_servers)
        printed_by("capture", *at, "-o", folder / f"{release}.parquet")
        shutil.copy(broker.log_path, folder / f"{release}.log")
    return teller.deeds


def _settings(release: str) -> Mapping[str, object]:
    return {} if release.startswith("3.") else _SETTINGS


def _events(capture: Path, log_path: Path) -> list[dict[str, Any]]:
    """The completed rebalances that ``replay`` prints beside the log."""
    words = ("replay", "--from-file", capture, "--broker-log", log_path, "--output", "jsonl")
    events = map(json.loads, printed_by(*words).splitlines())
    return [event for event in events if event["type"] == "groupreplay.rebalance.completed.v1"]


def _log(text: str) -> _Log:
    lines = [(timestamp_ms(found["time"]) or 0, found["message"]) for found in _LINE.finditer(text)]
    found = (_PREPARED.search(message) for _, message in lines)
    prepared = {(one[1], int(one[2])): one[3].removesuffix(").") for one in found if one}
    return _Log(prepared, lines)


def _told(release: str, deeds: Sequence[Deed], events: Sequence[Any], log: _Log) -> Iterator[Told]:
    begun = set[Deed]()
    for event in events:
        data, at_ms = event["data"], timestamp_ms(event["time"]) or 0
        group, generation, reasons = data["group_id"], data["generation"], data["logged"]
        deed = [one for one in deeds if one.group == group and one.at_ms <= at_ms][-1]
        span = (deed.at_ms - _SLACK_MS, at_ms + _SLACK_MS)
        is_in_log = data["evidence"] == "broker_log" and log.has(group, generation, reasons, *span)
        yield Told(
            release, group, generation, deed, data["trigger"], reasons, is_in_log, is_first=deed not in begun
        )
        begun.add(deed)


def markdown(rebalances: Sequence[Told]) -> str:
    """A row for each release and story, and a sentence with the sum."""
    rows = ["| Kafka | group | rebalances | with the logged reason | and it is what was done |"]
    rows.append("| --- | --- | ---: | ---: | ---: |")
    counts = Counter((one.release, one.group) for one in rebalances)
    for (release, group), count in counts.items():
        same = [one for one in rebalances if (one.release, one.group) == (release, group)]
        logged, right = (sum(getattr(one, name) for one in same) for name in ("is_in_log", "is_right"))
        rows.append(f"| {release} | {group} | {count} | {logged} | {right} |")
    right = sum(one.is_right for one in rebalances)
    sentence = f"{right} of {len(rebalances)} rebalances ({100 * right / len(rebalances):.1f} %) have the reason that"
    return "\n".join([*rows, "", f"{sentence} their broker logged, and it is what was done."])
