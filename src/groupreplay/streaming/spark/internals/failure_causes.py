"""The texts of a failed query: PySpark keeps the JVM's stack trace and the cause of an exception in private fields."""

from __future__ import annotations

from typing import Any, Final

#: Longer chains say nothing more.
_MOST_CAUSES: Final = 20


def failure_texts(exception: Any) -> list[str]:
    """The texts of an exception and of its causes, the outermost first; of another exception its own text."""
    texts: list[str | None] = []
    for _ in range(_MOST_CAUSES):
        if exception is None:
            break
        texts += [str(exception), getattr(exception, "_stackTrace", None)]
        exception = getattr(exception, "_cause", None)
    return [text for text in texts if text]
