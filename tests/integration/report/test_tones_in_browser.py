"""Severities in a real browser: one colour for one severity, in dots, strips, sentences, marks and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.histories.builders import Raw, generation, member
from support.job.captures import printed_by
from support.pictures.report_pages import SHAPES, OpenedPage, opened_page, opened_report
from support.pictures.timelines import BEGIN, MINUTE, SECOND, timeline_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser


RED = "rgb(196, 38, 46)"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups that are off for a weekend, with offsets that are kept for a day."""
    path = tmp_path_factory.mktemp("lost") / "weekend.parquet"
    hours = 72 * 3_600
    printed_by("simulate", "--scenario", "weekend", "--groups", 2, "--seconds", hours, "-o", path)
    return path


def styles(page: OpenedPage, selector: str, name: str, pseudo: str = "") -> list[str]:
    """A computed style of all elements of a kind."""
    return list(
        page.value(
            f"[...document.querySelectorAll({selector!r})].map(one => getComputedStyle(one, {pseudo!r}).{name})"
        )
    )


def shapes(page: OpenedPage, begin: str) -> list[str]:
    """The colours of the shapes of the first view whose tooltip begins so."""
    return list(
        page.value(
            f"{SHAPES}.filter(item => item.tip[0].startsWith({begin!r})).map(item => item.stroke || item.fill)"
        )
    )


def test_a_lost_offset_is_red_everywhere(capture: Path, tmp_path: Path, browser: Browser) -> None:
    """Dot and strip of the overview; headline, sentence, mark and row of the group; nothing is green beside it."""
    everything, one, rules = tmp_path / "all.html", tmp_path / "one.html", tmp_path / "rules.toml"
    rules.write_text('[[group]]\nmatch = ["weekend-*"]\nmatters = true\n')
    for path, flags in ((everything, ("--all-groups",)), (one, ("--group", "weekend-000000"))):
        printed_by("report", "--from-file", capture, "--rules", rules, *flags, "-o", path)
    with opened_page(browser, everything) as page:
        assert set(styles(page, "#strips .tone", "backgroundColor")) == {RED}
        fills = styles(page, "#strips tr:first-child svg rect", "fill")
        assert RED in fills
        assert "offsets were lost" in page.page.inner_text("#strips tr:first-child td.text")
        page.page.check("#only-wrong")
        assert page.page.locator("#strips tr").count() == 2
        assert page.problems == []
    with opened_page(browser, one) as page:
        assert styles(page, "#verdict", "borderLeftColor") == [RED]
        assert page.page.inner_text("#verdict p:first-child span").startswith("Committed offsets of ")
        assert styles(page, "#verdict p:first-child", "color", "::before") == [RED]
        assert page.page.locator("#verdict .ok").count() == 0
        assert set(shapes(page, "offsets expired")) == {"#c4262e"}
        assert set(styles(page, "#rows tr.ERROR td.severity", "color")) == {RED}
        badges = page.page.locator("#badges .badge").all_inner_texts()
        assert "history: full" in badges
        remarks = page.page.locator("#remarks li").all_inner_texts()
        assert [text for text in remarks if "ompaction" in text] == []
        assert any("at the end of their retention" in text for text in remarks)
        assert page.problems == []


def slow_leader() -> list[Raw]:
    """A leader that needs eight seconds twice."""
    a, b = member("a", (0, 1)), member("b", (2, 3))
    begin = generation(0, at=BEGIN, since=BEGIN, protocol_type="")
    alone = generation(1, a, at=BEGIN + MINUTE, since=BEGIN + MINUTE - 10)
    led = [
        generation(number, a, b, at=at + 8_001, since=at)
        for number, at in ((2, BEGIN + 2 * MINUTE), (3, BEGIN + 3 * MINUTE))
    ]
    return [begin, alone, *led]


def test_a_slow_leader_is_named(tmp_path: Path, browser: Browser) -> None:
    """In the sentence, the tooltip of the state, of the flag and of the leader's lane; no sentence is green."""
    slow = timeline_of(slow_leader(), end_ms=BEGIN + 4 * MINUTE)
    with opened_report(browser, tmp_path, slow) as page:
        first = page.page.inner_text("#verdict p:first-child span")
        assert first.startswith(
            "The group waited 2 times for the assignment of its leader, client-a on 10.0.0.1"
        )
        assert page.page.locator("#verdict .ok").count() == 0
        named = page.value(
            f"{SHAPES}.filter(item => item.tip.some(line => line.includes('the assignment of the leader')))"
            ".map(item => item.tip[0].split(',')[0])"
        )
        assert sorted(named) == [
            *("CompletingRebalance", "CompletingRebalance", "Generation 2", "Generation 3"),
            *("client-a", "client-a"),
        ]
        texts = page.page.locator("#rows td.text").all_inner_texts()
        assert sum("took 8.0 s" in text or "waited 8.0 s" in text for text in texts) == 2
        assert page.problems == []


def test_a_gap_and_a_repeated_replacement_are_drawn(tmp_path: Path, browser: Browser) -> None:
    """Three gaps are three hatched times; the second diamond leads to the event that it repeats."""
    runs = [member(f"i-{run}", (0,), instance_id="i") for run in range(3)]
    history = [
        generation(50, runs[0], at=BEGIN),
        generation(3, runs[0], at=BEGIN + MINUTE),
        generation(9, runs[0], at=BEGIN + 2 * MINUTE),
        generation(9, runs[1], at=BEGIN + 3 * MINUTE),
        generation(9, runs[2], at=BEGIN + 3 * MINUTE + 10 * SECOND),
    ]
    with opened_report(browser, tmp_path, timeline_of(history, end_ms=BEGIN + 4 * MINUTE)) as page:
        assert len(shapes(page, "Compacted away")) == 3
        diamonds = page.value(
            f"{SHAPES}.filter(item => item.tip[0].includes('another process'))"
            ".map(item => [item.act.event, item.tip.length])"
        )
        assert len({event for event, _ in diamonds}) == 1
        assert [lines for _, lines in diamonds] == [3, 4]
        assert page.problems == []
