"""Makes golden/stored_checkpoint_LINE.tar.xz of the line of Spark that is installed.

Run ``python -m golden.refresh_stored_checkpoint`` in ``tests/`` with the Python of each line (``.venv``, ``.lines/3.5``
and so on) when no checkpoint from before need be read any more, which is a breaking change. Its job reads half of a log
in which there is a group of each kind, and is stopped. Needs a broker and Spark.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import groupreplay
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.platforms import installed_release, line_name
from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.histories.group_writer import life_cut_inside_a_rebalance
from support.job.jobs import interleaved, running_job, topic_names, write_log
from support.stored.checkpoints import StoredLog, of_line, store

PARTITIONS = 2
MINUTE = 60_000


def histories() -> dict[str, tuple[list[Raw], list[Raw]]]:
    """Each is cut where something is under way; times count from the beginning."""
    one, two, three = member("one", [0, 1]), member("two", [2]), member("three", [3])
    rounds = [asked_for(at=1), generation(1, one, at=10), generation(2, one, two, at=20)]
    commits = [commit("t", part, 10 * turn, at=30 + turn) for turn in range(4) for part in range(4)]
    ending = [*(no_offset("t", part, at=500) for part in range(4)), gone(at=500)]
    made = {
        "classic": (
            [*rounds, *commits],
            [generation(3, one, three, at=100), commit("t", 0, 3, at=200), emptied(4, at=400), *ending],
        ),
        "simple": (commits, [commit("t", 1, 2, at=100), no_offset("t", 2, at=600)]),
    }
    for kind in ("consumer", "share", "streams"):
        made[kind] = life_cut_inside_a_rebalance(kind)
    return made


def half(number: int, start_ms: int) -> Sequence[tuple[int, bytes, bytes | None, int]]:
    """The first or the second half of all histories as one log."""
    records = interleaved({name: both[number] for name, both in histories().items()}, PARTITIONS, start_ms)
    return [(partition % PARTITIONS, key, value, at_ms) for partition, key, value, at_ms in records]


def main() -> None:
    """Replaces one file."""
    file = of_line(line_name(installed_release()))
    now_ms = time.time_ns() // 1_000_000
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        folder = Path(name)
        before = half(0, now_ms - 10 * MINUTE)
        write_log(broker.bootstrap_servers, before, PARTITIONS)
        flags = ("--no-probe", "--shuffle-partitions", "1", "--member-events")
        with running_job(
            broker.bootstrap_servers, folder / "checkpoint", topic_names("stored"), *flags
        ) as job:
            job.wait_caught_up()
            job.stop()
        identity = json.loads((folder / "checkpoint" / "groupreplay.json").read_text())
        first_start_ms = identity["first_start_ms"]
        after = half(1, first_start_ms + MINUTE)
        store(
            StoredLog(groupreplay.__version__, PARTITIONS, first_start_ms, list(before), list(after)),
            folder,
            file,
        )
    print(f"{file.name}: {file.stat().st_size} bytes, {len(before)} records, then {len(after)}")  # noqa: T201


if __name__ == "__main__":
    main()
