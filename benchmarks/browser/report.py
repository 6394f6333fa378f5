"""The page of a large group in a browser: its size, the first paint, and a step of zoom.

    python benchmarks/browser/report.py [--members 1000] [--partitions 10000] [--generations 40] [--page]
    small: --members 5 --partitions 20 --generations 4

Needs Chromium. The group is made in memory: members hold equal parts of one topic, each generation replaces a few of
them, and all partitions are committed once a minute. Times of the browser are those of its main thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from page import flag_parser, put, show_progress

from groupreplay.app.report.page import report_page
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.document import TimelineDocument
from support.histories.builders import Raw, generation, member
from support.pictures.report_pages import OpenedPage, opened_page, running_browser
from support.pictures.timelines import BEGIN, MINUTE, timeline_of

#: Two minutes between generations, three members replaced by each.
_APART_MS: Final = 2 * MINUTE
_REPLACED: Final = 3
_STEPS: Final = 15


def history(members: int, partitions: int, generations: int) -> list[Raw]:
    """The records of the group; replaced members come back under a new client id."""
    names, records = [f"consumer-{number}" for number in range(members)], []
    each = -(-partitions // members)
    for number in range(1, generations + 1):
        for replaced in range(_REPLACED):
            names[(number * 7 + replaced * 131) % members] = (
                f"consumer-{members + number * _REPLACED + replaced}"
            )
        # Ranges go by the order of the names, as those of Kafka's assignors do.
        owners = [
            member(
                name, range(place * each, min((place + 1) * each, partitions)), topic="orders", client_id=name
            )
            for place, name in enumerate(sorted(names))
        ]
        records.append(generation(number, *owners, at=BEGIN + number * _APART_MS))
    return records


def commits(partitions: int, until_ms: int) -> CommitLog:
    """Each partition once a minute."""
    times = np.arange(BEGIN, until_ms, MINUTE, dtype=np.int64)
    return CommitLog(
        places=tuple(("orders", number) for number in range(partitions)),
        place=np.tile(np.arange(partitions), len(times)),
        at_ms=np.repeat(times, partitions),
    )


def document(asked: argparse.Namespace) -> TimelineDocument:
    """The timeline of the group."""
    records = history(asked.members, asked.partitions, asked.generations)
    end_ms = records[-1].at + _APART_MS
    return timeline_of(records, commits=commits(asked.partitions, end_ms), end_ms=end_ms)


def thread_ms(page: OpenedPage, session: Any) -> float:
    """CPU time of the page's main thread so far, in milliseconds."""
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"]) * 1000


def measured(path: Path) -> dict[str, float]:
    """The figures of a page, in milliseconds: as a clock shows them, and CPU time of its main thread."""
    with running_browser() as browser, opened_page(browser, path) as page:
        session = page.page.context.new_cdp_session(page.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        begun_ms = thread_ms(page, session)
        page.page.reload()
        page.page.wait_for_selector("html[data-ready]", state="attached")
        first_ms = thread_ms(page, session) - begun_ms
        paint_ms = float(
            page.value("performance.getEntriesByType('paint').at(-1)?.startTime ?? performance.now()")
        )
        page.page.locator("#picture").focus()
        walls, threads = [], []
        for key in ("+", "ArrowRight", "-") * (_STEPS // 3):
            drawn, begun_ms, begun = page.drawn(), thread_ms(page, session), time.perf_counter()
            page.page.keyboard.press(key)
            page.wait_for_drawing(drawn)
            walls.append((time.perf_counter() - begun) * 1000)
            threads.append(thread_ms(page, session) - begun_ms)
        shapes = float(page.value("document.documentElement.dataset.items"))
        assert page.problems == [], page.problems
    return {
        "first paint": paint_ms,
        "CPU until drawn": first_ms,
        "zoom": statistics.median(walls),
        "zoom CPU": statistics.median(threads),
        "shapes": shapes,
    }


def table(asked: argparse.Namespace, size: int, made_s: float, found: dict[str, float]) -> str:
    """The figures as a table."""
    rows = [
        ("members, partitions, generations", f"{asked.members:,}, {asked.partitions:,}, {asked.generations}"),
        ("size of the page", f"{size / 1e6:.1f} MB"),
        ("the document and the page are made in", f"{made_s:.1f} s"),
        ("first paint", f"{found['first paint'] / 1000:.2f} s"),
        ("CPU time of the page until it is drawn", f"{found['CPU until drawn'] / 1000:.2f} s"),
        (
            "a step of zoom or movement, median",
            f"{found['zoom']:.0f} ms ({found['zoom CPU']:.0f} ms of CPU time)",
        ),
        ("shapes drawn", f"{found['shapes']:,.0f}"),
    ]
    return "\n".join(
        ["| what | figure |", "| --- | --- |", *(f"| {name} | {figure} |" for name, figure in rows)]
    )


def main() -> None:
    """Measures one group."""
    parser = flag_parser(__doc__)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--generations", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="write the page into this folder")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/performance.md")
    asked = parser.parse_args()
    begun = time.perf_counter()
    text = report_page(document(asked))
    made_s = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as scratch:
        path = (asked.keep or Path(scratch)) / "report.html"
        path.write_text(text, encoding="utf-8")
        show_progress(f"{path.stat().st_size / 1e6:.1f} MB")
        shown = table(asked, path.stat().st_size, made_s, measured(path))
    print(shown)
    if asked.page:
        put("report", shown)


if __name__ == "__main__":
    main()
