"""What `replay` costs where groups change all the time, in CPU seconds of one process.

    python benchmarks/storms.py [--shape hostile] [--repeat 3] [--against OTHER/bin/groupreplay] [--page]
    small: --scale 0.01 --repeat 1

`storm`: 100 classic groups, each with a restart every 25 seconds, for an hour (`simulate --scenario storm --seed 3`).
`modern`: the same life of 30 KIP-848, share and streams groups. `hostile`: 1 000 histories of random and injured
records and answers of a prober (tests/support/tools/hostile.py). `--against` measures another build in turn with this
one; the ratio is that of the smallest figures. `shared` is the time by the clock with one process, to that with one for
each CPU. The last column is the CPU time of a fixed piece of Python, run in turn
with the replay, to that of the replay; beside it is that of the last commit that changed it (figures.json).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import figures
import msgspec
import pyarrow as pa
from figures import Figure, beside
from page import flag_parser, put, show_progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from groupreplay.codecs import Key, decode_key, encode_key, encode_value
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.probe_messages import GroupAnswer, encode_message
from groupreplay.streaming.sources.capture import CaptureWriter
from support.histories.group_writer import GroupWriter
from support.tools.hostile import CLUSTER_ID, history

OURS: Final = Path(sys.executable).parent / "groupreplay"
_START_MS: Final = 1_700_000_000_000
_PARTITIONS: Final = 50
_KINDS: Final = ("consumer", "share", "streams")
_RESTART_MS: Final = 25_000
_COMMIT_MS: Final = 5_000
_PROBES: Final = "group-probes"


class Row(NamedTuple):
    """A record or message of a capture; its offset is its place."""

    topic: str
    partition: int
    at_ms: int
    key: bytes | None
    value: bytes | None


def _simulated(path: Path, scale: float) -> None:
    groups, seconds = max(1, round(100 * scale)), 3600 if scale == 1 else 600
    flags = ["--scenario", "storm", "--seed", "3", "--groups", str(groups), "--seconds", str(seconds)]
    subprocess.run([OURS, "simulate", *flags, "-o", path], check=True, stderr=subprocess.DEVNULL)


def _modern_life(number: int, duration_ms: int) -> GroupWriter:
    """Three members, of which one is replaced every 25 seconds, and a commit of each partition every five."""
    random = Random(number)
    life = GroupWriter(
        kind=_KINDS[number % len(_KINDS)], at=_START_MS + random.randrange(_RESTART_MS), partitions=12
    )
    end_ms, members = life.at + duration_ms, [f"{number}-{place}" for place in range(3)]
    for member in members:
        life.join(member)
        life.settle()
    while life.at < end_ms:
        next_ms = life.at + _RESTART_MS
        life.leave(members.pop(random.randrange(len(members))))
        life.settle()
        members.append(f"{number}-{life.at}")
        life.join(members[-1])
        life.settle()
        while life.at < next_ms:
            for partition in range(life.partitions):
                life.commit(partition, (life.at - _START_MS) // 100)
            life.wait(_COMMIT_MS)
    return life


def _modern(path: Path, scale: float) -> None:
    rows: list[Row] = []
    for number in range(max(len(_KINDS), round(30 * scale))):
        for record in _modern_life(number, round(3_600_000 * min(1, 10 * scale))).log:
            key = encode_key(replace(record.key, group=f"modern-{number}"))
            value = None if record.value is None else encode_value(record.value)
            rows.append(Row(OFFSETS_TOPIC, number % _PARTITIONS, record.at, key, value))
    rows.sort(key=lambda row: (row.partition, row.at_ms))
    _write(path, rows)


def _hostile(path: Path, scale: float) -> None:
    """The histories one after another, each with groups of its own."""
    log: list[Row] = []
    probes: list[Row] = []
    for seed in range(max(1, round(1_000 * scale))):
        for batch in history(seed):
            for record in batch.log:
                partition = (2 * seed + record.partition) % _PARTITIONS
                log.append(
                    Row(
                        OFFSETS_TOPIC,
                        partition,
                        record.timestamp_ms,
                        _renamed(record.key, seed),
                        record.value,
                    )
                )
            for message in batch.probes:
                if isinstance(message, GroupAnswer):
                    ours = msgspec.structs.replace(message, group_id=f"{message.group_id}-{seed}")
                    key, value = encode_message(ours)
                    probes.append(Row(_PROBES, 0, message.taken_ms, key, value))
    log.sort(key=lambda row: row.partition)
    _write(path, [*log, *probes])


def _renamed(key: bytes | None, seed: int) -> bytes | None:
    """The key of a group that only this history has; what is no key stays."""
    decoded = decode_key(key)
    return encode_key(replace(decoded, group=f"{decoded.group}-{seed}")) if isinstance(decoded, Key) else key


def _write(path: Path, rows: Iterable[Row]) -> None:
    places: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        places.setdefault((row.topic, row.partition), []).append(row)
    with CaptureWriter(path, cluster_id=CLUSTER_ID, era="e") as capture:
        for (topic, partition), placed in places.items():
            capture.write(_batch(topic, partition, placed))


def _batch(topic: str, partition: int, rows: list[Row]) -> pa.RecordBatch:
    columns = (
        [topic] * len(rows),
        [partition] * len(rows),
        range(len(rows)),
        [row.at_ms for row in rows],
        [0] * len(rows),
        [row.key for row in rows],
        [row.value for row in rows],
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)


SHAPES: Final[dict[str, Callable[[Path, float], None]]] = {
    "storm": _simulated,
    "modern": _modern,
    "hostile": _hostile,
}


#: Work of Python alone, which no change of this project makes quicker: calls, objects, dictionaries and texts.
_FIXED: Final = """
table = {}
def work(number):
    text = str(number)
    table[text[-4:]] = (number, text.encode())
    return len(text)
print(sum(work(number) for number in range(3_000_000)))
"""


def replay_of(program: Path, capture: Path) -> list[str | Path]:
    """The command of a replay."""
    return [program, "replay", "--from-file", capture, "-o", "jsonl"]


class Cost(NamedTuple):
    """Seconds of CPU time (user and system), and by the clock; the start is part of both."""

    cpu: float
    elapsed: float


def cost(command: list[str | Path], processes: int | None = 1) -> Cost:
    """What a command costs; ``processes`` None: as many as it chooses."""
    environment = os.environ | ({} if processes is None else {"GROUPREPLAY_PROCESSES": str(processes)})
    before = os.times()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Cost(cpu, after.elapsed - before.elapsed)


def cpu_seconds(command: list[str | Path]) -> float:
    """CPU seconds of a command that uses one process."""
    return cost(command).cpu


class Line(NamedTuple):
    """CPU seconds of this build, of the other one (None: there is none) and of the fixed piece of Python.

    ``shared``: how many times as fast this build is with one process for each CPU, by the clock.
    """

    name: str
    ours: float
    theirs: float | None
    fixed: float
    shared: float

    def text(self, before: Mapping[str, Figure]) -> str:
        """A line of the table."""
        other = " | " if self.theirs is None else f"{self.theirs:.2f} | {self.theirs / self.ours:.2f}"
        fixed = beside(self.name, self.fixed / self.ours, before)
        return f"| {self.name} | {self.ours:.2f} | {other} | {self.shared:.2f} | {fixed} |"


def measured(name: str, capture: Path, against: Path | None, repeat: int) -> Line:
    """The smallest figures of so many rounds."""
    ours, shared, theirs, fixed = list[Cost](), list[float](), [], []
    for _ in range(repeat):
        ours.append(cost(replay_of(OURS, capture)))
        shared.append(cost(replay_of(OURS, capture), None).elapsed)
        fixed.append(cpu_seconds([sys.executable, "-c", _FIXED]))
        if against is not None:
            theirs.append(cpu_seconds(replay_of(against, capture)))
    quickest = min(one.elapsed for one in ours) / min(shared)
    return Line(name, min(one.cpu for one in ours), min(theirs, default=None), min(fixed), quickest)


def main() -> None:
    """Prints the table."""
    parser = flag_parser(__doc__)
    parser.add_argument("--shape", choices=SHAPES, help="only this one")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--against", type=Path)
    parser.add_argument(
        "--keep", type=Path, help="folder of the captures; those that are there are used again"
    )
    parser.add_argument("--page", action="store_true", help="write the figures into docs/performance.md")
    flags = parser.parse_args()
    heads = [
        "| `replay` of | CPU s | before | ratio | shared | to fixed Python |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines: list[Line] = []
    # Another size has other ratios, because of the start.
    before = figures.known() if flags.scale == 1 else {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, write in SHAPES.items():
            if flags.shape in (None, name):
                capture = (flags.keep or Path(scratch)) / f"{name}.parquet"
                if not capture.exists():
                    write(capture, flags.scale)
                lines.append(measured(name, capture, flags.against, flags.repeat))
                show_progress(lines[-1].text(before))
    print(*heads, *(line.text(before) for line in lines), sep="\n")
    if flags.page:
        put("storms", "\n".join([*heads, *(line.text({}) for line in lines)]))
        figures.keep({line.name: line.fixed / line.ours for line in lines})


if __name__ == "__main__":
    main()
