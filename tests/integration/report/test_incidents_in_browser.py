"""The pages of five incidents of known cause, on a wide screen and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.diagnosed.pictured import PICTURED, pictured_page
from support.paths import ROOT
from support.pictures.accessibility import SCREENS, violations
from support.pictures.report_pages import OpenedPage, opened_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: What whoever is paged looks for: the first sentence has what stands still and since when.
_FIRST_SCREEN = ("cause", "cost", "do first")


def labels_on_screen(page: OpenedPage) -> list[str]:
    """The labels of the first diagnosis whose text ends within the first screen."""
    rows = "[...document.querySelector('.chain').querySelectorAll('dt')]"
    ends = "one.nextElementSibling.getBoundingClientRect().bottom <= innerHeight"
    found: list[str] = page.value(f"{rows}.filter(one => {ends}).map(one => one.textContent)")
    return found


@pytest.mark.parametrize("image", PICTURED)
def test_the_first_screen_says_it(image: str, tmp_path: Path, browser: Browser) -> None:
    """Cause, cost and what to do first without scrolling, also on a phone and sideways; no violation of WCAG 2.2 AA."""
    path = tmp_path / "incident.html"
    path.write_text(pictured_page(image), encoding="utf-8")
    for settings in SCREENS:
        with opened_page(browser, path, **settings) as page:
            assert set(_FIRST_SCREEN) <= set(labels_on_screen(page)), settings
            assert page.value("document.documentElement.scrollWidth <= innerWidth"), settings
            assert violations(page) == [], settings
            assert page.problems == []


def test_the_docs_show_each_incident_at_two_widths() -> None:
    """A picture that is missing, or that no page shows, is found here."""
    text = (ROOT / "docs" / "report.md").read_text()
    wanted = [f"images/{image}{ending}.png" for image in PICTURED for ending in ("", "-small")]
    assert [name for name in wanted if f"]({name})" not in text] == []
    assert [name for name in wanted if not (ROOT / "docs" / name).is_file()] == []
