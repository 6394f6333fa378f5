"""The lines of docs/cli.md for completion in the shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

SECTION = (
    (ROOT / "docs" / "cli.md")
    .read_text("utf-8")
    .partition("\n## Completion in the shell\n")[2]
    .partition("\n## ")[0]
)
BASH, ZSH, FISH = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
#: Types words, and prints what bash's own completion then offers.
COMPLETED = """
COMP_WORDS=({words}) COMP_CWORD={last} COMP_LINE="{words}" COMP_POINT=${{#COMP_LINE}}
specification=$(complete -p groupreplay)
[[ $specification =~ -F\\ ([^ ]+) ]] && "${{BASH_REMATCH[1]}}" groupreplay
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``groupreplay`` is this one; click takes the program's name from how it is called."""
    (tmp_path / "groupreplay").symlink_to(Path(sys.executable).with_name("groupreplay"))
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def shell(program: str, script: str, environment: dict[str, str]) -> list[str]:
    """The lines that a shell prints."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    flags = ["--norc", "--noprofile"] if program == "bash" else []
    done = subprocess.run(
        [found, *flags, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("groupreplay de", ["decode", "demo", "describe"]),
        ("groupreplay events --min-sev", ["--min-severity"]),
        ("groupreplay events --min-severity w", ["warn"]),
        ("groupreplay nothing-such", []),
    ],
)
def test_bash(words: str, offered: list[str], path: dict[str, str]) -> None:
    """Commands, flags and values that have a list."""
    script = BASH + COMPLETED.format(words=words, last=len(words.split()) - 1)
    assert sorted(shell("bash", script, path)) == offered


@pytest.mark.parametrize(
    ("program", "line", "mark"), [("zsh", ZSH, "#compdef groupreplay"), ("fish", FISH, "complete ")]
)
def test_other_shells(program: str, line: str, mark: str, path: dict[str, str]) -> None:
    """The command of the line prints that shell's own script; where the shell is installed, the line loads it."""
    command = re.search(r"_GROUPREPLAY_COMPLETE=\w+ groupreplay", line)
    assert command is not None
    printed = subprocess.run(
        ["sh", "-c", command[0]], env=path, capture_output=True, text=True, check=True
    ).stdout
    assert mark in printed
    assert "_GROUPREPLAY_COMPLETE" in printed
    script = f"autoload -U compinit && compinit -D\n{line}" if program == "zsh" else line
    shell(program, script, path)
