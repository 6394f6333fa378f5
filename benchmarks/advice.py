"""How long ``advise`` takes for a long history of a large group, beyond the reading of its capture.

    python benchmarks/advice.py [--members 100] [--days 7] [--page]
    small: --members 4 --days 0.05

The group has two partitions for each member, is rolled once a day, and commits each ten minutes. Prints CPU seconds of
this process; the goal for a week of 100 members is a minute. ``--page`` writes them to docs/advice.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from groupreplay.api.sources import open_log  # noqa: E402
from groupreplay.app.report.advice import advised_groups  # noqa: E402
from groupreplay.app.report.timelines import TimelineQuery, read_groups  # noqa: E402
from groupreplay.app.simulate.files import write_simulation  # noqa: E402
from groupreplay.coordinator.simulation.script import HOUR_MS, MINUTE_MS, About  # noqa: E402
from groupreplay.coordinator.simulation.script_steps import Roll, ScriptedEvent  # noqa: E402
from groupreplay.coordinator.simulation.simulation import SimulationPlan  # noqa: E402
from groupreplay.state.events.event import name_of  # noqa: E402
from groupreplay.streaming.engine.group_choice import GroupChoice  # noqa: E402
from support.pictures.timelines import SOURCE  # noqa: E402
from support.simulated.advised import scripted  # noqa: E402

_DAY_HOURS: Final = 24


def main() -> None:
    """Writes the history, reads it, and prints what each part took."""
    parser = flag_parser(__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    hours = asked.days * _DAY_HOURS
    every = About(int(min(hours / 3, _DAY_HOURS) * HOUR_MS))
    scenario = scripted(
        ScriptedEvent(after_ms=5 * MINUTE_MS, every_ms=every, steps=(Roll(),)),
        members=asked.members,
        partitions=2 * asked.members,
        **{"auto.commit.interval.ms": 10 * MINUTE_MS, "session.timeout.ms": 5 * MINUTE_MS},
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "week.parquet"
        duration_ms = int(hours * HOUR_MS)
        plan = SimulationPlan.of(
            scenario, scenario.broker, groups=1, duration_ms=duration_ms, seed=1, partitions=2
        )
        write_simulation(plan, path)
        show_progress(f"{path.stat().st_size:,} bytes are written")
        opened = open_log(str(path), None, None, member_events=True)
        query = TimelineQuery(groups=GroupChoice(), source=SOURCE)
        begin = time.process_time()
        read = read_groups(opened.rows, opened.context, query)
        between = time.process_time()
        found = advised_groups(read).groups[0]
        end = time.process_time()
    rebalances = sum(name_of(event["type"]) == "rebalance.completed" for event in read.inputs[0].events)
    lines = [
        "| members | days | rebalances | findings | reading and replay | advice | together |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| {asked.members} | {asked.days:g} | {rebalances} | {len(found.findings)} | {between - begin:.1f} s "
        f"| {end - between:.1f} s | {end - begin:.1f} s |",
    ]
    print("\n".join(lines))
    if asked.page:
        put("advice-week", "\n".join(lines), ROOT / "docs" / "advice.md")


if __name__ == "__main__":
    main()
