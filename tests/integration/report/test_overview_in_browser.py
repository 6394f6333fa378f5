"""The page of all groups in a real browser: its rows, its search, its address, and that everybody can use it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupreplay.app.report.page import report_page
from groupreplay.app.text.event_text import text_of
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.overview import (
    OVERVIEW_FORM,
    GroupNow,
    GroupsOverview,
    OverviewTally,
    group_counts,
    strip_bucket_ms,
)
from support.job.captures import printed_by
from support.pictures.accessibility import SCREENS, violations
from support.pictures.report_pages import opened_page, opened_report
from support.pictures.timelines import BEGIN, MINUTE, SOURCE, bodies, history, timeline_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def document() -> TimelineDocument:
    """The timeline of the one group that can be opened."""
    return timeline_of(history(), end_ms=BEGIN + 10 * MINUTE)


def overview_of(document: TimelineDocument, calm: int = 1) -> GroupsOverview:
    """The group of the document, and so many without an event."""
    tally = OverviewTally(text_of)
    for body in bodies(history()):
        tally.add(body)
    for number in range(calm):
        tally.see(f"idle-{number}", GroupNow("Stable", 1, ("orders", f"host-{number}")))
    since_ms, until_ms = document.since_ms, document.until_ms
    strips = [replace(one, in_full=one.group_id == "g") for one in tally.strips(since_ms, until_ms)]
    return GroupsOverview(
        form=OVERVIEW_FORM,
        since_ms=since_ms,
        until_ms=until_ms,
        bucket_ms=strip_bucket_ms(since_ms, until_ms),
        source=SOURCE,
        remarks=(),
        counts=group_counts({("ok", ""): len(strips)}),
        incidents=(),
        strips=tuple(strips),
        timelines=(document,),
    )


def test_the_overview(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """A row for each group, the worst first; one in full opens, and the way back works; names of members are found."""
    with opened_report(browser, tmp_path, overview_of(document)) as page:
        assert page.page.inner_text("#counts") == "2 healthy"
        assert page.page.locator("#strips tr").count() == 2
        assert page.page.locator("#strips svg rect").count() > 0
        page.page.click("#strips a")
        page.page.wait_for_selector("#group:not(.hidden)")
        assert page.page.inner_text("#title") == "g"
        page.page.click("#back")
        page.page.wait_for_selector("#overview:not(.hidden)")
        for text in ("idle", "host-0", "stable"):
            page.page.fill("#group-filter", text)
            assert page.page.locator("#strips tr").count() == 1
        assert page.problems == []


def test_sentences_in_another_time_zone(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """The times in the sentence of a row are those of its axis: in the zone of the page."""
    overview = overview_of(document)
    sentence = "Stuck in a rebalance since 00:00:00."
    strips = [
        replace(one, leading="x", text=sentence, parts=("Stuck in a rebalance since ", BEGIN, "."))
        if one.in_full
        else one
        for one in overview.strips
    ]
    with opened_report(
        browser, tmp_path, replace(overview, strips=tuple(strips)), timezone_id="Asia/Kolkata"
    ) as page:
        first = page.page.locator("#strips td.text").first
        assert first.inner_text().startswith(sentence)
        page.page.click("[data-zone=local]:visible")
        assert first.inner_text().startswith("Stuck in a rebalance since 05:30:00.")
        assert page.problems == []


@pytest.mark.parametrize("advice", [None, 0, 2])
def test_a_column_of_advice(
    document: TimelineDocument, tmp_path: Path, browser: Browser, advice: int | None
) -> None:
    """It is there, and can be sorted by, where a group has advice; else none of the page speaks of it."""
    overview = overview_of(document)
    strips = tuple(replace(strip, advice=advice if strip.in_full else None) for strip in overview.strips)
    with opened_report(browser, tmp_path, replace(overview, strips=strips)) as page:
        heads = page.page.locator(".strips th:visible").all_inner_texts()
        assert ("advice" in heads, page.page.locator(".strips td.advised:visible").count()) == (
            (True, 2) if advice else (False, 0)
        )
        assert page.page.locator("#strip-sort option[value=advice]").count() == (1 if advice else 0)
        assert page.problems == []


def test_equal_groups_are_folded(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """Twelve rows of those with the same worst thing, and a button for the others; a search shows all that match."""
    with opened_report(browser, tmp_path, overview_of(document, calm=20)) as page:
        assert page.page.locator("#strips tr").count() == 13
        page.page.click("#strips tr.fold button")
        assert page.page.locator("#strips tr").count() == 21
        page.page.fill("#group-filter", "idle")
        assert page.page.locator("#strips tr").count() == 20


def test_the_address_is_what_the_reader_sees(
    document: TimelineDocument, tmp_path: Path, browser: Browser
) -> None:
    """Search and order, then group, zoom, filter and event are in the address: a reload and Back keep them."""
    seen = "[GroupView.state.view.since, GroupView.state.view.until, GroupView.state.marked]"
    with opened_report(browser, tmp_path, overview_of(document)) as page:
        page.page.fill("#group-filter", "g")
        page.page.select_option("#strip-sort", "moved")
        page.wait_for("location.hash === '#groups=g&sort=moved'")
        page.page.click("#strips a")
        page.page.click("#in")
        page.page.fill("#filter", "rebalance")
        page.value("GroupView.markEvent(GroupView.state.doc.events[3])")
        page.wait_for("location.hash.includes(`since=${Math.round(GroupView.state.view.since)}&`)")
        page.wait_for("location.hash.includes('event=')")
        before, address = page.value(seen), page.page.url
        assert "filter=rebalance" in address
        page.page.reload()
        page.page.wait_for_selector("html[data-ready]", state="attached")
        assert (page.value(seen), page.page.input_value("#filter")) == (before, "rebalance")
        assert page.value("Address.link()") == address
        page.page.go_back()
        page.page.wait_for_selector("#overview:not(.hidden)")
        assert page.page.input_value("#group-filter") == "g"
        assert page.page.input_value("#strip-sort") == "moved"
        assert page.problems == []


def test_everybody_can_use_the_pages(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """The overview and a group, wide and on a phone, light and dark: no violation of WCAG 2.2 AA."""
    (tmp_path / "report.html").write_text(report_page(overview_of(document, calm=20)), encoding="utf-8")
    for settings in SCREENS:
        for place in ("", "#group=g"):
            with opened_page(browser, tmp_path / "report.html", place, **settings) as page:
                assert violations(page) == []


def test_the_command_writes_what_the_browser_draws(tmp_path: Path, browser: Browser) -> None:
    """From a simulated capture: the page of a group, and the overview; small files, and no error."""
    capture = tmp_path / "stuck.parquet"
    words = ("simulate", "--scenario", "stuck", "--groups", 2, "--seconds", 1800, "--seed", 11, "-o", capture)
    printed_by(*words)
    for flags in (("--group", "stuck-000001"), ("--all-groups",)):
        path = tmp_path / f"{flags[0]}.html"
        printed_by("report", "--from-file", capture, *flags, "-o", path)
        assert path.stat().st_size < 2_000_000
        with opened_page(browser, path) as page:
            assert page.problems == []
