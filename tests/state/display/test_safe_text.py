"""Text of strangers made safe to show."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.display.safe_text import safe_text


def test_plain_text_stays() -> None:
    """Letters of any script, spaces and punctuation are shown as they are."""
    assert safe_text("orders-日本 grüße/1") == "orders-日本 grüße/1"


def test_controls_and_direction_are_written_out() -> None:
    """Escape sequences, newlines, bidi overrides, zero width and surrogates become visible."""
    hostile = "a\x1b]0;x\x07\n\u202e\u200b\u2028\ud800"
    assert safe_text(hostile) == ("a\\u{1b}]0;x\\u{7}\\u{a}\\u{202e}\\u{200b}\\u{2028}\\u{d800}")


def test_an_escape_cannot_be_forged() -> None:
    r"""A text that already says ``\u{1b}`` is told from an escaped one."""
    assert safe_text("\\u{1b}") == "\\\\u{1b}"


def test_long_text_is_cut() -> None:
    """At 256 characters with an ellipsis; None cuts nothing."""
    assert safe_text("x" * 300) == "x" * 255 + "…"
    assert safe_text("x" * 300, limit=None) == "x" * 300


@given(st.text(st.characters(exclude_categories=[]), max_size=40))
def test_nothing_unsafe_is_left(text: str) -> None:
    """No control, format, surrogate or separator character passes."""
    unsafe = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not unsafe & {unicodedata.category(char) for char in safe_text(text)}
