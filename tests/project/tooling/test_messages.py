"""Messages name commands and flags that exist: who is told to type something must be able to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from groupreplay.app.cli.program import COMMANDS, cli
from support.paths import PACKAGE, ROOT

#: Words that follow the name of the program in a sentence.
PROSE = frozenset(
    {
        "again",
        "and",
        "cannot",
        "does",
        "fail",
        "failed",
        "has",
        "for",
        "in",
        "is",
        "reads",
        "supports",
        "that",
        "under",
        "with",
    }
)
#: Flags of Kafka's tools, pip, java and spark-submit, which messages name and commands use.
FOREIGN = frozenset(
    {
        *(
            "--add",
            "--add-config",
            "--add-modules",
            "--allow-principal",
            "--alter",
            "--broker-id",
            "--create",
        ),
        *("--entity-name", "--entity-type", "--operation", "--replication-factor", "--reset-offsets"),
        *(
            "--describe",
            "--max-messages",
            "--partition",
            "--resource-pattern-type",
            "--start-offset",
            "--topic",
        ),
        *("--unavailable-partitions", "--zookeeper"),
        *("--dest", "--disable-pip-version-check", "--implementation", "--no-input", "--only-binary"),
        *("--python-version", "--quiet", "--upgrade"),
        *("--archives", "--conf", "--deploy-mode", "--files", "--packages", "--py-files"),
    }
)
#: The demo's own consumers, which it starts with them.
OF_THE_DEMO = frozenset({"--repeat"})
_MENTION = re.compile(r"\bgroupreplay ([a-z][a-z-]*)((?: --[a-z-]+(?: (?!--)[^\s,;)]+)?)*)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def flags_of(command: click.Command) -> set[str]:
    """The flags of a command."""
    return {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}


_CONTEXT = click.Context(cli)
_GLOBAL = flags_of(cli) | {"--help"}
FLAGS = {
    name: flags_of(found)
    for name in cli.list_commands(_CONTEXT)
    if (found := cli.get_command(_CONTEXT, name))
}
KNOWN = set[str]().union(*FLAGS.values()) | _GLOBAL | FOREIGN | OF_THE_DEMO


def texts(path: Path) -> Iterator[str]:
    """The texts of a module without its docstrings; an f-string with {} for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    inside = {
        id(part)
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in inside | said:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)


def offences(text: str) -> list[str]:
    """Commands and flags of this program that the text names and that do not exist."""
    found = []
    for command, words in _MENTION.findall(text):
        if command not in COMMANDS:
            found += [] if command in PROSE else [f"groupreplay {command}"]
            continue
        found += [
            f"groupreplay {command} {flag}"
            for flag in _FLAG.findall(words)
            if flag not in FLAGS[command] | _GLOBAL | FOREIGN
        ]
    return [*found, *(flag for flag in _FLAG.findall(text) if flag not in KNOWN)]


def test_commands_and_flags_of_messages_exist() -> None:
    """In every text of the program, in Python and in the scripts of the pages."""
    modules = list(PACKAGE.rglob("*.py"))
    scripts = [path for path in PACKAGE.rglob("web/*.js") if ".min." not in path.name]
    said = {path.relative_to(ROOT).as_posix(): list(texts(path)) for path in modules}
    said |= {
        path.relative_to(ROOT).as_posix(): re.findall(
            r"groupreplay [^`\"']*", path.read_text(encoding="utf-8")
        )
        for path in scripts
    }
    assert {
        path: wrong for path, lines in said.items() if (wrong := [o for one in lines for o in offences(one)])
    } == {}
    assert sum("groupreplay check" in line for lines in said.values() for line in lines) > 5


def test_the_check_finds_what_does_not_exist(tmp_path: Path) -> None:
    """A command, a flag of another command and one of no command; not a docstring, nor a sentence about the program."""
    module = tmp_path / "module.py"
    module.write_text(
        '"""Use groupreplay nosuch."""\n'
        'A = f"{A}: groupreplay chek shows which right is missing"\n'
        'B = "groupreplay check --listen HOST:PORT --group G tests it; groupreplay and its libraries; --nosuch"\n'
        'C = "kafka-acls.sh --add; groupreplay watch --listen"\n'
    )
    assert [one for text in texts(module) for one in offences(text)] == [
        "groupreplay chek",
        "groupreplay check --group",
        "--nosuch",
    ]
