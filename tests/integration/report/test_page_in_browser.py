"""The page of a report in a real browser: what it draws, how it reacts, and that hostile names do nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupreplay.app.report.timelines import TimelineQuery, group_timelines
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.timeline.document import TimelineDocument
from support.histories.builders import generation, member
from support.histories.probed import PROBING
from support.histories.stopped import PARTITIONS, stopped_capture
from support.job.captures import CLUSTER_ID, ERA
from support.pictures.report_pages import DATA, SHAPES, OpenedPage, opened_report
from support.pictures.timelines import BEGIN, MINUTE, SECOND, SOURCE, history, timeline_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\u202eevil\u202c\x1b[31m\u0000",
    "'\"`${window.hacked=1}",
    "javascript:window.hacked=1",
)


#: The shapes of the first view, told apart by the first line of what they say.
COUNTED = f"""() => {{
  const d = {DATA}, items = {SHAPES};
  const count = test => items.filter(item => test(item.tip[0], item)).length;
  const many = items.map(item => /^([0-9]+) states in turn$/.exec(item.tip[0])).filter(Boolean);
  return {{
    generations: count(first => first.startsWith("Generation ")),
    owners: count((first, item) => /^t-[0-9]+$/.test(first) && !item.tip[1].includes("commit")),
    holdings: count((first, item) => first === "a" && item.kind === "rect" && item.tip[1].includes("partition")),
    states: many.reduce((sum, one) => sum + Number(one[1]), count(first => d.states.some(bar => bar.state === first))),
  }};
}}"""
#: Red, green and blue of a place without a shape.
PIXEL = (
    "Array.from(document.querySelector('#canvas canvas').getContext('2d')"
    ".getImageData(3, 3, 1, 1).data.slice(0, 3))"
)


def drawing(more: str, result: str) -> str:
    """An expression of the page: ``result`` of ``one``, the picture of the document with these settings."""
    return f"(d => {{ const one = Picture.draw(d, Picture.firstView(d, 1300, {more})); return {result}; }})({DATA})"


@pytest.fixture(scope="module")
def document() -> TimelineDocument:
    """The timeline that most tests draw."""
    return timeline_of(history(), end_ms=BEGIN + 10 * MINUTE)


@pytest.fixture(scope="module")
def shown(
    document: TimelineDocument, tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[OpenedPage]:
    """Its page in a browser."""
    with opened_report(browser, tmp_path_factory.mktemp("page"), document) as page:
        yield page


def table_size(page: OpenedPage) -> int:
    """The number of rows of the table of events."""
    return int(page.page.locator("#rows > tr:not(.detail)").count())


def table_rows(document: TimelineDocument) -> int:
    """The number of rows while every fold is shut."""
    folded = {number for fold in document.folds for number in fold.events}
    return len(document.events) - len(folded) + sum(fold.within is None for fold in document.folds)


def whole_time(page: OpenedPage) -> None:
    """Back to the first view."""
    before = page.drawn()
    page.page.locator("#picture").focus()
    page.page.keyboard.press("Escape")
    page.wait_for_drawing(before)
    before = page.drawn()
    page.page.keyboard.press("0")
    page.wait_for_drawing(before)


def test_the_page_has_what_the_document_says(shown: OpenedPage, document: TimelineDocument) -> None:
    """Each rebalance and each event beside them is a row, each sentence of the verdict a line; no error, no request."""
    assert table_size(shown) == table_rows(document) < len(document.events)
    lines = shown.page.locator("#verdict p > span").all_inner_texts()
    assert lines == [one.text for one in document.verdict]
    assert shown.page.inner_text("#title") == "g"
    assert shown.value("document.querySelector('#canvas canvas').width") > 1000
    assert shown.problems == []


def test_shapes_are_counted_against_the_document(shown: OpenedPage, document: TimelineDocument) -> None:
    """A flag for each generation, a span for each owner, a bar for each holding and for each state.

    States that are too short for a bar of their own are counted in the bar of several.
    """
    owners = sum(len(row.owners) for topic in document.topics for row in topic.partitions)
    lane = next(lane for lane in document.slots if lane.name == "a")
    assert shown.value(f"({COUNTED})()") == {
        "generations": len(document.generations),
        "owners": owners,
        "holdings": len(lane.holdings),
        "states": len(document.states),
    }


def test_keys_zoom_and_the_table_follows(shown: OpenedPage, document: TimelineDocument) -> None:
    """Plus zooms in: the table has the events of the time shown, and says so; 0 goes back."""
    whole_time(shown)
    for _ in range(4):
        before = shown.drawn()
        shown.page.keyboard.press("+")
        shown.wait_for_drawing(before)
    assert 0 < table_size(shown) < table_rows(document)
    assert f"of {len(document.events)} in the time shown" in shown.page.inner_text("#count")
    whole_time(shown)
    assert table_size(shown) == table_rows(document)


def test_a_dragged_selection_filters_the_table(shown: OpenedPage, document: TimelineDocument) -> None:
    """The brush: events of the selected time only; the button zooms to it, Escape clears it."""
    whole_time(shown)
    box = shown.page.locator("#picture").bounding_box()
    assert box is not None
    # A third of the plot, from its begin.
    left, y = box["x"] + 195, box["y"] + 60
    shown.page.mouse.move(left, y)
    shown.page.mouse.down()
    shown.page.mouse.move(left + (box["width"] - 220) / 3, y, steps=6)
    shown.page.mouse.up()
    shown.page.wait_for_selector("#select-zoom:not(.hidden)")
    chosen = table_size(shown)
    assert 0 < chosen < table_rows(document)
    before = shown.drawn()
    shown.page.click("#select-zoom")
    shown.wait_for_drawing(before)
    assert table_size(shown) == pytest.approx(chosen, abs=2)
    whole_time(shown)
    assert "hidden" in (shown.page.get_attribute("#selection", "class") or "")


def test_an_event_unfolds(shown: OpenedPage) -> None:
    """A rebalance has its events; an event its fields, the command that decodes its record, and last its JSON."""
    whole_time(shown)
    rows = table_size(shown)
    fold = shown.page.locator("#rows tr.fold button.open").nth(1)
    fold.click()
    assert (fold.get_attribute("aria-expanded"), table_size(shown)) == ("true", rows + 2)
    name = shown.page.locator("#rows button.open", has_text="rebalance.completed")
    name.click()
    assert "generation\n2\n" in shown.page.locator("#rows tr.detail dl").inner_text()
    json = shown.page.locator("#rows tr.detail details")
    assert json.locator("pre").is_hidden()
    json.locator("summary").click()
    detail = shown.page.locator("#rows tr.detail").inner_text()
    assert '"type": "groupreplay.rebalance.completed.v1"' in detail
    assert "groupreplay decode --bootstrap-server HOST:PORT --partition 3 --offset" in detail
    assert name.get_attribute("aria-expanded") == "true"
    name.click()
    assert shown.page.locator("#rows tr.detail").count() == 0
    fold.click()
    assert table_size(shown) == rows


def test_the_filter(shown: OpenedPage, document: TimelineDocument) -> None:
    """Only events that have the text, and only members and partitions whose names do."""
    whole_time(shown)
    before = shown.drawn()
    shown.page.fill("#filter", "rebalance.completed")
    shown.wait_for_drawing(before)
    assert table_size(shown) == len(document.generations)
    before = shown.drawn()
    shown.page.fill("#filter", "")
    shown.wait_for_drawing(before)


def test_copy_as_markdown(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """The verdict and the events of the time shown, as a table."""
    with opened_report(browser, tmp_path, document) as page:
        page.page.evaluate(
            "document.execCommand = () => { window.copied = document.activeElement.value; return true; };"
            "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
        )
        page.page.evaluate(
            "document.addEventListener('select', event => { window.copied = event.target.value; }, true)"
        )
        page.page.click("#copy-table")
        page.wait_for("Boolean(window.copied)")
        lines = str(page.value("window.copied")).splitlines()
    assert lines[0].startswith("**g**, 2026-01-01 00:00:00 to 00:10:00 UTC")
    assert sum(line.startswith("| 2026-") for line in lines) == len(document.events)


def test_another_time_zone(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """Local time is that of the reader, with its offset; UTC is the default."""
    with opened_report(browser, tmp_path, document, timezone_id="Asia/Kolkata") as page:
        assert "2026-01-01 00:00:00 to 00:10:00 UTC" in page.page.inner_text("#when")
        page.page.click("main#group [data-zone=local]")
        assert "2026-01-01 05:30:00 to 05:40:00 UTC+05:30" in page.page.inner_text("#when")
        assert page.page.inner_text("#rows tr:first-child td.time") == "2026-01-01 05:30:00.000"


def test_dark_and_print(document: TimelineDocument, tmp_path: Path, browser: Browser) -> None:
    """The picture is dark where the reader wants it, and light on paper: without tools, with all that is folded."""
    with opened_report(browser, tmp_path, document, color_scheme="dark") as page:
        assert page.value(PIXEL) == [0x11, 0x16, 0x1D]
        page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.value(PIXEL) == [255, 255, 255]
        assert (table_size(page), page.page.locator("#group details:not([open])").count()) == (
            len(document.events),
            0,
        )
        page.page.emulate_media(media="print")
        assert page.value("getComputedStyle(document.querySelector('.tools')).display") == "none"
        page.page.emulate_media(media="screen")
        page.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.value(PIXEL) == [0x11, 0x16, 0x1D]
        assert page.page.pdf()[:5] == b"%PDF-"
        # The browser advises against reading pixels, which only this test does.
        assert [one for one in page.problems if "willReadFrequently" not in one] == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_do_nothing(text: str, tmp_path: Path, browser: Browser) -> None:
    """As a group, a client, a topic and in an event: shown as text, nothing runs, nothing is asked for."""
    plain = timeline_of(history((text, "b"), topic=text.replace("\x00", "")), end_ms=BEGIN + 10 * MINUTE)
    rows = tuple(replace(row, text=text, name=text) for row in plain.events)
    with opened_report(browser, tmp_path, replace(plain, group_id=text, events=rows)) as page:
        page.page.locator("#rows button.open").first.click()
        box = page.page.locator("#picture").bounding_box()
        assert box is not None
        for step in range(8):
            page.page.mouse.move(box["x"] + 100 + step * 100, box["y"] + 60 + step * 25)
        assert page.value("typeof window.hacked") == "undefined"
        assert page.problems == []
        assert page.page.locator("img").count() == 0
        title = page.page.inner_text("#title")
    assert "\u202e" not in title
    assert title.strip() != ""


def test_many_partitions_are_folded_and_scrolled(tmp_path: Path, browser: Browser) -> None:
    """Hundreds of partitions are one row of shares until somebody unfolds them; then they scroll."""
    wide = [generation(1, member("a", range(200)), member("b", range(200, 400)), at=BEGIN)]
    with opened_report(browser, tmp_path, timeline_of(wide, end_ms=BEGIN + MINUTE)) as page:
        assert page.value(drawing("{}", "one.regions.partitions.total")) == 2
        unfolded = drawing("{ folds: new Map([[0, false]]) }", "one.regions.partitions")
        region = page.value(unfolded)
        assert (region["total"], region["shown"], page.problems) == (401, 60, [])


def test_the_most_that_a_picture_draws(tmp_path: Path, browser: Browser) -> None:
    """A member that moves every second for hours: at most 5 000 shapes, and none is cut off."""
    records = []
    for number in range(1, 3000):
        pair = (member("a", (0,)), member("b", (1,)))
        records.append(generation(number, *(pair if number % 2 else pair[:1]), at=BEGIN + number * SECOND))
    found = timeline_of(records)
    with opened_report(browser, tmp_path, found) as page:
        assert page.value(drawing("{}", "[one.items.length <= Picture.MOST_ITEMS, one.dropped]")) == [True, 0]
        assert page.problems == []


def test_what_failed_and_what_is_still_wrong(tmp_path: Path, browser: Browser) -> None:
    """Generations that never completed have a band, what holds at the end has a mark there; the legend names both."""
    pair = (member("a", (0, 1)), member("b", (2, 3)))
    failed = [generation(1, *pair, at=BEGIN), generation(42, *pair, at=BEGIN + 10 * MINUTE)]
    found = timeline_of(failed, end_ms=BEGIN + 11 * MINUTE)
    assert [(one.skipped, one.failed) for one in found.generations] == [
        (0, None),
        (40, (BEGIN, BEGIN + 10 * MINUTE - 10)),
    ]
    assert [(bar.name, bar.until_ms) for bar in found.conditions] == [("rebalance.storm", None)]
    texts = "one.items.filter(item => item.kind === 'text').map(item => item.text)"
    with opened_report(browser, tmp_path, found) as page:
        words = page.value(drawing("{}", texts))
        assert "generations 2 to 41 failed" in words
        assert "still wrong at the end: rebalance.storm" in words
        assert {"generations begun and never completed", "it holds at the end"} <= set(words)
        later = page.value(drawing(f"{{ until: {BEGIN + MINUTE} }}", texts))
        assert not any("still wrong" in text for text in later)
    with opened_report(browser, tmp_path, timeline_of(history(), end_ms=BEGIN + 10 * MINUTE)) as page:
        assert "generations begun and never completed" not in page.value(drawing("{}", texts))


@pytest.mark.parametrize("width", [1300, 420])
def test_what_is_still_wrong_and_what_could_not_be_read(tmp_path: Path, browser: Browser, width: int) -> None:
    """Both are said above the lanes, where no text lies on another one, however narrow the gap or the picture."""
    pair = (member("a", (0, 1)), member("b", (2, 3)))
    failed = [generation(1, *pair, at=BEGIN), generation(42, *pair, at=BEGIN + 10 * MINUTE)]
    found = timeline_of(failed, end_ms=BEGIN + 11 * MINUTE)
    boxes = f"""minutes => {{
      const doc = {{ ...{DATA}, unread: [{{ what: "log", reason: "unreachable", since_ms: null, text: "" }}] }};
      const view = {{ until: doc.until_ms + minutes * {MINUTE}, end: doc.until_ms + minutes * {MINUTE} }};
      const one = Picture.draw(doc, Picture.firstView(doc, {width}, view));
      const pen = document.createElement("canvas").getContext("2d");
      pen.font = "600 11px sans-serif";
      return one.items.filter(item => item.kind === "text" && item.y < 80).map(item => {{
        const wide = Math.min(pen.measureText(item.text).width, item.width || Infinity);
        const left = item.align === "right" ? item.x - wide : item.x;
        return [item.text, left, left + wide, item.y - 6, item.y + 6];
      }});
    }}"""
    with opened_report(browser, tmp_path, found) as page:
        for minutes in (0.2, 1, 4, 40):
            texts = page.page.evaluate(boxes, minutes)
            said = [text for text, *_ in texts]
            assert any("still wrong at the end" in text for text in said), said
            # A narrow picture has it where there is room, and else for a finger that touches the gap.
            assert "not known: could not be read: no broker answers" in said or width < 600
            on_another = [
                (one, other)
                for number, (one, *a) in enumerate(texts)
                for other, *b in texts[number + 1 :]
                if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
            ]
            assert on_another == []


def test_what_a_stop_cost(tmp_path: Path, browser: Browser) -> None:
    """The lanes say it: at the rebalance, and at the time without commits of each partition."""
    capture = stopped_capture(tmp_path / "stopped.parquet")
    context = replace(PROBING, cluster_id=CLUSTER_ID, era=ERA)
    query = TimelineQuery(groups=GroupChoice(), source=SOURCE)
    (stopped,), _ = group_timelines(read_captures([capture]), context, query)
    (quiet,), flag = stopped.quiet_times, stopped.generations[-1]
    assert flag.cost is not None
    with opened_report(browser, tmp_path, stopped) as page:
        for cost, first in ((quiet.cost, "t-"), (flag.cost, "Generation 2")):
            says = f"item.tip.includes({json.dumps(cost.text)}) && item.tip[0].startsWith('{first}')"
            count = page.value(f"{SHAPES}.filter(item => {says}).length")
            assert count == (PARTITIONS if first == "t-" else 1)
        assert page.problems == []


def test_a_storm_stays_readable(tmp_path: Path, browser: Browser) -> None:
    """200 rebalances in two screens at most, and each of them is two clicks away."""
    records = []
    for number in range(1, 201):
        pair = (member("a", (0,)), member("b", (1,)))
        records.append(
            generation(number, *(pair if number % 2 else pair[:1]), at=BEGIN + number * 15 * SECOND)
        )
    with opened_report(
        browser, tmp_path, timeline_of(records), viewport={"width": 1400, "height": 900}
    ) as page:
        assert page.value("document.documentElement.scrollHeight") <= 2 * 900
        page.page.locator("#rows tr.fold button.open").first.click()
        page.page.locator("#rows tr.depth1.fold button.open").nth(1).click()
        assert page.page.locator("#rows tr.depth2").count() >= 2


def test_the_group_at_the_end(document: TimelineDocument, shown: OpenedPage) -> None:
    """Members and partitions as the document has them, to be opened."""
    assert document.present is not None
    shown.page.click("#present-title")
    members, partitions = (shown.page.locator("#present table").nth(at).inner_text() for at in (0, 1))
    assert members.splitlines()[-1] == "a\ta\t10.0.0.1\t00:01:00\tt 0-3"
    assert len(partitions.splitlines()) == 2 + len(document.present.partitions)
    assert partitions.splitlines()[2] == "t-0\tnot known\t\ta"


def test_many_partitions_do_not_push_the_verdict_down(tmp_path: Path, browser: Browser) -> None:
    """The tables of the group at its end scroll on a screen, and are whole on paper."""
    wide = [generation(1, member("a", range(60)), at=BEGIN)]
    height = "document.querySelectorAll('#present .scroll')[1].offsetHeight"
    with opened_report(browser, tmp_path, timeline_of(wide, end_ms=BEGIN + MINUTE)) as page:
        page.page.click("#present-title")
        assert 100 < page.value(height) < 220
        page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.page.emulate_media(media="print")
        assert page.value(height) > 60 * 15
