"""Pages of reports: made from captures, taken apart as HTML, and opened in a browser."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groupreplay.app.report.page import report_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

    from groupreplay.timeline.document import TimelineDocument
    from groupreplay.timeline.overview import GroupsOverview

#: Names under which distributions install it.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: In the page of a report: its document, and the shapes of its first view that have a tooltip.
DATA = "JSON.parse(document.getElementById('data').textContent)"
SHAPES = f"Picture.draw({DATA}, Picture.firstView({DATA}, 1300)).items.filter(item => item.tip)"
NO_BROWSER = f"no browser: none of {', '.join(PROGRAMS)} is installed"


class PageParts(HTMLParser):
    """The elements of a page with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.sources: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See ``HTMLParser``."""
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs)) if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        """See ``HTMLParser``."""
        if self._open is not None:
            self.sources.append((*self._open, data))

    def handle_endtag(self, tag: str) -> None:
        """See ``HTMLParser``."""
        self._open = None


def browser_program() -> str | None:
    """A browser that is installed here; None: there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@dataclass(slots=True)
class OpenedPage:
    """A page in a browser; ``problems`` are errors, messages of the console and requests for anything but the file."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def value(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.page.evaluate(expression)

    def drawn(self) -> int:
        """How often the picture was drawn."""
        return int(self.value("document.documentElement.dataset.draws || 0"))

    def wait_for_drawing(self, before: int) -> None:
        """Wait until the picture was drawn again."""
        self.wait_for(f"Number(document.documentElement.dataset.draws) > {before}")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true. The page's policy forbids the browser to do that by itself."""
        deadline = time.monotonic() + 60
        while not self.value(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.05)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A headless browser; one at a time in a process."""
    from playwright.sync_api import sync_playwright

    program = browser_program()
    assert program is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=120_000)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def kept_contexts(browser: Browser) -> Iterator[None]:
    """Pages of this browser with the same settings have one context, in which each but the first costs a third.

    The pages know nothing of each other: they set no cookies, and the storage of a session is that of a tab.
    """
    _KEPT[browser] = {}
    try:
        yield
    finally:
        del _KEPT[browser]


#: For each browser that keeps contexts: settings, as a text, and the context that has them.
_KEPT: Final[dict[Browser, dict[str, BrowserContext]]] = {}


@contextmanager
def new_page(browser: Browser, is_own: Callable[[str], bool], **settings: Any) -> Iterator[OpenedPage]:
    """An empty page, whose ``problems`` are also the requests for URLs that are not its own.

    ``settings`` are those of a context of the browser.
    """
    kept = _KEPT.get(browser)
    with ExitStack() as stack:
        if kept is None:
            context = stack.enter_context(browser.new_context(**settings))
        else:
            name = json.dumps(settings, sort_keys=True)
            context = kept[name] = kept.get(name) or browser.new_context(**settings)
        page = context.new_page()
        stack.callback(page.close)
        page.set_default_timeout(60_000)
        opened = OpenedPage(page)
        page.on("console", lambda message: opened.problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: opened.problems.append(f"error: {error}"))

        def note(request: Request) -> None:
            if not is_own(request.url):
                opened.problems.append(f"request: {request.url}")

        page.on("request", note)
        yield opened


@contextmanager
def opened_page(browser: Browser, path: Path, place: str = "", **settings: Any) -> Iterator[OpenedPage]:
    """The page, drawn at a fragment, without a network; ``settings`` are those of a context of the browser."""
    given = {"viewport": {"width": 1360, "height": 1000}, "offline": True, **settings}
    with new_page(browser, lambda url: url.startswith(("file:", "blob:", "data:")), **given) as opened:
        opened.page.goto(path.as_uri() + place)
        opened.page.wait_for_selector("html[data-ready]", state="attached")
        yield opened


@contextmanager
def opened_report(
    browser: Browser, folder: Path, document: TimelineDocument | GroupsOverview, **settings: Any
) -> Iterator[OpenedPage]:
    """The page of a report, written into a folder and opened."""
    path = folder / "report.html"
    path.write_text(report_page(document), encoding="utf-8")
    with opened_page(browser, path, **settings) as page:
        yield page
