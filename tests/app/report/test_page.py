"""A report as one HTML file: what it may do, and that nothing in the data leaves its element."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from groupreplay.app.report.assets import source_hash
from groupreplay.app.report.page import data_island, report_page
from support.histories.builders import generation, member
from support.pictures.report_pages import PageParts
from support.pictures.timelines import BEGIN, timeline_of

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
