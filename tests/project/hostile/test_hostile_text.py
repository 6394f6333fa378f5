"""Hostile text from records in every output: it harms no terminal, spreadsheet or log reader."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest
from msgspec import structs

from groupreplay.app.cli.commands.run import answers_table
from groupreplay.app.cli.program import COMMANDS, cli
from groupreplay.app.text.event_text import line_of
from groupreplay.app.text.screen import Screen
from groupreplay.app.text.tables import show
from groupreplay.codecs import Malformed, Skipped, decode_key, encode_key
from groupreplay.state.output.envelope import MAX_BYTES
from groupreplay.streaming.contract.probe_messages import MemberAnswer
from support.histories.builders import Raw as Record
from support.histories.builders import asked_for, commit, generation, member
from support.histories.modern_builders import (
    UNREVOKED,
    current,
    described,
    first_join,
    group_epoch,
    operation,
    target,
    target_epoch,
)
from support.histories.raw_records import Raw
from support.job.captures import invoke, raw, write_capture
from support.job.probes import asked

AT = 1_767_225_600_000
#: Text that a terminal, a pager, a spreadsheet, a log reader, a markup language or a formatter would interpret.
NAMES = {
    "colour": "a\x1b[31mred\x1b[0m",
    "title": "\x1b]0;pwned\x07",
    "link": "\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\",
    "clear": "\x1bc\x9b2J\x08\x7f",
    "lines": "a\r\nERROR forged line\u2028b\u2029c\x85d",
    "bidi": "\u202egnp.exe\u2066x\u2069\u200f",
    "invisible": "a\u200bb\ufeffc\u00add\U000e0041",
    "formula": "=HYPERLINK(1)",
    "sums": "+1-1",
    "minus": "-1+1",
    "at": "@SUM(1)",
    "tab": "\t=1",
    "markup": "[red]x[/red]<b>&amp;",
    "escapes": '\\u{1b}","x":{"%s{0}\\n',
}
#: About the longest group id that a broker accepts; every other character has to be escaped.
LONG = "x\x1b" * 15_000
BENIGN = {kind: f"name-{number}" for number, kind in enumerate(NAMES)}
FORMATS = ("table", "json", "jsonl", "csv")
COMMANDS_OF_A_CAPTURE = [
    *(["replay", "--member-events", "-o", one] for one in ("table", "jsonl")),
    *(["list", "-o", one] for one in FORMATS),
    *(["describe", "--all-groups", view, "--verbose", "-o", one] for view in ("--state",) for one in FORMATS),
    *(["describe", "--all-groups", "--members", "--verbose", "-o", one] for one in ("table", "csv")),
    *(["describe", "--all-groups", "--offsets", "-o", one] for one in ("table", "csv")),
    *(["describe", "--all-groups", "--history", "-o", one] for one in FORMATS),
    ["list", "--fail-on", "stuck"],
    ["decode"],
    ["--log-level", "DEBUG", "--log-format", "json", "list"],
    ["--log-level", "DEBUG", "--log-format", "text", "list"],
]


def classic(name: str) -> list[Record]:
    """A classic group in which every text is ``name``: rebalances, a commit, a commit of a lower offset."""
    evil = member(name, [0], topic=name, instance_id=name, client_id=name, host=name)
    other = member(name + "2", [1], topic=name, client_id=name, host=name)
    return [
        asked_for(at=AT),
        generation(1, evil, at=AT + 1_000, leader=name),
        commit(name, 0, 9_000, at=AT + 2_000, metadata=name[:4096]),
        generation(2, evil, other, at=AT + 3_000, leader=name),
        commit(name, 0, 1_000, at=AT + 4_000, metadata=name[:4096]),
    ]


def modern(name: str) -> list[Record]:
    """A KIP-848 group with such names, in which one member blocks the others."""
    first, second = name, name + "2"
    return [
        *first_join(first, at=AT, client_id=name, instance_id=name, topics=(name,), regex=name),
        *operation(AT + 1_000, described(second, client_id=name, topics=(name,)), group_epoch(3)),
        *operation(
            AT + 2_000,
            *(target(first, [0]), target(second, [1]), target_epoch(3)),
            *(current(first, 2, [0], state=UNREVOKED, revoking=[1]), current(second, 3)),
        ),
        *operation(AT + 242_000, current(second, 3)),
    ]


def rows_of(names: Mapping[str, str]) -> list[Raw]:
    """Two groups for each name, each in a partition of its own, and a malformed record."""
    kinds: Sequence[tuple[Callable[[str], list[Record]], str]] = ((classic, ""), (modern, "-2"))
    lives = [(build(name), name + suffix) for name in names.values() for build, suffix in kinds]
    rows = [
        row._replace(key=renamed(row.key, group))
        for partition, (life, group) in enumerate(lives)
        for row in raw(life, partition=partition)
    ]
    return [*rows, Raw(len(lives), 1, AT, b"\0\x02\0\x09=\x1b[31m\n", b"\0\x03\x1b[31m")]


def renamed(key: bytes | None, group: str) -> bytes:
    """The key of the same record, for another group."""
    decoded = decode_key(key or b"")
    assert not isinstance(decoded, Skipped | Malformed)
    return encode_key(replace(decoded, group=group))


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A capture with hostile names, and one that differs only in the names."""
    folder = tmp_path_factory.mktemp("captures")
    return (
        write_capture(folder / "hostile.parquet", rows_of(NAMES)),
        write_capture(folder / "benign.parquet", rows_of(BENIGN)),
    )


def harmful(text: str) -> set[str]:
    """The characters that are not plain visible text; a tab stands between two columns, and only there."""
    return {
        char
        for char in text
        if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    }


@pytest.mark.parametrize("words", COMMANDS_OF_A_CAPTURE, ids=" ".join)
def test_no_command_prints_hostile_text(captures: tuple[Path, Path], words: list[str]) -> None:
    """Output has only visible characters, and as many lines as with harmless names."""
    hostile, benign = (invoke(*words, "--from-file", one) for one in captures)
    assert hostile.exit_code == benign.exit_code
    assert harmful(hostile.stdout + hostile.stderr) == set()
    for shown, plain in ((hostile.stdout, benign.stdout), (hostile.stderr, benign.stderr)):
        assert shown.count("\n") == plain.count("\n")
    assert "red" in hostile.stdout


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("words", [["list"], ["describe", "--all-groups", "--history"]], ids=" ".join)
def test_a_group_id_of_30_000_bytes(tmp_path: Path, words: list[str], output: str) -> None:
    """Tables truncate it; JSON has all of it; no format fails."""
    life = [row._replace(key=renamed(row.key, LONG)) for row in raw([asked_for(at=AT)])]
    result = invoke(*words, "-o", output, "--from-file", write_capture(tmp_path / "long.parquet", life))
    assert (result.exit_code, harmful(result.stdout)) == (0, set())
    assert "x\\u{1b}x" in result.stdout or "x\\u001bx" in result.stdout
    if output == "table":
        assert max(map(len, result.stdout.splitlines())) < 1_000
    elif words == ["list"] and output != "csv":
        found = json.loads(result.stdout)
        assert (found[0] if output == "json" else found)["group_id"] == LONG


@pytest.mark.parametrize(
    "words",
    [["list"], ["describe", "--all-groups", "--state"], ["describe", "--all-groups", "--history"]],
    ids=" ".join,
)
def test_json_has_the_exact_names(captures: tuple[Path, Path], words: list[str]) -> None:
    """JSON is escaped for the terminal, and a parser gets every character of the names."""
    names = {name + suffix for name in NAMES.values() for suffix in ("", "-2")}
    for output in ("json", "jsonl"):
        text = invoke(*words, "-o", output, "--from-file", captures[0]).stdout
        found = json.loads(text) if output == "json" else list(map(json.loads, text.splitlines()))
        assert {one.get("group_id") for one in found} == names


def test_csv_cells_are_not_formulas(captures: tuple[Path, Path]) -> None:
    """No cell begins like a formula of a spreadsheet."""
    for words in (words for words in COMMANDS_OF_A_CAPTURE if "csv" in words):
        text = invoke(*words, "--from-file", captures[0]).stdout
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        risky = [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
        assert [cell for cell in risky if not cell.lstrip("-").isdigit()] == [], words
        assert "'=HYPERLINK(1)" in cells, words


def test_events_are_complete_and_bounded(captures: tuple[Path, Path]) -> None:
    """Each event is JSON of bounded size with the exact name; its subject, which other tools display, is harmless."""
    lines = invoke("replay", "--member-events", "-o", "jsonl", "--from-file", captures[0]).stdout.splitlines()
    events = list(map(json.loads, lines))
    assert all(len(json.dumps(one, ensure_ascii=False).encode()) <= MAX_BYTES for one in events)
    groups = {one["data"].get("group_id") for one in events}
    assert set(NAMES.values()) <= groups
    for event in events:
        assert harmful(event["subject"]) == set()
        assert len(event["subject"]) <= 300


@pytest.mark.parametrize("colour", [False, True])
def test_the_live_view_is_harmless(
    captures: tuple[Path, Path], capsys: pytest.CaptureFixture[str], colour: bool
) -> None:
    """``events --follow`` and the demo print one harmless line for each event."""
    lines = invoke("replay", "-o", "jsonl", "--from-file", captures[0]).stdout.splitlines()
    screen = Screen(colour=colour)
    for line in lines:
        screen.line(line_of(json.loads(line)))
    printed = capsys.readouterr().out
    assert harmful(printed) == set()
    assert printed.count("\n") == len(lines)


@pytest.mark.parametrize("output", FORMATS)
def test_probe_results(capsys: pytest.CaptureFixture[str], output: str) -> None:
    """``probe --once`` prints rebalancing groups with hostile names harmlessly."""
    results = [
        structs.replace(
            asked(name, "PreparingRebalance", at=AT),
            protocol=name,
            members=(MemberAnswer(member_id=name, instance_id=name, client_id=name, client_host=name),),
        )
        for name in NAMES.values()
    ]
    table = answers_table(results)
    show(table, [{"group_id": one.group_id} for one in results], output)
    printed = capsys.readouterr().out
    assert harmful(printed) == set()
    assert printed.count("\n") == {"json": 3 * len(NAMES) + 2, "jsonl": len(NAMES)}.get(
        output, len(NAMES) + 1
    )


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_on_the_command_line(captures: tuple[Path, Path], name: str) -> None:
    """A hostile name on the command line is harmless in output and errors."""
    for words in (["coordinator", "--", name], ["describe", "--from-file", captures[1], "--group=" + name]):
        result = invoke(*words)
        assert harmful(result.stdout + result.stderr) == set()
        assert (result.stdout + result.stderr).count("\n") <= 3


def test_no_flag_takes_a_secret() -> None:
    """Passwords and keys come from files, because every user of the machine can read command lines."""
    context = click.Context(cli)
    flags = [
        (name, option)
        for name in COMMANDS
        for param in getattr(cli.get_command(context, name), "params", ())
        for option in param.opts
    ]
    assert ("run", "--command-config") in flags
    words = ("password", "secret", "token", "jaas", "credential", "keystore", "api-key")
    found = {one[1] for one in flags if any(word in one[1] for word in words)}
    assert [flag for flag in sorted(found) if not flag.endswith("-file")] == []
