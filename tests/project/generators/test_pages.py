"""All generated pages agree with the code."""

from __future__ import annotations

import pytest

from refresh import DOCS, PAGES


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_up_to_date(page: str) -> None:
    """``make docs`` has been run after the last change of what the page is made from."""
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page].page()
