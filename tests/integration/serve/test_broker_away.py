"""The pages of a live job while the broker is stopped: what is not known is never shown as if nothing had happened."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.waiting import wait_until
from support.pictures.live_pages import live_page
from support.pictures.report_pages import OpenedPage
from support.serve.live_job import PARTITIONS, LiveJob

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

#: How old the newest commit was when the log was read; null while that is not shown.
AGE_MS: Final = (
    "GroupView.state.doc && GroupView.state.doc.last_commit_ms !== null"
    " ? GroupView.state.doc.known_until_ms - GroupView.state.doc.last_commit_ms : null"
)
#: Everything on a page that is a span of time, but for the axis and the time of the lost connection.
AGES: Final = """[...document.querySelectorAll(
    "time[data-since], time[data-expires], #group-now strong, #group-now .badge, #group-why li, #conditions td"
)].map(one => one.textContent).filter(one => /\\d/.test(one))"""
#: The words of the picture.
WORDS: Final = (
    "Picture.draw(GroupView.state.doc, GroupView.state.view).items.map(one => one.text || '').join('\\n')"
)
#: The ends of the last owners of all partitions.
ENDS: Final = """[...new Set(GroupView.state.doc.topics.flatMap(
    one => one.partitions.map(row => row.owners.at(-1)[1])
))]"""
KNOWN: Final = "GroupView.state.doc.known_until_ms"


def test_a_broker_that_is_stopped(tmp_path: Path, browser: Browser) -> None:
    """Pages name Kafka, not the job; ages stand still, lanes end, chips say that nothing could be read.

    Before and after, a group that commits twice a second has a last commit that is a few seconds old at most.
    """
    with EmbeddedBroker() as broker, ExitStack() as exit_:
        live = LiveJob(broker, tmp_path, exit_, "away")
        live.members.join("checkout-1", live.group, live.topic)
        live.members.wait_until(lambda: live.members.owned("checkout-1") == [PARTITIONS])
        board = exit_.enter_context(live_page(browser, f"{live.address}/"))
        live.wait(board, f"document.querySelector('#group-rows').textContent.includes('{live.group}')")
        group = exit_.enter_context(live_page(browser, f"{live.address}/groups/{live.group}"))
        commits_go_on(live, group)
        # The quickest sign is the watch of the site: nobody waits for the timeout of a heartbeat.
        broker.stop()
        wait_until(lambda: "Kafka cannot be reached" in board.page.inner_text("#headline"))
        wait_until(lambda: "Kafka cannot be reached" in group.page.inner_text("#stale"))
        wait_until(lambda: "then could not be read" in group.page.inner_text("#badges"))
        stands_still(board, group)
        broker.start()
        live.wait(board, "!document.querySelector('#headline').textContent.includes('Kafka')")
        live.wait(group, "document.querySelector('#stale').classList.contains('hidden')")
        live.wait(group, "GroupView.state.doc.unread.length === 0")
        commits_go_on(live, group)
        problems = [one for one in (*board.problems, *group.problems) if "404" not in one]
        assert problems == []


def commits_go_on(live: LiveJob, group: OpenedPage) -> None:
    """Ten documents in a row, each with a commit that was young when the log was read."""
    seen: dict[int, int] = {}

    def enough() -> bool:
        known, age = group.value(f"[{KNOWN}, {AGE_MS}]")
        seen[known] = age
        return len(seen) >= 10

    live.wait(group, "Boolean(GroupView.state.doc) && GroupView.state.doc.topics.length === 1")
    # The group may just have begun to commit.
    live.wait(group, f"({AGE_MS}) !== null && ({AGE_MS}) < 3000")
    live.wait_until(enough)
    assert max(seen.values()) < 5_000, seen
    shown = group.page.inner_text("#group-now")
    assert "last commit" in shown
    assert " before " in shown


def stands_still(board: OpenedPage, group: OpenedPage) -> None:
    """The knowledge ends, and with it every age and lane; the axis goes on."""
    known, axis = group.value(KNOWN), group.value("GroupView.state.view.until")
    ages = board.value(AGES), group.value(AGES)
    wait_until(lambda: group.value("GroupView.state.view.until") > axis + 20_000)
    assert (board.value(AGES), group.value(AGES)) == ages
    assert (group.value(KNOWN), group.value(ENDS)) == (known, [known])
    words = group.value(WORDS)
    assert "not known: could not be read: no broker answers" in words
    assert "no commit in this time" not in words
    chips = group.page.inner_text("#badges")
    assert "brokers were not asked" not in chips
    assert "up to" in chips
    assert "connected, but: Kafka cannot be reached" in group.page.inner_text("#live-state")
    headline = board.page.inner_text("#headline")
    assert "The job is down" not in headline
    assert "Whether the job runs is not known" in headline
    assert "Nothing is wrong" not in headline
