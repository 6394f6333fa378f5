"""The shells of the live pages: no data, nothing inline, and every file that they name is served."""

from __future__ import annotations

import re

import pytest

from groupreplay.app.serve.pages import POLICY, board_page, group_page, incidents_page, static_files
from support.pictures.report_pages import PageParts


@pytest.mark.parametrize("page", [board_page, group_page, incidents_page])
def test_a_shell_has_nothing_inline(page: object) -> None:
    """The policy allows files of the server only: no script, style or handler stands in the page itself."""
    assert callable(page)
    parts = PageParts(page())
    assert [text for _, _, text in parts.sources if text.strip()] == []
    names = {name for _, attributes in parts.elements for name in attributes}
    assert {name for name in names if name.startswith("on") or name == "style"} == set()
    assert "unsafe" not in POLICY


@pytest.mark.parametrize("page", [board_page, group_page, incidents_page])
def test_every_file_of_a_shell_is_served(page: object) -> None:
    """Scripts and styles are those of the package; no place of a template is left, and no other host is named."""
    assert callable(page)
    text = page()
    named = re.findall(r'(?:src|href)="/static/([^"?]+)\?v=[0-9a-f]{32}"', text)
    assert len(named) > 5
    assert len(named) == text.count("/static/")
    assert [name for name in named if name not in static_files()] == []
    assert re.findall(r"@[A-Z]+@", text) == []
    assert re.findall(r"(?:https?:)?//[a-z]", text) == []


def test_ids_of_a_shell_are_unique() -> None:
    """Scripts find elements by their ids, which the fragment of a report must not repeat."""
    for page in (board_page(), group_page(), incidents_page()):
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert sorted(ids) == sorted(set(ids))


def test_scripts_are_small_and_write_no_html() -> None:
    """Own scripts stay below 700 lines, and put text into pages as text only."""
    own = {
        name: body.decode()
        for name, body in static_files().items()
        if name.endswith(".js") and "echarts" not in name
    }
    assert {name for name, text in own.items() if len(text.splitlines()) >= 700} == set()
    assert {
        name
        for name, text in own.items()
        if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    } == set()
