"""The generated part of docs/whatif.md."""

from __future__ import annotations

import re

from generators.whatif_page import settings_table
from groupreplay.timeline.whatif.settings import ASKED
from support.paths import ROOT

PAGE = (ROOT / "docs" / "whatif.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    """The page has the table as the code makes it now, with a row for each setting."""
    assert f"a sentence.\n\n{settings_table()}\n\n`group.instance.id=auto`" in PAGE
    assert re.findall(r"^\| `([^`]+)`", settings_table(), re.M) == [*ASKED]
