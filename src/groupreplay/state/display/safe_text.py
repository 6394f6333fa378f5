"""Text from records made safe to show: group ids, hosts and metadata are written by strangers."""

from __future__ import annotations

import unicodedata

#: Controls, format characters (bidi overrides, zero width), surrogates, private use, line and paragraph
#: separators, unassigned code points: none of them may reach a terminal, a label or a log line as it is.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
LIMIT = 256


def is_safe(text: str) -> bool:
    """Whether the text has no unsafe character; what ``safe_text`` returns has none."""
    return text.isprintable() or not any(unicodedata.category(char) in _UNSAFE for char in text)


def safe_text(text: str, limit: int | None = LIMIT) -> str:
    r"""The text with unsafe characters written as ``\u{1b}``, cut at ``limit`` characters with an ellipsis.

    A backslash is doubled only in front of ``u{``, so that the escape cannot be forged.
    """
    if text.isascii() and text.isprintable() and "\\u{" not in text:
        shown = text
    else:
        shown = "".join(
            f"\\u{{{ord(char):x}}}" if unicodedata.category(char) in _UNSAFE else char
            for char in text.replace("\\u{", "\\\\u{")
        )
    if limit is not None and len(shown) > limit:
        return shown[: limit - 1] + "…"
    return shown
