"""What the thread that looks for incidents costs the driver: CPU time a minute, and memory, by the number of groups.

    python benchmarks/memory/incidents.py [--groups 50000 200000 1000000] [--page]
    small: --groups 500

The finder takes the documents of all groups, then ten minutes in which one of a thousand groups rebalances each minute
and one of ten thousand stops committing, and then a minute in which all readers of a topic stop (a twentieth of the
groups). It is stored once a minute, as in the job. CPU time is that of the process, so that other work on the machine
does not count. ``--page`` writes the table to docs/scaling.md.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks")]

from page import flag_parser, put, show_progress  # noqa: E402

from groupreplay.timeline.incident_signals import Attribute, Ended, GroupSeen, Item, Signal  # noqa: E402
from groupreplay.timeline.incidents import IncidentFinder  # noqa: E402

MINUTE_MS: Final = 60_000
MINUTES: Final = 10
#: Groups of one topic, and groups on one host.
_OF_TOPIC, _OF_HOST = 20, 200


def _shares(group: int, groups: int) -> frozenset[Attribute]:
    hosts = max(groups // _OF_HOST, 1)
    members: Iterator[Attribute] = (("host", f"10.0.{(group + each) % hosts}") for each in range(3))
    return frozenset(
        [("topic", f"topic-{group % _OF_TOPIC}"), ("client", f"service-{group % 997}"), *members]
    )


def _seen(group: int, groups: int, at_ms: int) -> GroupSeen:
    return GroupSeen(
        at_ms=at_ms, group_id=f"group-{group}", partition=group % 50, shares=_shares(group, groups)
    )


def _signal(group: int, kind: str, at_ms: int, *, holds: bool) -> Signal:
    return Signal(
        at_ms=at_ms,
        id=f"{kind}-{group}-{at_ms}",
        group_id=f"group-{group}",
        kind=kind,
        begin_ms=at_ms - 2 * MINUTE_MS if holds else at_ms,
        severity="INFO",
        partition=group % 50,
        shares=frozenset(),
        holds=holds,
        proof=None,
    )


def _minute(draws: random.Random, groups: int, begin_ms: int) -> Iterator[Item]:
    """An ordinary minute."""
    for _ in range(max(groups // 1_000, 1)):
        group, at_ms = draws.randrange(groups), begin_ms + draws.randrange(MINUTE_MS)
        yield _seen(group, groups, at_ms)
        yield _signal(group, "rebalance.completed", at_ms, holds=False)
    for _ in range(max(groups // 10_000, 1)):
        group, at_ms = draws.randrange(groups), begin_ms + draws.randrange(MINUTE_MS // 2)
        paused = _signal(group, "commits.paused", at_ms, holds=True)
        yield paused
        yield Ended(at_ms=at_ms + MINUTE_MS // 2, id=paused.id)


def measure(groups: int) -> str:
    """A row of the table: in a process of its own, so that the memory is its own."""
    draws, finder = random.Random(1), IncidentFinder()
    empty_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    for first in range(0, groups, 10_000):
        finder.take(_seen(group, groups, 0) for group in range(first, min(first + 10_000, groups)))
        finder.advance(1)
    first_s = time.process_time() - began
    began = time.process_time()
    for minute in range(1, MINUTES + 1):
        finder.take(_minute(draws, groups, minute * MINUTE_MS))
        for step in range(6):
            finder.advance(minute * MINUTE_MS + step * 10_000)
        stored = finder.snapshot()
    usual_s = (time.process_time() - began) / MINUTES
    began, at_ms = time.process_time(), (MINUTES + 4) * MINUTE_MS
    finder.take(
        _signal(group, "commits.paused", at_ms + draws.randrange(2_000), holds=True)
        for group in range(0, groups, _OF_TOPIC)
    )
    news = finder.advance(at_ms + MINUTE_MS)
    burst_s = time.process_time() - began
    held_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - empty_kb) / 1024
    opened = max((getattr(event.fact, "group_count", 0) for event in news), default=0)
    cells = (f"{groups:,}", f"{first_s:.1f} s", f"{usual_s:.2f} s", f"{burst_s:.1f} s", f"{opened:,}")
    return f"| {' | '.join(cells)} | {held_mb:.0f} MiB | {len(stored) / 2**20:.1f} MiB |"


def main() -> None:
    """Measures and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[50_000, 200_000, 1_000_000])
    parser.add_argument("--one", action="store_true", help="print one row; each row has a process of its own")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.one:
        print(measure(asked.groups[0]))
        return
    rows = [
        "| groups | their documents, once | CPU a minute | an incident of a twentieth of them | found of it | memory "
        "| stored |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for groups in asked.groups:
        command = [sys.executable, __file__, "--one", "--groups", str(groups)]
        rows.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
        show_progress(rows[-1])
    table = "\n".join(rows)
    print(table)
    if asked.page:
        put("incidents", table, ROOT / "docs" / "scaling.md")


if __name__ == "__main__":
    main()
