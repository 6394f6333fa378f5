"""Advice in a browser: on the page of a report, in the overview, on the live page of a group and on the board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.job.captures import invoke
from support.pictures.accessibility import SCREENS, violations
from support.pictures.deployments import GROUPS, rolled_capture, rolled_events
from support.pictures.live_pages import LiveSite, live_page, live_site, shown
from support.pictures.report_pages import opened_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = "https://docs.example.com/advice.md"
#: A phone must not scroll sideways.
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
OPEN = "document.querySelectorAll('#advice, #deployments details').forEach(each => { each.open = true; })"
LINKS = "[...document.querySelectorAll('#advice a')].map(each => each.href)"
KINDS = "[...document.querySelectorAll('#advice strong')].map(each => each.textContent)"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of one group and of all."""
    folder = tmp_path_factory.mktemp("advice")
    capture, rules = rolled_capture(folder)
    made = {"one": folder / "one.html", "all": folder / "all.html"}
    words = ("report", "--from-file", capture, "--rules", rules)
    assert invoke(*words, "--group", GROUPS[1], "-o", made["one"]).exit_code == 0
    assert invoke(*words, "--all-groups", "-o", made["all"]).exit_code == 0
    return made


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LiveSite]:
    """A site whose job has watched these groups."""
    events, end_ms = rolled_events(tmp_path)
    with live_site(tmp_path, end_ms) as made:
        made.write(events)
        made.beat()
        yield made


def test_a_report_has_findings_with_links_and_events(reports: dict[str, Path], browser: Browser) -> None:
    """Each finding links to its section; a button shows one of its events in the table."""
    with opened_page(browser, reports["one"]) as page:
        page.value(OPEN)
        kinds = page.value(KINDS)
        assert kinds[:2] == ["static-membership", "incremental-rebalances"]
        assert page.value(LINKS) == [f"{PAGE}#{kind}" for kind in kinds]
        assert page.page.inner_text("#advice-title") == f"Advice: {', '.join(kinds)}"
        assert "deployments made" in page.page.inner_text("#advice-parts")
        page.page.locator("#advice li button").first.click()
        page.wait_for("document.querySelectorAll('#rows tr.marked').length === 1")
        assert page.problems == []


def test_the_overview_counts_findings_and_has_deployments_by_team(
    reports: dict[str, Path], browser: Browser
) -> None:
    """A column with the number of findings, which the rows can be sorted by; the cost of deployments by team."""
    with opened_page(browser, reports["all"]) as page:
        page.value(OPEN)
        assert page.page.locator("td.advised").all_inner_texts()[0].isdigit()
        teams = page.page.locator("#deployments li").all_inner_texts()
        assert sorted(text.partition(":")[0] for text in teams) == ["no team", "team blue"]
        assert " deployments of 2 groups made " in page.page.inner_text("#deployments summary")
        page.page.select_option("#strip-sort", "advice")
        page.wait_for("location.hash === '#sort=advice'")
        assert page.problems == []


def test_live_pages_have_advice_and_deployments(site: LiveSite, browser: Browser) -> None:
    """The page of a group has its findings, also where the log cannot be read; the board has the last week by team."""
    with live_page(browser, site.url(f"/groups/{GROUPS[1]}")) as page:
        shown(page).wait_for("!document.querySelector('#advice').classList.contains('hidden')")
        kinds = page.value(KINDS)
        assert kinds == ["incremental-rebalances"]
        assert page.value("document.querySelector('#advice').open") is False
    with live_page(browser, site.url()) as page:
        shown(page).wait_for("document.querySelector('#deployments').textContent !== ''")
        assert page.page.inner_text("#deployments summary").startswith("Last 7 days: ")
        assert page.value("document.querySelectorAll('#deployments li').length") == 2
        assert page.problems == []


def test_a_calm_site_says_nothing(tmp_path: Path, browser: Browser) -> None:
    """Without deployments the board has no line about them."""
    with live_site(tmp_path, 1_700_000_000_000) as calm:
        calm.beat()
        with live_page(browser, calm.url()) as page:
            shown(page).page.wait_for_timeout(1_000)
            assert page.page.inner_text("#deployments") == ""
            assert page.problems == []


def test_everybody_can_read_advice(reports: dict[str, Path], site: LiveSite, browser: Browser) -> None:
    """Opened, wide and on a phone, light and dark: no violation of WCAG 2.2 AA, and no scrolling sideways."""
    for settings in SCREENS:
        for path in reports.values():
            with opened_page(browser, path, **settings) as page:
                page.value(OPEN)
                assert (violations(page), page.value(SIDEWAYS)) == ([], False)
        with live_page(browser, site.url(), **settings) as page:
            shown(page).wait_for("document.querySelector('#deployments').textContent !== ''")
            page.value(OPEN)
            assert (violations(page), page.value(SIDEWAYS)) == ([], False)
