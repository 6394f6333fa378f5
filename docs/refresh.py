"""Writes the generated pages and parts of pages anew: ``make docs``. Tests fail when one is out of date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from groupreplay.streaming.meters import metrics_table

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ROOMS = ("codecs", "state", "streaming")
#: Page -> the module that prints it.
PAGES = {
    "records.md": "groupreplay.codecs.records_page",
    "events.md": "groupreplay.state.events_page",
    "states.md": "groupreplay.state.states_page",
    "configuration.md": "groupreplay.streaming.configuration_page",
    "../deploy/rules.toml": "groupreplay.streaming.rules_page",
}


def file_map() -> str:
    """Room by room, each module with the first sentence of its docstring."""
    lines: list[str] = []
    for room in ROOMS:
        lines += [f"### `{room}/`", "", "| module | what it is |", "| --- | --- |"]
        for path in sorted((ROOT / room).glob("*.py")):
            docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
            first = docstring.split("\n\n")[0].replace("\n", " ")
            lines.append(f"| `{path.name}` | {first} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def replace_part(page: Path, before: str, part: str, after: str) -> None:
    """Puts the part between two patterns of a page that somebody wrote by hand."""
    pattern = f"({before}).*?({after})"
    text = re.sub(pattern, lambda match: match[1] + part + match[2], page.read_text(), flags=re.S)
    page.write_text(text)


def main() -> None:
    """All pages, then the generated parts of others."""
    for page, module in PAGES.items():
        printed = subprocess.run([sys.executable, "-m", module], cwd=DOCS, capture_output=True, check=True)
        (DOCS / page).write_bytes(printed.stdout)
    replace_part(DOCS / "design.md", r"## File map\n\n", file_map(), r"\n\n## Not obvious")
    replace_part(DOCS / "monitoring.md", r"## Metrics\n\n", metrics_table(), r"\n\n## Good to know")


if __name__ == "__main__":
    main()
