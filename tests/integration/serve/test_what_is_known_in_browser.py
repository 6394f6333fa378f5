"""What the live pages say when data stops or is old: of Kafka, of the job, of the site, of the browser, of a group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from groupreplay.app.serve.broker_watch import Answers
from support.job.sink_messages import SINCE_MS, document, events, stable, stuck
from support.pictures.live_pages import STUCK_MS, LiveSite, live_page, live_site, shown, stuck_site
from support.pictures.report_pages import OpenedPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser


SICK: Final = "orders-sick"
#: Three minutes and 20 s after the begin of the condition.
CAUGHT_UP_MS: Final = SINCE_MS + 200_000
#: How long the condition has held, on the board and on the page of its group.
BOARD_AGE: Final = "document.querySelector('#conditions tr time[data-since]')?.textContent"
GROUP_AGE: Final = "document.querySelector('#group-now .badge.error')?.textContent"
#: A clock that is three days ahead.
WRONG_CLOCK: Final = """const Right = Date; window.Date = class extends Right {
    constructor(...given) { if (given.length) super(...given); else super(Right.now() + 259200000); }
    static now() { return Right.now() + 259200000; }
};"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LiveSite]:
    """A site with a stuck group; the job has caught up to a fixed moment."""
    with stuck_site(tmp_path, SICK, caught_up_ms=CAUGHT_UP_MS, phase="caught_up") as made:
        yield made


@pytest.fixture
def pages(site: LiveSite, browser: Browser) -> Iterator[tuple[OpenedPage, OpenedPage]]:
    """The board and the page of the group."""
    with live_page(browser, site.url()) as board, live_page(browser, site.url(f"/groups/{SICK}")) as group:
        shown(board).wait_for(f"Boolean({BOARD_AGE})")
        shown(group).wait_for(f"Boolean({GROUP_AGE})")
        yield board, group


def pass_time(page: OpenedPage) -> None:
    """Waits until the page has read everything again, and a clock would have moved."""
    now = page.value("Live.now()")
    page.wait_for(f"Live.now() > {now} + 7_000")


def test_ages_count_to_what_is_known(pages: tuple[OpenedPage, OpenedPage]) -> None:
    """Heartbeats go on, and the job has read nothing new: no age moves, whatever the clocks do."""
    board, group = pages
    pass_time(board)
    pass_time(group)
    assert board.value(BOARD_AGE) == "3 min 20 s"
    assert group.value(GROUP_AGE) == "rebalance.stuck for 3 min 20 s"
    # The open condition in the picture ends there, too; the axis goes on.
    ends = "[GroupView.state.doc.events_until_ms, GroupView.state.view.until]"
    known, axis = group.value(ends)
    assert known == CAUGHT_UP_MS
    assert axis > known + 200_000
    # It begins with the group, which is minutes old, and not an hour before.
    begin, first = group.value("[GroupView.state.view.since, GroupView.state.doc.known_since_ms]")
    assert abs(begin - first) < 60_000
    assert group.page.inner_text("#now-sentence").startswith("PreparingRebalance, ")


def test_a_browser_with_a_wrong_clock(site: LiveSite, browser: Browser) -> None:
    """Three days ahead from the beginning, then set back to 1970: ages and axis are those of the server."""
    with live_page(browser, site.url()) as board, live_page(browser, site.url(f"/groups/{SICK}")) as group:
        for page, age in ((board, BOARD_AGE), (group, GROUP_AGE)):
            page.page.add_init_script(WRONG_CLOCK)
            page.page.reload()
            shown(page).wait_for(f"Boolean({age})")
            assert "3 min 20 s" in page.value(age)
            assert abs(page.value("Live.now()") - site.clock()) < 60_000
            page.page.evaluate("Date.now = () => 0")
            pass_time(page)
            assert "3 min 20 s" in page.value(age)
            assert abs(page.value("Live.now()") - site.clock()) < 60_000
        assert abs(group.value("GroupView.state.view.until") - site.clock()) < 60_000


def test_kafka_gives_no_answer(site: LiveSite, pages: tuple[OpenedPage, OpenedPage]) -> None:
    """Both pages say so, since when, and that nobody knows whether the job runs; when it answers, they stop."""
    board, group = pages
    now = site.clock()
    site.clusters[0].watch.answers = Answers(now - 1_000, now - 90_000, "cannot reach the cluster: refused")
    board.wait_for("document.querySelector('#headline').textContent.includes('Kafka cannot be reached')")
    group.wait_for("document.querySelector('#stale').textContent.includes('Kafka cannot be reached')")
    for text in (board.page.inner_text("#headline p:first-child"), group.page.inner_text("#stale")):
        assert "no answer since 1970-01-01 " in text
        assert "(cannot reach the cluster: refused)" in text
        assert "Whether the job runs is not known." in text
        assert "The job is down" not in text
    assert "no answer since" in board.page.inner_text("#job-facts")
    site.clusters[0].watch.answers = Answers(site.clock(), now - 90_000)
    board.wait_for("!document.querySelector('#headline').textContent.includes('Kafka')")
    group.wait_for("!document.querySelector('#stale').textContent.includes('Kafka')")
    assert (board.problems, group.problems) == ([], [])


def test_the_job_is_down(site: LiveSite, pages: tuple[OpenedPage, OpenedPage]) -> None:
    """Kafka answers and there is no heartbeat: that is the job, since the last one, on the host that it named."""
    board, group = pages
    site.silence()
    now = site.clock()
    site.clock.begin_ms += 120_000
    site.clusters[0].watch.answers = Answers(now + 120_000, now - 90_000)
    board.wait_for("document.querySelector('#headline').textContent.includes('The job is down')")
    group.wait_for("document.querySelector('#stale').textContent.includes('The job is down')")
    headline = board.page.inner_text("#headline p:first-child")
    assert "Kafka answers, and the last heartbeat was written" in headline
    assert "2 min" in headline
    assert "Look at groupreplay run" in headline
    assert board.value(BOARD_AGE) == "3 min 20 s"
    assert "connected, but: job down" in group.page.inner_text("#live-state")
    # The picture says it where the conditions end.
    words = "Picture.draw(GroupView.state.doc, GroupView.state.view).items.map(one => one.text)"
    group.wait_for(f"{words}.includes('not known: job down')")


def test_after_an_outage(site: LiveSite, pages: tuple[OpenedPage, OpenedPage]) -> None:
    """Kafka is back, and the job had no time to write: nobody says that it is down."""
    board, _ = pages
    site.silence()
    now = site.clock()
    site.clock.begin_ms += 120_000
    site.clusters[0].watch.answers = Answers(now + 120_000, now + 119_000)
    board.wait_for("document.querySelector('#headline').textContent.includes('whether it runs is not known')")
    assert "The job is down" not in board.page.inner_text("#headline")


def test_a_group_that_is_deleted(site: LiveSite, pages: tuple[OpenedPage, OpenedPage]) -> None:
    """Its open page does not keep its last state: it says that the job has no such group."""
    _, group = pages
    site.write((), [(SICK, None)])
    group.wait_for("document.querySelector('#group-now').textContent.includes('the job has no such group')")
    assert "PreparingRebalance" not in group.page.inner_text("#group-now")
    assert group.page.inner_text("#group-why") == ""


def test_an_old_history(tmp_path: Path, browser: Browser) -> None:
    """A site that was just started shows what its file had, and says so; there are no ages, because no now is known."""
    with live_site(tmp_path, STUCK_MS) as made:
        sick, said = stuck()
        made.write(events(said, SICK), [(SICK, document(sick, SICK))])
        with live_page(browser, made.url()) as board:
            shown(board).wait_for(f"Boolean({BOARD_AGE})")
            assert "whose newest event was written 1970-01-01 " in board.page.inner_text("#headline")
            assert board.value(BOARD_AGE).startswith("1970-01-01 ")
            made.beat(caught_up_ms=CAUGHT_UP_MS, phase="caught_up")
            board.wait_for(f"{BOARD_AGE} === '3 min 20 s'")
            assert "newest event" not in board.page.inner_text("#headline")


def test_deadlines_move_with_what_is_known(tmp_path: Path, browser: Browser) -> None:
    """Times to an expiry are counted again when the job has read more; what is past may be due: it is rounded down."""
    import json

    held = json.loads(document(stable()[0], "calm"))
    held["offsets"].update(partitions=3, next_expiry_ms=STUCK_MS + 3_600_000)
    with live_site(tmp_path, STUCK_MS) as made:
        made.write((), [("calm", json.dumps(held).encode())])
        made.beat(caught_up_ms=STUCK_MS)
        expires = "document.querySelector('#group-rows time[data-expires]')?.textContent"
        with live_page(browser, made.url()) as board:
            shown(board).wait_for(f"{expires} === '1 h'")
            made.beat(caught_up_ms=STUCK_MS + 600_000)
            board.wait_for(f"{expires} === '50 min'")
            made.beat(caught_up_ms=STUCK_MS + 3_600_000)
            board.wait_for(f"{expires} === 'may be due'")
            assert "commit" in board.page.inner_text("#commits-title")
