"""The live pages as a browser prints them: all that they know is on paper, with the legend, and nothing is cut."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pypdf import PdfReader

from support.job.sink_messages import document, events, stable, stuck
from support.pictures.live_pages import STUCK_MS, LiveSite, live_page, live_site, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ILL = [f"ill-{number:02}" for number in range(20)]
#: More than a page of the board has on a screen.
CALM = [f"calm-{number:02}" for number in range(24)]
#: Where the legend of the picture ends, and the height of the picture.
LEGEND = """(one => ({ height: one.height, y: Math.max(...one.items.filter(item => item.text
    && item.text.includes("a completed rebalance")).map(item => item.y)) }))(
    Picture.draw(GroupView.state.doc, GroupView.state.view))"""
PAPER = ({"format": "A4"}, {"format": "A4", "landscape": True}, {"format": "Letter", "scale": 0.8})


class Piece(NamedTuple):
    """A text on paper, and whether it begins within the page."""

    text: str
    is_inside: bool


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LiveSite]:
    """Groups that are stuck, and some that are well."""
    (calm, _), (ill, said) = stable(), stuck(for_ms=400_000)
    with live_site(tmp_path, STUCK_MS) as made:
        for name in ILL:
            made.write(events(said, name), [(name, document(ill, name))])
        made.write((), [(name, document(calm, name)) for name in CALM])
        made.beat()
        yield made


def printed(pdf: bytes) -> tuple[str, Sequence[Piece]]:
    """All text of a document without its line breaks, and its pieces."""
    pieces, reader = list[Piece](), PdfReader(io.BytesIO(pdf))
    for page in reader.pages:
        box = page.mediabox

        def note(
            text: str, of_page: Sequence[float], of_text: Sequence[float], *_: object, box: Any = box
        ) -> None:
            x, y = (
                of_text[4] * of_page[axis] + of_text[5] * of_page[axis + 2] + of_page[axis + 4]
                for axis in (0, 1)
            )
            is_inside = 0 <= x < float(box.width) and 0 <= y <= float(box.height)
            pieces.append(Piece(text, is_inside or not text.strip()))

        page.extract_text(visitor_text=note)
    return "".join("".join(page.extract_text() for page in reader.pages).split()), pieces


@pytest.mark.parametrize("paper", PAPER)
def test_the_board(site: LiveSite, browser: Browser, paper: dict[str, Any]) -> None:
    """Each condition has a row, each group all columns, on whatever page, each event its text; controls stay away."""
    with live_page(browser, site.url()) as page:
        shown(page).page.wait_for_selector("#conditions .fold", state="attached")
        page.page.wait_for_selector("#group-rows tr .strip", state="attached")
        page.page.wait_for_selector("#latest li", state="attached")
        assert page.page.locator("#group-rows tr").count() == 25
        text, pieces = printed(page.page.pdf(**paper))
        rows = page.page.locator("#conditions tr").count()
        page.page.wait_for_function("document.querySelectorAll('#group-rows tr').length === 25")
        assert page.page.locator("#groups-count").inner_text() == "1 to 25 of 44"
        whole = page.page.locator("#latest li .what").first.inner_text()
        assert page.problems == []
    assert [one for one in pieces if not one.is_inside] == []
    # On the screen again all but the first ones are folded.
    assert rows == 2 * (3 + 1)
    for name in ILL:
        # In the table of conditions twice, and in that of groups.
        assert text.count(name) >= 3, name
    assert [name for name in CALM if name not in text] == []
    assert "1to44of44" in text
    for heading in (
        "lastrebalance",
        "commits",
        "expiresin,atleast",
        "Thejob",
        "Last24h:rebalancesbelowingrey",
    ):
        assert heading in text
    assert text.count("".join(whole.split())) >= 2 * len(ILL)
    assert [word for word in ("Show17more", "Copylink", "Localtime", "Previous") if word in text] == []


def test_the_groups_that_were_searched_for(site: LiveSite, browser: Browser) -> None:
    """Paper has what the filter keeps, from the first group on, whatever page is on the screen."""
    with live_page(browser, site.url("/#search=calm")) as page:
        shown(page).page.wait_for_selector("#group-rows tr .strip", state="attached")
        text, _ = printed(page.page.pdf(format="A4"))
        assert page.problems == []
    assert "1to24of24thatmatch,44inall" in text
    assert [name for name in CALM if name not in text] == []


def test_a_thousand_groups_are_printed(site: LiveSite, browser: Browser) -> None:
    """A sentence says that the others are not on this paper; on the screen there is a page of them again."""
    (calm, _) = stable()
    site.write((), [(name, document(calm, name)) for name in (f"more-{number:04}" for number in range(990))])
    with live_page(browser, site.url()) as page:
        shown(page).page.wait_for_function(
            "document.getElementById('groups-count').textContent.endsWith('1034')", timeout=60_000
        )
        page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.page.locator("#group-rows tr .strip").count() == 1000
        assert page.page.locator("#groups-count").inner_text() == (
            "1 to 1000 of 1034. The others are not on this paper: search for fewer, or take them from /api/groups."
        )
        page.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.page.locator("#group-rows tr").count() == 25
        assert page.problems == []


@pytest.mark.parametrize("paper", PAPER)
def test_the_page_of_a_group(site: LiveSite, browser: Browser, paper: dict[str, Any]) -> None:
    """What holds, the diagnosis, the legend of the picture and each event; of the controls the chosen length."""
    with live_page(browser, site.url(f"/groups/{ILL[0]}"), color_scheme="dark") as page:
        shown(page).page.wait_for_selector("#now-sentence", state="attached")
        page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.page.emulate_media(media="print")
        # The picture with its legend is an image: it is drawn to its end, and fits on a page.
        legend = page.value(LEGEND)
        height = page.value("document.querySelector('#canvas canvas').offsetHeight")
        assert 0 < legend["y"] < legend["height"] == height < 1000, legend
        page.page.emulate_media(media="null")
        page.page.evaluate("dispatchEvent(new Event('afterprint'))")
        names = page.page.locator("#rows tr[data-event] button.open").all_inner_texts()
        text, pieces = printed(page.page.pdf(**paper))
        assert page.problems == []
    assert [one for one in pieces if not one.is_inside] == []
    for part in (
        "rebalance.stuckfor",
        "Stuckinarebalance",
        "howitwent",
        "thelast1h",
    ):
        assert part in text, part
    assert [name for name in names if name not in text] == []
    assert [word for word in ("Follow", "Earlier", "Copylink", "15min", "Allgroups") if word in text] == []


def test_incidents(site: LiveSite, browser: Browser) -> None:
    """Each with its group and its sentence, also those behind the page that is on the screen."""
    more = [f"more-{number}" for number in range(10)]
    ill, said = stuck(for_ms=400_000)
    for name in more:
        site.write(events(said, name), [(name, document(ill, name))])
    with live_page(browser, site.url("/incidents")) as page:
        shown(page).page.wait_for_function(
            "document.getElementById('episodes-count').textContent === '1 to 25 of 30'"
        )
        text, pieces = printed(page.page.pdf(format="A4"))
        assert page.problems == []
    assert [one for one in pieces if not one.is_inside] == []
    assert [name for name in (*ILL, *more) if name not in text] == []
    assert "1to30of30" in text
    assert [word for word in ("Newer", "Older", "Copylink", "Allgroups") if word in text] == []
