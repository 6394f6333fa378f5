"""Every command line of the program in a page has a known command, known flags and valid values."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from groupreplay.app.cli.program import COMMANDS
from support.job.captures import parsed
from support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Placeholders of the runbook -> words that can be parsed.
PLACEHOLDERS = {
    "B": "--bootstrap-server broker:9092",
    "P": "12",
    "O": "3",
    "TIME": "02:00",
    "...": "broker:9092",
}
#: What ends a command in a shell.
END = re.compile(r"\s(?:#|[|;]|\d?>|&)")
PROGRAM = r"(?:^|\s)groupreplay ([^`]+)"


def commands(text: str) -> list[str]:
    """The command lines in the blocks, and those in the text, without the name of the program."""
    blocks = re.findall(r"```(?:sh|console|text)?\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    quoted = [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", outside)]
    found = [re.search(PROGRAM, END.split(one)[0]) for one in (*lines, *quoted)]
    return [one[1] for one in found if one is not None and one[1].split()[0] in COMMANDS]


def mistake(command: str) -> str | None:
    """Why the command line cannot be parsed; the text may leave out what a command requires."""
    words = [PLACEHOLDERS.get(word, word) for word in command.split()]
    try:
        parsed(shlex.split(" ".join(words)))
    except click.MissingParameter:
        return None
    except click.ClickException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_command_lines_can_be_parsed(page: Path) -> None:
    """In blocks and in the text, with words in place of the placeholders."""
    found = commands(page.read_text("utf-8"))
    assert {one: mistake(one) for one in found if mistake(one)} == {}


def test_the_check_finds_them() -> None:
    """A wrong flag, a wrong value and an unknown type are found, in a block and in the text."""
    block = "groupreplay replay --since never | head\n$ groupreplay list B # all\n"
    text = f"`groupreplay list --nosuch`\n```sh\n{block}```\n"
    assert commands(text) == ["replay --since never", "list B", "list --nosuch"]
    assert [mistake(one) is None for one in commands(text)] == [False, True, False]
    assert sum(len(commands(page.read_text("utf-8"))) for page in PAGES) > 80
