"""The generated parts of docs/platforms.md."""

from __future__ import annotations

from generators.platforms_page import EXAMPLE, commands, lines_table
from groupreplay.app.bundle.archive import LINES
from support.paths import ROOT

PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    """The page has the table and the commands as the code makes them now."""
    assert f"\n### What an archive contains\n\n{lines_table()}\n\n" in PAGE
    assert f"\n### Submitting it\n\n{commands()}\n\n## YARN\n" in PAGE


def test_every_line_has_a_row() -> None:
    """The rows are the Spark lines, with the release that was tried."""
    rows = [row.split(" | ")[:2] for row in lines_table().splitlines()[2:]]
    assert rows == [[f"| {line}", needs.connector] for line, needs in LINES.items()]


def test_the_commands_are_those_that_are_printed() -> None:
    """Each command line of the blocks is one that ``groupreplay bundle`` prints for the same flags."""
    blocks = [block.partition("\n")[2].rstrip() for block in commands().split("```")[1::2]]
    assert blocks == [
        f"{EXAMPLE.unpack}\n{EXAMPLE.command('yarn', 'client')}",
        EXAMPLE.command("yarn", "cluster"),
    ]
    for block in blocks:
        assert block in EXAMPLE.script
