"""Writes the generated pages and parts of pages anew: ``make docs``. Tests fail when one is out of date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ROOMS = ("codecs", "state", "streaming")
#: Page -> the module that prints it.
PAGES = {
    "records.md": "groupreplay.codecs.records_page",
    "events.md": "groupreplay.state.events_page",
    "states.md": "groupreplay.state.states_page",
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


def main() -> None:
    """All pages, then the file map inside docs/design.md."""
    for page, module in PAGES.items():
        printed = subprocess.run([sys.executable, "-m", module], cwd=DOCS, capture_output=True, check=True)
        (DOCS / page).write_bytes(printed.stdout)
    design = DOCS / "design.md"
    before, after = r"(## File map\n\n)", r"(\n\n## Not obvious)"
    text = re.sub(
        f"{before}.*?{after}", lambda match: match[1] + file_map() + match[2], design.read_text(), flags=re.S
    )
    design.write_text(text)


if __name__ == "__main__":
    main()
