"""Writes the generated pages and parts of pages: ``make docs``. Tests fail when one is out of date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from generators.events_page import events_table
from groupreplay.streaming.exporter.metric_catalog import metrics_table

DOCS = Path(__file__).parent
#: Page -> the module that prints it.
PAGES = {
    "records.md": "generators.records_page",
    "events.md": "generators.events_page",
    "states.md": "generators.states_page",
    "configuration.md": "generators.configuration_page",
    "../deploy/rules.toml": "generators.rules_page",
}


def replace_part(page: Path, before: str, part: str, after: str) -> None:
    """Puts the part between two patterns of a page that is written by hand."""
    pattern = f"({before}).*?({after})"
    text = re.sub(pattern, lambda match: match[1] + part + match[2], page.read_text(), flags=re.S)
    page.write_text(text)


def main() -> None:
    """All pages, then the generated parts of others."""
    for page, module in PAGES.items():
        printed = subprocess.run([sys.executable, "-m", module], cwd=DOCS, capture_output=True, check=True)
        (DOCS / page).write_bytes(printed.stdout)
    replace_part(DOCS / "../README.md", r"\n## Events\n\n", events_table(), r"\n\n")
    replace_part(DOCS / "monitoring.md", r"## Metrics\n\n", metrics_table(), r"\n\n## Good to know")


if __name__ == "__main__":
    main()
