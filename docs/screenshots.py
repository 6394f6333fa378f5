"""Takes the screenshots of README.md, docs/report.md and docs/serve.md: ``make screenshots``; needs Chromium.

``python docs/screenshots.py NAME.png ...`` takes only these. pngquant makes them smaller, if it is installed.

The captures are simulated with fixed seeds, so the same code gives the same pictures but for the fonts of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from served_capture import Capture, served_captures
from support.diagnosed.pictured import PICTURED, pictured_page

IMAGES: Final = Path(__file__).parent / "images"
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
#: Flags of the simulation of the live pages of a stuck group.
STUCK: Final = ["--groups", "12", "--seconds", "5400", "--seed", "11"]
#: Image -> scenario, flags of the simulation, the group (None: all groups), settings of the browser.
SHOTS: Final[dict[str, tuple[str, list[str], str | None, dict[str, Any]]]] = {
    "report-stuck.png": (
        "stuck",
        ["--groups", "3", "--seconds", "5400", "--seed", "11"],
        "stuck-000001",
        {"viewport": {"width": 1280, "height": 860}},
    ),
    "report-kip848-dark.png": (
        "kip848",
        ["--groups", "3", "--seconds", "5400", "--seed", "11"],
        "kip848-000001",
        {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    ),
    "report-all.png": (
        "unwritable",
        ["--groups", "12", "--seconds", "5400", "--seed", "3"],
        None,
        {"viewport": {"width": 1280, "height": 640}},
    ),
}
#: The endings of the images of ``PICTURED``, and settings of the browser.
WIDTHS: Final[dict[str, dict[str, Any]]] = {
    ".png": {"viewport": {"width": 1280, "height": 720}},
    "-small.png": {"viewport": {"width": 390, "height": 844}},
}
#: A cluster in which most groups are healthy.
USUAL: Final = ["--groups", "24", "--seconds", "14400", "--seed", "11"]
#: Brokers that keep offsets for two hours after the last member has gone: some have expired, some are about to.
EXPIRY: Final = ["--groups", "12", "--seconds", "10800", "--seed", "11", "--retention-minutes", "120"]
EXPIRY_RETENTION_MS: Final = 120 * 60_000
#: Image -> scenario, flags of the simulation, the second of it that is now, the page, settings of the browser.
LIVE: Final[dict[str, tuple[str, list[str], int, str, dict[str, Any]]]] = {
    "board-stuck.png": (
        "stuck",
        STUCK,
        4070,
        "/",
        {"viewport": {"width": 1280, "height": 900}},
    ),
    "board-usual.png": (
        "mixed",
        USUAL,
        13_000,
        "/",
        {"viewport": {"width": 1280, "height": 900}},
    ),
    "group-usual.png": (
        "mixed",
        USUAL,
        13_000,
        "/groups/mixed-000001",
        {"viewport": {"width": 1280, "height": 900}},
    ),
    "board-expiry-dark.png": (
        "expiry",
        EXPIRY,
        9_300,
        "/",
        {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    ),
    "group-expiry.png": (
        "expiry",
        EXPIRY,
        9_300,
        "/groups/expiry-000006?since=1767225600000",
        {"viewport": {"width": 1280, "height": 900}},
    ),
    "board-small.png": (
        "expiry",
        EXPIRY,
        9_300,
        "/",
        {"viewport": {"width": 390, "height": 844}},
    ),
    "board-storm-dark.png": (
        "storm",
        ["--groups", "12", "--seconds", "2400", "--seed", "11"],
        1800,
        "/",
        {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    ),
    "group-stuck.png": (
        "stuck",
        STUCK,
        4070,
        "/groups/stuck-000010",
        {"viewport": {"width": 1280, "height": 900}},
    ),
    "group-small-dark.png": (
        "stuck",
        STUCK,
        4070,
        "/groups/stuck-000010",
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    ),
}


def groupreplay(*words: object) -> None:
    """Runs a command of groupreplay."""
    subprocess.run([sys.executable, "-m", "groupreplay", *map(str, words)], check=True)


def shoot(address: str, image: Path, settings: dict[str, Any], ready: str = "html[data-ready]") -> None:
    """The upper part of a page as a picture, when an element is there."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        raise SystemExit(f"no browser: install one of {', '.join(PROGRAMS)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=120_000)
        opened = browser.new_page(**settings)
        opened.set_default_timeout(600_000)
        opened.goto(address)
        opened.wait_for_selector(ready, state="attached")
        opened.screenshot(path=image)
        browser.close()
    shrink(image)


def shrink(image: Path) -> None:
    """A palette of 256 colours makes a third of a picture; without pngquant it stays as it is."""
    if (program := shutil.which("pngquant")) is not None:
        words = ["--force", "--skip-if-larger", "--strip", "--output", str(image), "256", str(image)]
        # 98: the result would be larger.
        subprocess.run([program, *words], check=False)


def shoot_incidents(chosen_names: Collection[str], scratch: Path) -> None:
    """The pages of the incidents, those that are named."""
    for stem in PICTURED:
        wanted = {f"{stem}{ending}": settings for ending, settings in WIDTHS.items()}
        if wanted.keys().isdisjoint(chosen_names):
            continue
        page = scratch / f"{stem}.html"
        page.write_text(pictured_page(stem))
        for name, settings in wanted.items():
            if name in chosen_names:
                shoot(page.as_uri(), IMAGES / name, settings)


def main() -> None:
    """All screenshots, or those that are named."""
    IMAGES.mkdir(exist_ok=True)
    incidents = [f"{stem}{ending}" for stem in PICTURED for ending in WIDTHS]
    chosen_names = sys.argv[1:] or [*SHOTS, *LIVE, *incidents]
    with tempfile.TemporaryDirectory() as scratch:
        captures: dict[tuple[str, ...], Path] = {}
        shoot_incidents(chosen_names, Path(scratch))

        def simulated(scenario: str, flags: list[str]) -> Path:
            """The capture of a simulation, which is made once."""
            kind = (scenario, *flags)
            path = captures.get(kind)
            if path is None:
                path = captures[kind] = Path(scratch) / f"{len(captures)}-{scenario}.parquet"
                groupreplay("simulate", "--scenario", scenario, *flags, "-o", path)
            return path

        for name, (scenario, flags, group, settings) in SHOTS.items():
            if name not in chosen_names:
                continue
            page = Path(scratch) / f"{name}.html"
            chosen = ["--all-groups"] if group is None else ["--group", group]
            groupreplay("report", "--from-file", simulated(scenario, flags), *chosen, "-o", page)
            shoot(page.as_uri(), IMAGES / name, settings)
        kept: dict[str, Capture] = {}
        for name, (scenario, flags, now_s, path, settings) in LIVE.items():
            if name not in chosen_names:
                continue
            if scenario not in kept:
                more = {"retention_ms": EXPIRY_RETENTION_MS} if flags is EXPIRY else {}
                kept[scenario] = Capture(simulated(scenario, flags), now_s, **more)
            with served_captures({scenario: kept[scenario]}) as address:
                shoot(f"{address}{path}", IMAGES / name, settings, "svg.strip rect, html[data-draws]")


if __name__ == "__main__":
    main()
