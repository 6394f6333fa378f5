"""``app/report/page.py``."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from py_mini_racer import MiniRacer

from groupreplay.app.report.assets import asset, source_hash
from groupreplay.app.report.page import data_island, fitted, island_bytes, report_page, timeline_svg
from groupreplay.state.phrases import milliseconds
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.limits import TimelineLimits
from groupreplay.timeline.whatif.answer import Comparison, WhatIfLane
from support.histories.builders import Raw, commit, generation, member
from support.pictures.report_pages import PageParts
from support.pictures.timelines import BEGIN, MINUTE, SECOND, commit_log, timeline_of

DOCUMENT = timeline_of([generation(1, member("a", (0, 1)), at=BEGIN)])
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>&lt;img src=x onerror=alert(1)>",
    "\u2028\u2029\u202e\x00\x1b]0;x\x07",
    "@DATA@@PAGE@",
    "\\u003c\\\"'`${1}",
    "\ud800",
)


def test_the_policy_names_each_script_and_style_by_its_hash() -> None:
    """Nothing else may run: no request, no inline handler, no style attribute, no base address."""
    parts = PageParts(report_page(DOCUMENT))
    (policy,) = (attributes["content"] for tag, attributes in parts.elements if attributes.get("http-equiv"))
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    scripts = [
        text for tag, attributes, text in parts.sources if tag == "script" and "type" not in attributes
    ]
    (style,) = (text for tag, _, text in parts.sources if tag == "style")
    assert rules == {
        "default-src": "'none'",
        "script-src": " ".join(map(source_hash, scripts)),
        "style-src": source_hash(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert len(scripts) == 2
    names = {name for _, attributes in parts.elements for name in attributes}
    assert {name for name in names if name.startswith("on") or name in ("style", "src", "srcset")} == set()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_in_the_data(text: str) -> None:
    """The page has the elements of a harmless one, and the data reads back as it was."""
    hostile = replace(DOCUMENT, group_id=text)
    parts, plain = PageParts(report_page(hostile)), PageParts(report_page(DOCUMENT))
    assert parts.elements == plain.elements
    (data,) = (content for _, attributes, content in parts.sources if attributes.get("id") == "data")
    assert json.loads(data)["group_id"] == text


def test_the_island_is_plain_ascii() -> None:
    """No character of it can end its element or begin another one."""
    island = data_island(replace(DOCUMENT, group_id="".join(HOSTILE)))
    assert (island.isascii(), re.findall("[<>&]", island)) == (True, [])


def test_nothing_is_loaded() -> None:
    """No script of the page names an address to load from."""
    page = report_page(DOCUMENT)
    own = page[: page.index('<script type="application/json"')]
    assert re.findall(r"(?:https?:)?//[a-z]", own) == []


SPACE = "{http://www.w3.org/2000/svg}"
DRAWN = timeline_of(
    [
        generation(1, member("a", (0, 1)), at=BEGIN),
        generation(2, member("a", (0,)), member("b", (1,)), at=BEGIN + MINUTE),
    ],
    end_ms=BEGIN + 5 * MINUTE,
)


def test_the_picture() -> None:
    """It is well-formed, has its width, and shows the group, the members, the verdict and no script."""
    root = ElementTree.fromstring(timeline_svg(DRAWN, width=900))
    texts = {"".join(one.itertext()) for one in root.iter(f"{SPACE}text")}
    assert (root.get("width"), [one.tag for one in root.iter(f"{SPACE}script")]) == ("900", [])
    assert {"client-a", "client-b", "STATE", "MEMBERS", "PARTITIONS", "Stable"} <= texts
    assert any(text.startswith(DRAWN.verdict[0].text[:40]) for text in texts)


def test_the_picture_of_two_histories() -> None:
    """What was recorded and what was played are two lanes of the same axis; the question and the costs are whole."""
    recorded = WhatIfLane(
        name="recorded", rebalances_ms=(BEGIN + MINUTE,), stops=((BEGIN + SECOND, BEGIN + MINUTE),)
    )
    played = WhatIfLane(name="with <others>", rebalances_ms=(), stops=())
    costs = tuple(f"{name}: recorded 7 min 44 s, with the other settings 7 min 16 s" for name in "abcd")
    whatif = Comparison(text="a=b: of 50 plays", costs=costs, lanes=(recorded, played))
    root = ElementTree.fromstring(timeline_svg(replace(DRAWN, whatif=whatif)))
    texts = {"".join(one.itertext()) for one in root.iter(f"{SPACE}text")}
    assert {"WHAT IF", "recorded", "with <others>", "a=b: of 50 plays"} <= texts
    assert {f"{costs[0]}; {costs[1]}; {costs[2]};", costs[3]} <= texts


def test_hostile_text() -> None:
    """Markup in a name is text, and what no XML may hold is escaped."""
    root = ElementTree.fromstring(timeline_svg(replace(DRAWN, group_id="<script>\x1b\u202e")))
    texts = ["".join(one.itertext()) for one in root.iter(f"{SPACE}text")]
    assert any(text.startswith("<script>\\u{1b}\\u{202e}") for text in texts)
    assert list(root.iter(f"{SPACE}script")) == []


def test_a_duration_has_one_text() -> None:
    """A page writes a duration as the sentences of its document do, at the edges of each unit too."""
    edges = (0, 999, 1_000, 2_250, 8_000, 59_949, 59_950, 60_000, 60_500, 240_000, 3_599_500, 7_200_000)
    spans = [*edges, *(hours * 3_600_000 for hours in (47, 48, 168, 171)), *range(0, 200_000, 1_237)]
    engine = MiniRacer()
    engine.eval(f"{asset('format.js')};0")
    written = json.loads(str(engine.eval(f"JSON.stringify({spans}.map(Format.lasted))")))
    engine.close()
    assert written == [milliseconds(span) for span in spans]


def test_an_age_has_whole_units() -> None:
    """What ticks on a live page is written without tenths, and without a unit of which there is none."""
    engine = MiniRacer()
    engine.eval(f"{asset('format.js')};0")
    ages = "[0, 12_900, 120_400, 3_660_000, 7_205_000, 48 * 3_600_000, 51 * 3_600_000]"
    written = json.loads(str(engine.eval(f"JSON.stringify({ages}.map(Format.age))")))
    engine.close()
    assert written == ["0 s", "12 s", "2 min", "1 h 1 min", "2 h", "2 d", "2 d 3 h"]


def test_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "py_mini_racer", None)
    with pytest.raises(GroupReplayError) as caught:
        timeline_svg(DRAWN)
    assert "groupreplay[svg]" in str(caught.value)


def test_a_short_owner_does_not_hide_a_long_one() -> None:
    """An owner of a second before one of an hour: the row has the colour of the second one, not that of several."""
    document = timeline_of(
        [generation(1, member("a", (0,)), at=BEGIN), generation(2, member("b", (0,)), at=BEGIN + 1_000)],
        end_ms=BEGIN + 60 * MINUTE,
    )
    picture = timeline_svg(document)
    assert ("rgb(230,159,0)" in picture, "#9aa3b1" in picture) == (True, False)


def stormy(generations: int, limits: TimelineLimits | None = None) -> TimelineDocument:
    """A group in which another member joins and leaves with each generation."""
    history = []
    for number in range(1, generations + 1):
        owners = [member("a", (0,)), member("b", (1,))] if number % 2 else [member("a", (0, 1))]
        history.append(generation(number, *owners, at=BEGIN + number * SECOND))
    return timeline_of(history, limits)


def test_the_largest_ones_shrink() -> None:
    """Documents of very different sizes fit together; those that are smaller than their share stay as they are."""
    lengths = [3, 400, 20, 900]
    documents = [stormy(one) for one in lengths]
    whole = [island_bytes(one) for one in documents]
    most = sum(whole) // 4
    found = fitted(documents, lambda number, limits: stormy(lengths[number], limits), TimelineLimits(), most)
    assert sum(map(island_bytes, found)) <= most < sum(whole)
    assert [found[0], found[2]] == [documents[0], documents[2]]
    assert {one.kind for one in found[3].remarks} >= {"summed_events", "summed_generations", "summed_states"}
    assert [one.verdict[-1].text for one in found] == [one.verdict[-1].text for one in documents]


def test_nothing_changes_where_there_is_room() -> None:
    """Documents that fit are not made again."""
    documents = [stormy(20)]

    def never(number: int, limits: TimelineLimits) -> TimelineDocument:
        raise AssertionError((number, limits))

    assert fitted(documents, never, TimelineLimits(), island_bytes(documents[0])) == documents


def test_the_least_limits() -> None:
    """A document that does not fit at the least limits is returned as it is then; the attempts end."""
    (found,) = fitted([stormy(50)], lambda _, limits: stormy(50, limits), TimelineLimits(), 10)
    assert island_bytes(found) > 10
    assert (len(found.events), len(found.generations), len(found.slots)) == (1, 1, 1)


#: The colour of what is not known.
HOLE = "#d9dee6"


@pytest.mark.parametrize(
    ("history", "whole", "lacking"),
    [
        (
            [generation(1, member("a", (0,)), at=BEGIN)],
            "no commit in this time",
            "no commit of this time is left",
        ),
        ([generation(1, member("a", (0,)), at=BEGIN), commit("t", 0, 1, at=BEGIN + MINUTE)], None, None),
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
