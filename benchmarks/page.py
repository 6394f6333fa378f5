"""What all benchmarks share: flags, tables in docs/performance.md, and progress on stderr."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"


def put(name: str, table: str, page: Path = PAGE) -> None:
    """Replaces what stands between the two comments of that name on a page, and says when it was measured.

    Raises:
        ValueError: the page has no such place.
    """
    at = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    text, places = re.subn(
        rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)",
        lambda place: f"{place[1]}{table}\n\nMeasured on {at}.\n{place[2]}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if places != 1:
        raise ValueError(f"{page.name} has {places} places for {name}")
    page.write_text(text, encoding="utf-8")


def flag_parser(text: str | None) -> ArgumentParser:
    """A parser of flags; the text is a module's docstring."""
    return ArgumentParser(description=text, formatter_class=RawDescriptionHelpFormatter)


def show_progress(line: str) -> None:
    """Writes a line of progress to stderr."""
    print(line, file=sys.stderr, flush=True)
