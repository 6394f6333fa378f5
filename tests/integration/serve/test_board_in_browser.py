"""What a reader finds on the board and the incidents in a browser, keeps in the address, and reaches everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.job.sink_messages import SINCE_MS, document, events, stuck
from support.pictures.accessibility import SCREENS, violations
from support.pictures.live_pages import LiveSite, live_page, shown, two_groups_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser


SICK, CALM = "orders-sick", "orders-calm"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LiveSite]:
    """A site with a stuck group and a calm one."""
    with two_groups_site(tmp_path, SICK, CALM) as made:
        yield made


def test_the_rows_of_groups_are_low(site: LiveSite, browser: Browser) -> None:
    """A name and two lines of its sentence, also in a narrow window; on a phone a name may break behind its point."""
    sick, said = stuck()
    site.write(events(said, "g"), [("g", document(sick, "g"))])
    heights = "[...document.querySelectorAll('#group-rows tr')].map(row => row.offsetHeight)"
    for width in (800, 1_280):
        with live_page(browser, site.url(), viewport={"width": width, "height": 900}) as page:
            shown(page).wait_for("document.querySelectorAll('#group-rows tr').length === 3")
            assert max(page.value(heights)) < 90
            assert page.value("getComputedStyle(document.querySelector('.risk wbr')).display") == "none"
    with live_page(browser, site.url(), viewport={"width": 390, "height": 844}) as page:
        shown(page).wait_for("document.querySelectorAll('#group-rows tr').length === 3")
        assert page.value("getComputedStyle(document.querySelector('.risk wbr')).display") == "inline"


def test_a_row_says_what_is_wrong(site: LiveSite, browser: Browser) -> None:
    """The count of groups, the sentence of the group, and that it goes on; equal conditions are one row to open."""
    sick, said = stuck()
    for number in range(6):
        site.write(events(said, f"g-{number}"), [(f"g-{number}", document(sick, f"g-{number}"))])
    with live_page(browser, site.url()) as page:
        shown(page).wait_for("document.querySelector('#counts').textContent.includes('7 stuck')")
        row = page.page.locator("#group-rows tr").first.inner_text()
        assert "still going" in row
        assert "waits for one of client-a" in row
        page.wait_for("document.querySelectorAll('#conditions tr.fold').length === 2")
        page.page.locator("#conditions tr.fold button").first.click()
        page.wait_for("document.querySelectorAll('#conditions tr.ERROR:not(.fold)').length === 7")


def test_addresses(site: LiveSite, browser: Browser) -> None:
    """Filters of the board, and zoom, filter and event of a group, are in the address: a reload and Back keep them."""
    with live_page(browser, site.url()) as page:
        shown(page).page.fill("#search", "sick")
        page.page.select_option("#sort", "members")
        page.wait_for("location.hash === '#search=sick&sort=members'")
        page.wait_for("document.querySelectorAll('#group-rows tr').length === 1")
        page.page.reload()
        shown(page).wait_for("document.querySelectorAll('#group-rows tr').length === 1")
        assert (page.page.input_value("#search"), page.page.input_value("#sort")) == ("sick", "members")
        page.page.click("#group-rows a.group")
        page.wait_for("document.documentElement.dataset.draws > 0")
        page.value("GroupView.markEvent(GroupView.state.doc.events[0])")
        page.page.click("#in")
        page.wait_for("location.hash.includes(`since=${Math.round(GroupView.state.view.since)}&`)")
        assert "event=" in page.page.url
        view = "[GroupView.state.view.since, GroupView.state.view.until, GroupView.state.marked]"
        before = page.value(view)
        page.page.reload()
        page.wait_for("document.documentElement.dataset.draws > 0")
        assert page.value(view) == before
        assert page.page.get_attribute("#follow", "aria-pressed") == "false"
        page.page.go_back()
        page.wait_for("document.querySelectorAll('#group-rows tr').length === 1")
        assert page.problems == []


def test_incidents_of_the_last_days(site: LiveSite, browser: Browser) -> None:
    """What went wrong, with its sentence and a link to its moment; a search is in the address."""
    with live_page(browser, site.url("/incidents")) as page:
        shown(page).wait_for("document.querySelectorAll('#episodes tr').length === 1")
        assert "Stuck in a rebalance since" in page.page.inner_text("#episodes")
        assert f"at={SINCE_MS}" in (page.page.get_attribute("#episodes td.time a", "href") or "")
        page.page.fill("#search", "calm")
        page.wait_for("document.querySelector('#episodes-empty').textContent !== ''")
        assert page.page.url.endswith("#search=calm")
        assert page.problems == []


def test_everybody_can_use_the_pages(site: LiveSite, browser: Browser) -> None:
    """Board, incidents and a group, wide and on a phone, light and dark: no violation of WCAG 2.2 AA."""
    waits = {"/": "#group-rows tr", "/incidents": "#episodes tr", f"/groups/{SICK}": "#rows tr"}
    for settings in SCREENS:
        for path, element in waits.items():
            with live_page(browser, site.url(path), **settings) as page:
                shown(page).page.wait_for_selector(element)
                assert violations(page) == []
