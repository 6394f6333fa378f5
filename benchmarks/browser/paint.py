"""First paint of the live pages with many groups, a twentieth of them stuck: median of several loads, without a cache.

    python benchmarks/browser/paint.py [--groups 5000] [--loads 5]
    small: --groups 20 --loads 1

Needs Chromium; no broker. ``painted`` is the browser's first contentful paint, ``filled`` the time from the request of
the page to the rows that come from the API, ``again`` the same of a second load in the same browser, and ``KB``
everything that was sent for the first one. CPU times up to ``filled`` depend less on what else the machine does:
``page`` is that of the page's main thread, ``server`` that of this process, which is the server and drives the browser.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.job.sink_messages import document, events, stable, stuck
from support.pictures.live_pages import STUCK_MS, live_site
from support.pictures.report_pages import running_browser

#: Path -> what a reader waits for.
PAGES = {
    "/": "#group-rows tr",
    "/incidents": "html[data-ready]",
    "/groups/group-0000": "#now-sentence",
}
_SENT = """["resource", "navigation"].flatMap(kind => performance.getEntriesByType(kind))
    .reduce((sum, entry) => sum + entry.transferSize, 0)"""
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


class Load(NamedTuple):
    """Milliseconds, and bytes."""

    painted: float
    filled: float
    again: float
    page_cpu: float
    server_cpu: float
    sent: int


def loaded(browser: Any, address: str, awaited: str) -> Load:
    """Two loads in a new context: the second one has the files of the first."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    try:
        server_s = time.process_time()
        filled = filled_ms(page, address, awaited)
        server_cpu = (time.process_time() - server_s) * 1000
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        page.wait_for_function(_PAINTED, timeout=120_000)
        painted, sent = page.evaluate(_PAINTED), page.evaluate(_SENT)
        again = filled_ms(page, address, awaited)
        return Load(painted, filled, again, metrics["TaskDuration"] * 1000, server_cpu, sent)
    finally:
        context.close()


def filled_ms(page: Any, address: str, awaited: str) -> float:
    """Milliseconds from the request of a page to what comes from the API."""
    page.goto(address, wait_until="commit")
    page.wait_for_selector(awaited, state="attached", timeout=120_000)
    return float(page.evaluate("performance.now()"))


def main() -> None:
    """Measures the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--loads", type=int, default=5)
    asked = parser.parse_args()
    (calm, _), (ill, said) = stable(), stuck(for_ms=400_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        live_site(Path(folder), STUCK_MS) as site,
        running_browser() as browser,
    ):
        names = [f"group-{number:04}" for number in range(asked.groups)]
        for at, name in enumerate(names):
            is_ill = at % 20 == 0
            site.write(
                events(said, name) if is_ill else (), [(name, document(ill if is_ill else calm, name))]
            )
        # One heartbeat: making more of them takes time of this process.
        site.beat()
        site.silence()
        print("| page | painted ms | filled ms | again ms | CPU ms: page | server | KB |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for path, awaited in PAGES.items():
            loads = [loaded(browser, site.url(path), awaited) for _ in range(asked.loads)]
            *times, sent = (statistics.median(each) for each in zip(*loads, strict=True))
            shown = " | ".join(f"{one:.0f}" for one in times)
            print(f"| `{path}` | {shown} | {sent / 1000:.0f} |", flush=True)


if __name__ == "__main__":
    main()
