"""The pages of a live job on a real broker: a stuck rebalance appears, names the member, and resolves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.pictures.live_pages import live_page
from support.serve.live_job import PARTITIONS, LiveJob

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

#: The commits that the page shows.
COMMITS = "GroupView.state.doc.topics[0].commits.reduce((sum, one) => sum + one, 0)"
LOWERED = ("--rule", "rebalance.stuck.threshold_ms=6000", "--rule", "rebalance.slow.threshold_ms=3000")
#: Remembers when the row of each event was first in the page; 0 for those that are there.
WATCH = """() => { window.seen = {};
  for (const row of document.querySelectorAll("#rows tr[data-event]")) window.seen[row.dataset.event] = 0;
  new MutationObserver(() => {
  for (const row of document.querySelectorAll("#rows tr[data-event]"))
    window.seen[row.dataset.event] ??= Date.now();
}).observe(document.getElementById("rows"), { childList: true }); }"""
DELAYS = """() => Object.entries(window.seen).flatMap(([id, at]) => {
  const event = GroupView.state.doc.events.find(one => one.id === id);
  return at && event && event.body && event.body.recordedtime ? [at - Date.parse(event.body.recordedtime)] : [];
})"""


@pytest.fixture
def watched(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[LiveJob]:
    """Everything, ended hard when the test is over."""
    with ExitStack() as exit_:
        yield LiveJob(broker, tmp_path, exit_, "serve-live", *LOWERED)


def test_a_stuck_rebalance_appears_and_resolves(watched: LiveJob, browser: Browser) -> None:
    """The page of the group and the board follow a member that stops polling, without a reload.

    The log's lanes are on the page of the group: its partitions with owners, and its commits.
    """
    members, group, topic = watched.members, watched.group, watched.topic
    members.join("checkout-1", group, topic)
    members.join("checkout-2", group, topic)
    members.wait_until(lambda: members.owned("checkout-1", "checkout-2") == [2, 2])
    with (
        live_page(browser, f"{watched.address}/") as board,
        live_page(browser, f"{watched.address}/groups/{group}") as page,
    ):
        watched.wait(board, f"document.querySelector('#group-rows').textContent.includes('{group}')")
        # The page may have been opened before the job knew the group.
        watched.wait(page, "Boolean(GroupView.state.doc)")
        watched.wait(
            page,
            "GroupView.state.doc.slots.length === 2 && document.documentElement.dataset.stream === 'open'",
        )
        watched.wait(page, "document.querySelector('#group-now').textContent.startsWith('Stable')")
        # Who stops committing is known only of members that used to commit.
        watched.wait(page, f"GroupView.state.doc.topics.length === 1 && {COMMITS} > 40")
        page.page.evaluate(WATCH)

        members.stuck.add("checkout-1")
        members.join("checkout-3", group, topic)
        watched.wait(page, "document.querySelector('#group-now').textContent.includes('rebalance.stuck for')")
        watched.wait(page, "document.querySelector('#rows').textContent.includes('rebalance.stuck')")
        watched.wait(board, "document.querySelector('#conditions').textContent.includes('rebalance.stuck')")
        watched.wait(board, "document.querySelector('#conditions').textContent.includes('checkout-1')")
        watched.wait(
            page,
            "GroupView.state.doc.slots.some(lane => lane.name.startsWith('checkout-1') && lane.blames.length)",
        )
        assert "an error" in board.page.inner_text("#headline")

        members.stuck.clear()
        watched.wait(page, "document.querySelector('#group-now').textContent.includes('no condition holds')")
        watched.wait(board, "!document.querySelector('#conditions').textContent.includes('rebalance.stuck')")
        watched.wait(page, "GroupView.state.doc.slots.length === 3")
        topics = page.value("GroupView.state.doc.topics.map(one => [one.topic, one.partitions.length])")
        delays = page.value(f"({DELAYS})()")
        assert topics == [[topic, PARTITIONS]]
        assert page.value("document.documentElement.dataset.following") == "true"
        assert (board.problems, [one for one in page.problems if "404" not in one]) == ([], [])
    # Of how long each took, for the log of the test: nothing here depends on speed.
    logging.getLogger(__name__).warning("from the job's event to its row: %s ms", sorted(delays))
