"""The live pages in a real browser, on a site whose topics the test writes: board, group, token, lost connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.job.sink_messages import HOSTILE_IDS, SINCE_MS, document, events, stable, stuck
from support.pictures.live_pages import STUCK_MS, LiveSite, live_page, live_site, shown, two_groups_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser


TOKEN = "a-token-of-the-tests"
SICK, CALM = "orders-sick", "orders-calm"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LiveSite]:
    """A site with a stuck group and a calm one."""
    with two_groups_site(tmp_path, SICK, CALM) as made:
        yield made


def test_the_board_shows_what_holds(site: LiveSite, browser: Browser) -> None:
    """The worst first: the condition with its suspects, the group in the list, its strip, its events; no error."""
    with live_page(browser, site.url()) as page:
        shown(page).page.wait_for_selector("#conditions tr.ERROR")
        first = page.page.locator("#conditions tr").first.inner_text()
        assert "ERROR" in first
        assert SICK in first
        assert "rebalance.stuck" in first
        assert "suspects" in first
        assert page.page.inner_text("#headline p:first-child") == f"1 group in an error: {SICK}"
        page.wait_for("document.querySelectorAll('#group-rows tr').length === 2")
        rows = page.page.locator("#group-rows tr")
        assert [SICK in rows.nth(0).inner_text(), CALM in rows.nth(1).inner_text()] == [True, True]
        page.wait_for("document.querySelectorAll('#group-rows svg.strip rect').length > 0")
        page.wait_for("document.querySelectorAll('#latest li').length > 1")
        assert page.problems == []


def test_a_cluster_that_cannot_be_read(site: LiveSite, browser: Browser) -> None:
    """The board and the page of a group say why, and as of when everything is; when it can be read they stop."""
    feed = site.clusters[0].feed
    feed.trouble = "no broker answers"
    with live_page(browser, site.url()) as board, live_page(browser, site.url(f"/groups/{SICK}")) as group:
        shown(board).wait_for("document.querySelector('#headline').textContent.includes('no broker answers')")
        shown(group).wait_for("document.querySelector('#stale').textContent.includes('no broker answers')")
        assert "What is shown of groups is as of " in board.page.inner_text("#headline p:first-child")
        feed.trouble = ""
        board.wait_for("!document.querySelector('#headline').textContent.includes('no broker answers')")
        group.wait_for("document.querySelector('#stale').classList.contains('hidden')")
        assert (board.problems, group.problems) == ([], [])


def test_a_condition_that_does_not_warn(site: LiveSite, browser: Browser) -> None:
    """The headline does not say that nothing is wrong, and counts it."""
    held = json.loads(document(stuck()[0], SICK))
    for one in held["conditions"]:
        one["severity"] = "INFO"
    site.write((), [(SICK, json.dumps(held).encode())])
    with live_page(browser, site.url()) as page:
        headline = "document.querySelector('#headline').textContent"
        shown(page).wait_for(f"{headline}.startsWith('No warning in 2 groups, 1 with a condition')")
        assert page.problems == []


def test_from_a_moment_on(site: LiveSite, browser: Browser) -> None:
    """A page that follows from a given moment has no chosen length; one that is chosen then takes its place."""
    with live_page(browser, site.url(f"/groups/{SICK}?since={STUCK_MS - 3_000_000}")) as page:
        span = "GroupView.state.view.until - GroupView.state.view.since"
        shown(page).wait_for(f"{span} >= 3000000")
        pressed = "document.querySelectorAll('[data-length][aria-pressed=true]').length"
        assert page.value(pressed) == 0
        page.page.click("[data-length='900000']")
        # The axis begins with what is known, which is less.
        page.wait_for(f"{span} <= 900000")
        assert (page.value(pressed), page.problems) == (1, [])


def test_on_a_phone(site: LiveSite, browser: Browser) -> None:
    """Nothing is wider than the screen, an event has a few lines and not one letter each; dark where that is asked."""
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    for path in ("/", f"/groups/{SICK}"):
        with live_page(browser, site.url(path), **phone) as page:
            shown(page).wait_for("document.querySelectorAll('#latest li, #rows tr').length > 1")
            assert page.value("document.documentElement.scrollWidth") <= 390
            assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 29)"
            tallest = (
                "Math.max(0, ...[...document.querySelectorAll('#rows tr')].map(one => one.offsetHeight))"
            )
            assert page.value(tallest) < 240
            widest = "Math.max(0, ...[...document.querySelectorAll('canvas')].map(one => one.offsetWidth))"
            assert page.value(widest) <= 390
            assert page.problems == []


def test_what_happens_appears_on_the_board(site: LiveSite, browser: Browser) -> None:
    """An event of a group is in the list without a reload, its condition with it; when it resolves it is gone."""
    with live_page(browser, site.url()) as page:
        shown(page).page.wait_for_selector("#conditions tr.ERROR")
        page.wait_for("document.documentElement.dataset.stream === 'open'")
        (sick, said), (calm, _) = stuck(), stable()
        site.write(events(said, "new-one"), [("new-one", document(sick, "new-one"))])
        page.wait_for("document.querySelector('#latest').textContent.includes('new-one')")
        page.wait_for("document.querySelector('#conditions').textContent.includes('new-one')")
        page.wait_for("document.querySelector('#news').textContent.startsWith('ERROR')")
        site.write((), [("new-one", document(calm, "new-one")), (SICK, document(calm, SICK))])
        page.wait_for("document.querySelector('#headline').textContent.startsWith('Nothing is wrong')")
        assert page.page.inner_text("#conditions-empty") == "No condition holds."
        assert page.problems == []


def test_search_and_filters(site: LiveSite, browser: Browser) -> None:
    """The server searches: by part of an id, by state, by risk; an empty list says why it is empty."""
    with live_page(browser, site.url()) as page:
        shown(page).page.fill("#search", "calm")
        page.wait_for("document.querySelectorAll('#group-rows tr').length === 1")
        page.page.fill("#search", "")
        page.page.select_option("#risk", "ERROR")
        page.wait_for(f"document.querySelector('#group-rows').textContent.includes('{SICK}')")
        page.wait_for("document.querySelectorAll('#group-rows tr').length === 1")
        page.page.fill("#search", "nothing-like-it")
        page.wait_for("document.querySelector('#groups-empty').textContent === 'None of 2 groups matches.'")
        assert page.problems == []


def test_five_thousand_groups(tmp_path: Path, browser: Browser) -> None:
    """The page has one page of groups, however many there are, and reaches the others."""
    calm, _ = stable()
    with live_site(tmp_path, STUCK_MS) as made:
        made.write(
            (), [(f"group-{number:04}", document(calm, f"group-{number:04}")) for number in range(5000)]
        )
        made.beat()
        with live_page(browser, made.url()) as page:
            shown(page)
            page.wait_for("document.querySelector('#groups-count').textContent === '1 to 25 of 5000'")
            page.page.click("#next")
            page.wait_for("document.querySelector('#group-rows').textContent.includes('group-0025')")
            assert page.page.locator("#group-rows tr").count() == 25
            page.page.fill("#search", "4999")
            page.wait_for("document.querySelectorAll('#group-rows tr').length === 1")
            assert page.value("document.querySelectorAll('*').length") < 2000
            assert page.problems == []


def test_without_a_job(tmp_path: Path, browser: Browser) -> None:
    """The page says why it is empty: the topics were not read yet."""
    why = "the job's topics have not been read to their ends yet."
    with live_site(tmp_path, STUCK_MS) as made, live_page(browser, made.url()) as page:
        shown(page)
        page.wait_for("document.querySelector('#headline').textContent.startsWith('Nothing is known')")
        page.wait_for("document.querySelector('#groups-empty').textContent !== ''")
        assert page.page.inner_text("#headline") == f"Nothing is known of this cluster: {why}"
        assert page.page.inner_text("#groups-empty") == f"Nothing is known of groups: {why}"
        assert page.problems == []


def test_two_clusters(tmp_path: Path, browser: Browser) -> None:
    """Side by side with their worst severity; a click shows the other one, and its groups' links name it."""
    (sick, _), (calm, _) = stuck(), stable()
    with live_site(tmp_path, STUCK_MS, ("north", "south")) as made:
        made.write((), [(CALM, document(calm, CALM))])
        made.write((), [(SICK, document(sick, SICK))], at=1)
        made.beat()
        made.beat(1)
        with live_page(browser, made.url()) as page:
            shown(page)
            page.wait_for("document.querySelectorAll('#clusters .cluster').length === 2")
            assert "1 ERROR" in page.page.locator("#clusters .cluster").nth(1).inner_text()
            page.page.locator("#clusters .cluster").nth(1).click()
            page.wait_for(f"document.querySelector('#group-rows').textContent.includes('{SICK}')")
            assert page.page.get_attribute("#group-rows a.group", "href") == f"/groups/{SICK}?cluster=south"
            page.page.click("#group-rows a.group")
            page.wait_for("document.querySelector('#cluster-name')?.textContent === 'cluster south'")


def test_the_token(tmp_path: Path, browser: Browser) -> None:
    """Nothing is shown without it; from the fragment it goes to requests, and is gone from the address bar."""
    calm, _ = stable()
    with live_site(tmp_path, STUCK_MS, token=TOKEN) as made:
        made.write((), [(CALM, document(calm, CALM))])
        made.beat()
        with live_page(browser, made.url()) as page:
            page.page.wait_for_selector("#token-form:not(.hidden)")
            assert (
                page.page.inner_text("#token-why") == "This server asks for a token, and this page has none."
            )
            assert CALM not in page.page.content()
            page.page.fill("#token", "wrong")
            page.page.click("#token-form button")
            page.wait_for("document.querySelector('#token-why').textContent.includes('was refused')")
            page.page.fill("#token", TOKEN)
            page.page.click("#token-form button")
            page.wait_for(f"document.querySelector('#group-rows').textContent.includes('{CALM}')")
        with live_page(browser, made.url(f"/#token={TOKEN}")) as page:
            shown(page)
            page.wait_for(f"document.querySelector('#group-rows').textContent.includes('{CALM}')")
            assert page.page.url == made.url()
            assert page.page.context.cookies() == []
            assert TOKEN not in page.page.content()
            assert page.problems == []


def test_a_group_live(site: LiveSite, browser: Browser) -> None:
    """Its events and verdict, and why lanes are missing; a new event is a row at once; the axis follows the time."""
    with live_page(browser, site.url(f"/groups/{SICK}")) as page:
        shown(page)
        assert page.page.inner_text("#title") == SICK
        assert "rebalance.stuck" in page.page.inner_text("#rows")
        assert "The offsets topic could not be read" in page.value(
            "document.querySelector('#remarks').textContent"
        )
        page.wait_for("document.querySelector('#group-now').textContent.includes('rebalance.stuck for')")
        page.wait_for("document.documentElement.dataset.stream === 'open'")
        before = page.value("GroupView.state.view.until")
        page.wait_for(f"GroupView.state.view.until > {before} + 2000")
        (calm, calm_events) = stable()
        fresh = [
            one.replace(b"group-events", b"group-event2") for one in events(calm_events, SICK, late_ms=1)
        ]
        count = page.page.locator("#rows tr").count()
        site.write(fresh, [(SICK, document(calm, SICK))])
        page.wait_for("document.querySelector('#group-now').textContent.includes('no condition holds')")
        assert page.page.locator("#rows tr").count() >= count
        assert page.problems == []


def test_zoom_stops_following(site: LiveSite, browser: Browser) -> None:
    """Whoever zooms or moves keeps that time; Follow goes back to now."""
    with live_page(browser, site.url(f"/groups/{SICK}")) as page:
        shown(page)
        page.wait_for("document.documentElement.dataset.following === 'true'")
        page.page.locator("#picture").focus()
        page.page.keyboard.press("+")
        page.wait_for("document.documentElement.dataset.following === 'false'")
        until, now = page.value("GroupView.state.view.until"), page.value("Live.now()")
        page.wait_for(f"Live.now() > {now} + 3000")
        assert page.value("GroupView.state.view.until") == until
        assert page.page.get_attribute("#follow", "aria-pressed") == "false"
        page.page.click("#follow")
        page.wait_for(f"GroupView.state.view.until > {now} + 3000")
        assert page.page.get_attribute("#follow", "aria-pressed") == "true"
        assert page.problems == []


def test_a_moment(site: LiveSite, browser: Browser) -> None:
    """An address with a moment opens around it, marks the nearest event, and does not follow."""
    with live_page(browser, site.url(f"/groups/{SICK}?at={SINCE_MS}")) as page:
        shown(page)
        since, until = page.value("[GroupView.state.view.since, GroupView.state.view.until]")
        assert since < SINCE_MS < until
        assert page.page.locator("#rows tr.marked").count() == 1
        assert page.page.get_attribute("#follow", "aria-pressed") == "false"


def test_a_lost_connection(site: LiveSite, browser: Browser) -> None:
    """The bar says since when; the page tries again by itself, and has what happened meanwhile."""
    with live_page(browser, site.url()) as page:
        shown(page)
        page.wait_for("document.documentElement.dataset.stream === 'open'")
        site.stop()
        page.page.wait_for_selector("#connection:not(.hidden)")
        text = page.page.inner_text("#connection-text")
        assert re.match(
            r"Connection lost since \d\d:\d\d:\d\d \(.*\): .*\. (Next try in|Trying now)", text
        ), text
        sick, said = stuck()
        site.write(events(said, "meanwhile"), [("meanwhile", document(sick, "meanwhile"))])
        site.start()
        page.page.click("#connection-retry")
        page.page.wait_for_selector("#connection.hidden", state="attached")
        page.wait_for("document.querySelector('#latest').textContent.includes('meanwhile')")
        assert [one for one in page.problems if not one.startswith("console: Failed to load resource")] == []


def test_hostile_ids(tmp_path: Path, browser: Browser) -> None:
    """Groups with hostile ids are text on the board and on their page; nothing runs."""
    sick, said = stuck()
    names = [*HOSTILE_IDS[:-3], "<img src=x onerror=window.hacked=1>", "'\"`${window.hacked=1}"]
    with live_site(tmp_path, STUCK_MS) as made:
        for name in names:
            made.write(events(said, name), [(name, document(sick, name))])
        made.beat()
        with live_page(browser, made.url()) as page:
            shown(page)
            page.wait_for(f"document.querySelectorAll('#group-rows tr').length === {len(names)}")
            page.page.wait_for_selector("#conditions tr")
            links = page.value("[...document.querySelectorAll('#group-rows a.group')].map(one => one.href)")
            board = page.page.inner_text("body")
            # Each page waits for a log that is not there.
            for link in links[:3]:
                page.page.goto(link)
                page.page.wait_for_selector("html[data-ready]", state="attached")
                page.wait_for("document.querySelectorAll('#rows tr').length > 0")
            assert page.value("typeof window.hacked") == "undefined"
            assert page.page.locator("img").count() == 0
            assert page.problems == []
    assert not set("\u202e\x1b\x00") & set(board)


def test_another_time_zone(site: LiveSite, browser: Browser) -> None:
    """Local time is that of the reader; UTC is the default."""
    with live_page(browser, site.url(), timezone_id="Asia/Kolkata") as page:
        shown(page).page.wait_for_selector("#latest li")
        utc = page.page.inner_text("#latest li:first-child time")
        page.page.click("[data-zone=local]")
        page.wait_for(f"document.querySelector('#latest li:first-child time').textContent !== '{utc}'")
        hours = int(page.page.inner_text("#latest li:first-child time")[:2]) - int(utc[:2])
        assert hours % 24 in (5, 6)
