"""The picture as SVG, by the page's own script."""

from __future__ import annotations

import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from groupreplay.app.report.svg import timeline_svg
from groupreplay.streaming.base.errors import GroupReplayError
from support.histories.builders import Raw, commit, generation, member
from support.pictures.timelines import BEGIN, MINUTE, commit_log, timeline_of

#: The colour of what is not known.
HOLE = "#d9dee6"
SPACE = "{http://www.w3.org/2000/svg}"
DOCUMENT = timeline_of(
    [
        generation(1, member("a", (0, 1)), at=BEGIN),
        generation(2, member("a", (0,)), member("b", (1,)), at=BEGIN + MINUTE),
    ],
    end_ms=BEGIN + 5 * MINUTE,
)


def test_the_picture() -> None:
    """It is well-formed, has its width, and shows the group, the members, the verdict and no script."""
    root = ElementTree.fromstring(timeline_svg(DOCUMENT, width=900))
    texts = {"".join(one.itertext()) for one in root.iter(f"{SPACE}text")}
    assert (root.get("width"), [one.tag for one in root.iter(f"{SPACE}script")]) == ("900", [])
    assert {"client-a", "client-b", "STATE", "MEMBERS", "PARTITIONS", "Stable"} <= texts
    assert any(text.startswith(DOCUMENT.verdict[0].text[:40]) for text in texts)


def test_hostile_text() -> None:
    """Markup in a name is text, and what no XML may hold is escaped."""
    root = ElementTree.fromstring(timeline_svg(replace(DOCUMENT, group_id="<script>\x1b\u202e")))
    texts = ["".join(one.itertext()) for one in root.iter(f"{SPACE}text")]
    assert any(text.startswith("<script>\\u{1b}\\u{202e}") for text in texts)
    assert list(root.iter(f"{SPACE}script")) == []


def test_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "py_mini_racer", None)
    with pytest.raises(GroupReplayError) as caught:
        timeline_svg(DOCUMENT)
    assert "groupreplay[svg]" in str(caught.value)


def test_a_short_owner_does_not_hide_a_long_one() -> None:
    """An owner of a second before one of an hour: the row has the colour of the second one, not that of several."""
    document = timeline_of(
        [generation(1, member("a", (0,)), at=BEGIN), generation(2, member("b", (0,)), at=BEGIN + 1_000)],
        end_ms=BEGIN + 60 * MINUTE,
    )
    picture = timeline_svg(document)
    assert ("rgb(230,159,0)" in picture, "#9aa3b1" in picture) == (True, False)


@pytest.mark.parametrize(
    ("history", "whole", "lacking"),
    [
        (
            [generation(1, member("a", (0,)), at=BEGIN)],
            "no commit in this time",
            "no commit of this time is left",
        ),
        (
            [generation(1, member("a", (0,)), at=BEGIN), commit("t", 0, 1, at=BEGIN + MINUTE)],
            None,
            None,
        ),
    ],
)
def test_nothing_committed_and_nothing_left_look_different(
    history: list[Raw], whole: str | None, lacking: str | None
) -> None:
    """Grey and hatched where the log lacks records, and in other words; white where it has all of them."""
    log = commit_log(history)
    document = timeline_of(history, end_ms=BEGIN + 5 * MINUTE)
    gap = (BEGIN + 2 * MINUTE, BEGIN + 3 * MINUTE)
    cleaned = timeline_of(history, end_ms=BEGIN + 5 * MINUTE, commits=replace(log, gaps=(gap,)))
    assert (document.commit_gaps, cleaned.commit_gaps) == ((), (gap,))
    pictures = timeline_svg(document), timeline_svg(cleaned)
    assert [HOLE in picture for picture in pictures] == [False, True]
    if whole and lacking:
        assert (whole in pictures[0], lacking in pictures[0]) == (True, False)
        assert (whole in pictures[1], lacking in pictures[1]) == (False, True)
