"""The board in a browser while things happen: its memory, its elements, and how long its main thread is busy.

    python benchmarks/browser/board.py [--groups 5000] [--events 10] [--minutes 10]
    small: --groups 20 --minutes 0.05 --sample 1

Needs Chromium; no broker. Groups rebalance in turn: each event comes with the document of its group. A sample is taken
every 15 s (``--sample``) after a collection of garbage.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.histories.builders import generation, member
from support.histories.probed import START, told
from support.job.sink_messages import document, events, stable
from support.pictures.live_pages import LiveSite, live_page, live_site, shown
from support.pictures.report_pages import OpenedPage, running_browser


def rebalanced(number: int, at_ms: int) -> tuple[Any, list[Any]]:
    """A group after its next generation, and its events."""
    return told([generation(number, member("a", [0]), member("b", [1]), at=at_ms)], [], at_ms + 1_000)


def sample(page: OpenedPage, session: Any) -> tuple[float, float, float]:
    """Heap in MB after a collection, elements, and CPU seconds of the main thread so far."""
    session.send("HeapProfiler.collectGarbage")
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return (
        found["JSHeapUsedSize"] / 1e6,
        float(page.value("document.querySelectorAll('*').length")),
        found["TaskDuration"],
    )


def search_ms(page: OpenedPage, text: str) -> float:
    """From a key in the search to the list that fits."""
    begun = time.perf_counter()
    page.page.fill("#search", text)
    rows = "document.querySelector('#group-rows')"
    page.wait_for(f"{rows}.children.length === 1 && {rows}.textContent.includes('{text}')")
    took = (time.perf_counter() - begun) * 1000
    page.page.fill("#search", "")
    return took


def measured(site: LiveSite, page: OpenedPage, asked: argparse.Namespace) -> None:
    """Writes events, and prints a row for each sample."""
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    begun, sent, last, searches = time.monotonic(), 0, 0.0, list[float]()
    before = sample(page, session)[2]
    print(
        "| s | events | heap MB | elements | main thread busy | search ms |\n| --- | --- | --- | --- | --- | --- |"
    )
    while (passed := time.monotonic() - begun) < asked.minutes * 60:
        while sent < passed * asked.events:
            group, said = rebalanced(5 + sent // asked.groups, site.clock())
            name = f"group-{sent * 7919 % asked.groups:04}"
            site.write(events(said[-1:], name), [(name, document(group, name))])
            sent += 1
        if passed - last >= asked.sample:
            site.beat()
            heap, elements, busy = sample(page, session)
            searches.append(search_ms(page, f"group-{sent % asked.groups:04}"))
            share = (busy - before) / (passed - last)
            print(
                f"| {passed:.0f} | {sent} | {heap:.1f} | {elements:.0f} | {share:.1%} | {searches[-1]:.0f} |",
                flush=True,
            )
            last, before = passed, busy
        time.sleep(0.02)
    print(f"search, median: {statistics.median(searches):.0f} ms; problems of the page: {page.problems}")


def main() -> None:
    """Measures one board."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--events", type=float, default=10.0, help="a second")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sample", type=float, default=15.0, help="seconds from sample to sample")
    asked = parser.parse_args()
    calm, _ = stable()
    with (
        tempfile.TemporaryDirectory() as folder,
        live_site(Path(folder), START) as site,
        running_browser() as browser,
    ):
        names = [f"group-{number:04}" for number in range(asked.groups)]
        site.write((), [(name, document(calm, name)) for name in names])
        site.beat()
        with live_page(browser, site.url()) as page:
            measured(site, shown(page), asked)


if __name__ == "__main__":
    main()
