"""First paint of the live pages with many groups, a twentieth of them stuck: median of several loads, without a cache.

    python benchmarks/browser/paint.py [--groups 5000] [--loads 5]
    small: --groups 20 --loads 1

Needs Chromium; no broker. ``painted`` is the browser's first contentful paint, ``filled`` the time from the request of
the page to the rows that come from the API, ``bytes`` everything that was sent for it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.job.sink_messages import document, events, stable, stuck
from support.pictures.live_pages import STUCK_MS, live_site
from support.pictures.report_pages import running_browser

#: Path -> what a reader waits for.
PAGES = {
    "/": "html[data-ready]",
    "/incidents": "html[data-ready]",
    "/groups/group-0000": "#now-sentence",
}
_SENT = """["resource", "navigation"].flatMap(kind => performance.getEntriesByType(kind))
    .reduce((sum, entry) => sum + entry.transferSize, 0)"""
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def loaded(browser: Any, address: str, awaited: str) -> tuple[float, float, int]:
    """Milliseconds to the first paint and to the rows, and bytes, of one load in a new context."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    try:
        page.goto(address, wait_until="commit")
        page.wait_for_selector(awaited, state="attached", timeout=120_000)
        filled = page.evaluate("performance.now()")
        page.wait_for_function(_PAINTED, timeout=120_000)
        return page.evaluate(_PAINTED), filled, page.evaluate(_SENT)
    finally:
        context.close()


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
        site.beat()
        print("| page | painted ms | filled ms | KB |\n| --- | ---: | ---: | ---: |")
        for path, awaited in PAGES.items():
            loads = [loaded(browser, site.url(path), awaited) for _ in range(asked.loads)]
            painted, filled, sent = (statistics.median(each) for each in zip(*loads, strict=True))
            print(f"| `{path}` | {painted:.0f} | {filled:.0f} | {sent / 1000:.0f} |", flush=True)


if __name__ == "__main__":
    main()
