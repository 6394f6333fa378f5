"""Commands on a terminal of 80, 120 and 200 columns: a real one, with its size asked of the kernel."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupreplay.codecs import decode_key, encode_key
from support.histories.builders import asked_for, commit, generation, member
from support.histories.raw_records import Raw
from support.job.captures import raw, write_capture
from support.pseudo_terminal import ERASE, PseudoTerminal

AT = 1_767_225_600_000
LONG = "orders-" + "x" * 232 + "-consumer"
WIDE = "注文を処理するグループ・東京リージョン本番環境用コンシューマー"
UUIDS = [f"{number:08x}-98a1-4f5c-9d5c-0f0b7a1c2d3e" for number in range(4)]
#: All commands in one process: the start of Python takes longer than they do.
PROGRAM = """
import json, sys
from groupreplay.app.cli.program import cli
for words in json.loads(sys.argv[1]):
    try:
        cli.main(words, standalone_mode=False)
    except SystemExit:
        pass
    print("=====", flush=True)
"""
_ALL = ("", "--members", "--members --verbose", "--state --verbose", "--history", "--states")
VIEWS = [
    ["list"],
    *(
        ["describe", "--group", group, *view.split()]
        for group, views in (("payments", _ALL), (WIDE, _ALL[:2]), (LONG, _ALL[1:4]))
        for view in views
    ),
    ["describe", "--all-groups"],
]


def renamed(rows: list[Raw], group: str) -> list[Raw]:
    """The same records of another group."""
    named: Any = [(row, decode_key(row.key or b"")) for row in rows]
    return [row._replace(key=encode_key(replace(key, group=group))) for row, key in named]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 groups; of three, one is ordinary, one has wide characters, and one the longest id that a topic may have."""
    topic = "orders.v1.eu-west-1.payments"
    members = [
        member(f"consumer-payments-{n}-{uuid}", [n], topic=topic, client_id=f"consumer-payments-{n}")
        for n, uuid in enumerate(UUIDS)
    ]
    life = raw(
        [
            asked_for(at=AT),
            generation(1, *members, at=AT + 1_000),
            *(commit(topic, n, 10**n, at=AT + 2_000, metadata="m" * 200) for n in range(4)),
        ]
    )
    names = ["payments", WIDE, LONG, *(f"group-{number}" for number in range(297))]
    rows = [row for name in names for row in renamed(life, name)]
    numbered = [row._replace(offset=offset) for offset, row in enumerate(rows)]
    return write_capture(tmp_path_factory.mktemp("widths") / "a.parquet", numbered)


@pytest.fixture(scope="module", params=[80, 120, 200])
def shown(request: pytest.FixtureRequest, capture: Path) -> tuple[int, dict[str, list[str]]]:
    """The width, and the lines of each command without their colours."""
    commands = [[*words, "--from-file", str(capture)] for words in VIEWS]
    printed = on_terminal(request.param, commands)
    return request.param, {" ".join(words): lines for words, lines in zip(VIEWS, printed, strict=True)}


def on_terminal(width: int, commands: list[list[str]]) -> list[list[str]]:
    """The lines that the commands print on a terminal of this width."""
    with PseudoTerminal([sys.executable, "-c", PROGRAM, json.dumps(commands)], width) as terminal:
        pass
    assert terminal.process.returncode == 0
    # What follows the last erasure of a row is what stands there: progress is gone.
    rows = [row.rpartition(ERASE)[2] for row in terminal.text.split("\n")]
    # A sentence of stderr, which the terminal wraps, is no row of a table.
    tables = [row for row in rows if not row.startswith("assumed, because")]
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(tables))
    return [part.strip("\n").split("\n") for part in text.split("=====\n")[:-1]]


def cells(line: str) -> int:
    """The cells of a line by Unicode's table of widths."""
    return len(line) + sum(unicodedata.east_asian_width(char) in "WF" for char in line)


def test_no_line_wraps(shown: tuple[int, dict[str, list[str]]]) -> None:
    """No line of any view is wider than the terminal, and none has an escape left."""
    width, printed = shown
    wide = [(view, line) for view, lines in printed.items() for line in lines if cells(line) > width]
    assert wide == []
    assert all("\x1b" not in line for lines in printed.values() for line in lines)


def test_one_line_for_each_row(shown: tuple[int, dict[str, list[str]]]) -> None:
    """300 groups are 300 lines under one heading; four partitions are four lines under the group and a heading."""
    _, printed = shown
    groups = [line for line in printed["list"] if "classic" in line]
    assert len(groups) == 300
    payments = printed["describe --group payments"]
    assert payments[0] == "GROUP payments"
    assert payments[1].split()[0] == "TOPIC"
    rows = payments[2:6]
    assert [line.split()[1:3] for line in rows] == [[str(n), str(10**n)] for n in range(4)]
    # Ids are shortened in the middle: the ends, which differ, are there.
    assert all(re.search(r"consumer-payments-|consu\w*…", line) for line in rows)
    assert all(line.startswith(("not shown", "times", "  ")) for line in payments[6:])


def test_whole_on_request(capture: Path) -> None:
    """With --wide every id is whole, whatever the width, and the columns that are asked for come alone."""
    words = ["describe", "--from-file", str(capture), "--group", LONG, "--state"]
    ((heading, line),) = on_terminal(80, [[*words, "--wide", "--columns", "group,members"]])
    assert (heading, line) == ("GROUP".ljust(len(LONG)) + "  #MEMBERS", LONG + "  4")
