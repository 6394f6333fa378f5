"""Writes the generated pages and parts of pages: ``make docs``. Tests fail when one is out of date."""

from __future__ import annotations

import re
from pathlib import Path

from generators import (
    configuration_page,
    events_page,
    platforms_page,
    records_page,
    rules_page,
    simulations_page,
    states_page,
    trace_page,
)
from groupreplay.app.exporter.metric_catalog import metrics_table
from groupreplay.streaming.spark.session import DAEMON

DOCS = Path(__file__).parent
#: Page -> the module that makes it.
PAGES = {
    "records.md": records_page,
    "events.md": events_page,
    "states.md": states_page,
    "trace.md": trace_page,
    "configuration.md": configuration_page,
    "../deploy/rules.toml": rules_page,
}


def replace_part(page: Path, before: str, part: str, after: str) -> None:
    """Puts the part between two patterns of a page that is written by hand."""
    pattern = f"({before}).*?({after})"
    text = re.sub(pattern, lambda match: match[1] + part + match[2], page.read_text(), flags=re.S)
    page.write_text(text)


def main() -> None:
    """All pages, then the generated parts of others."""
    for page, module in PAGES.items():
        (DOCS / page).write_text(module.page(), encoding="utf-8")
    replace_part(DOCS / "monitoring.md", r"## Metrics\n\n", metrics_table(), r"\n\n## Good to know")
    simulations = DOCS / "simulations.md"
    replace_part(simulations, r"one text with commas[.]\n\n", simulations_page.settings_tables(), r"\n\n## ")
    platforms = DOCS / "platforms.md"
    replace_part(platforms, r"### What an archive contains\n\n", platforms_page.lines_table(), r"\n\n")
    # Where the commands are written by hand.
    replace_part(platforms, rf"{DAEMON[0]}=", DAEMON[1], r" \\\n")
    replace_part(DOCS / "../deploy/kubernetes/spark-application.yaml", rf"{DAEMON[0]}: ", DAEMON[1], r"\n")
    replace_part(platforms, r"### Submitting it\n\n", platforms_page.commands(), r"\n\n## YARN")


if __name__ == "__main__":
    main()
