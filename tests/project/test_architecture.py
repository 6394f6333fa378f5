"""Rules of the source tree; each check is first shown to find an offence that was planted in a small tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.paths import ROOT
from support.tools import source_checks as checks

Check = Callable[[Path], list[str]]

#: Decoders outside of ``streaming/contract/messages.py`` -> why no bytes of a topic reach them unchecked.
DECODED_ELSEWHERE = {
    "app/bundle/submitted_program.py json.load": "a file of the archive",
    "app/cli/commands/events.py bytes.decode": "EventTopic leaves out what is no JSON; events of this process",
    "app/cli/commands/events.py json.loads": "events that this process has encoded",
    "streaming/config/config_file.py msgspec.toml.decode": "a file of the operator",
    "streaming/config/rules_file.py msgspec.convert": "a file of the operator",
    "streaming/config/rules_file.py msgspec.toml.decode": "a file of the operator",
    "app/demo/scenario.py json.loads": "a command line of the demo",
    "streaming/engine/advance.py bytes.decode": "ids that `pack` has decoded",
    "streaming/engine/json_messages.py bytes.decode": "ids of groups, with replacement of what is no UTF-8",
    "streaming/engine/json_messages.py msgspec.convert": "counts of this process",
    "streaming/engine/json_messages.py msgspec.json.decode": "messages that this process has encoded",
    "streaming/engine/quarantine.py bytes.decode": "ids that `pack` has decoded",
    "streaming/engine/live.py bytes.decode": "ids that `pack` has decoded",
    "streaming/engine/replay.py msgspec.json.Decoder": "events that this process has encoded or EventTopic checked",
    "streaming/delivery/result_topics.py msgspec.msgpack.decode": "messages that this program has encoded",
    "streaming/spark/log_source.py json.loads": "an option that this program has written",
    "streaming/watch/incidents.py msgspec.msgpack.decode": "a finder of this program; damage begins a new one",
    "streaming/watch/own_messages.py msgspec.msgpack.decode": "messages that this program has encoded",
    "streaming/sources/latest_ends.py msgspec.msgpack.decode": "ends of this program; KeptEnds expects damage",
    "streaming/engine/wire.py msgspec.msgpack.Decoder": "rows that `pack` has made",
    "app/inspection/groups.py msgspec.json.decode": "events that this process has encoded",
    "app/inspection/history.py json.loads": "events that this process has encoded",
    "streaming/kafka/topic_identity.py bytes.decode": "base64 of this process",
    "streaming/local/jars.py json.loads": "a file of the package",
    "streaming/local/process_guard.py json.loads": "a pipe between two processes of groupreplay",
    "app/cli/printing_flags.py bytes.decode": "events that this program has made or has decoded",
    "streaming/prober/service.py msgspec.json.decode": "a pipe between two processes of groupreplay",
    "app/cli/commands/report.py bytes.decode": "JSON of this process",
    "app/report/assets.py bytes.decode": "base64 of this process",
    "app/report/assets.py json.loads": "a file of the package",
    "app/report/overview.py json.loads": "events that this process has encoded",
    "app/report/timelines.py msgspec.json.decode": "a file of the operator",
    "app/serve/offsets_log/group_logs.py json.loads": "events that this process has encoded",
    "streaming/spark/progress.py json.loads": "the JVM's reports",
    "streaming/spark/checkpoint.py msgspec.json.decode": "a file of the checkpoint",
    "streaming/spark/checkpoint_files.py msgspec.json.decode": "a file of the checkpoint",
    "streaming/run/identity.py msgspec.json.decode": "a file of the checkpoint",
    "streaming/spark/internals/group_worker.py bytes.decode": "JSON of this process",
    "streaming/spark/internals/group_worker.py msgspec.json.decode": "the JVM's description of a state",
    "streaming/spark/internals/jvm.py json.loads": "the JVM's reports",
    "streaming/spark/operator.py bytes.decode": "headers of this process",
    "streaming/spark/query.py json.loads": "a file of the checkpoint",
    "app/simulate/files.py bytes.decode": "lines that this process has encoded",
    "streaming/engine/replay.py json.loads": "events that this process has encoded",
}

#: What each check finds in the tree today. Nothing may be added, and what was put right must be removed.
TODAY: dict[Check, list[str]] = {
    checks.imported_packages: [],
    checks.loaded_packages: [],
    checks.clocks_read: [],
    checks.bare_decodings: [*DECODED_ELSEWHERE],
    checks.long_modules: ["tests/state/conditions/test_scenarios.py"],
    checks.long_functions: [
        "state/output/envelope.py event_schema",
        "state/replay/offset_losses.py report_tombstones",
        "state/replay/modern_diff.py _emit_completed",
        "streaming/local/ivy.py retrieve",
        "tests/support/histories/builders.py _run",
    ],
    checks.endless_waits: [],
    # The first release writes it.
    checks.stale_paths: [],
}

LONG_MODULE = '"""A list."""\n' + "1\n" * 400
LONG_FUNCTION = '"""A function."""\ndef long():\n' + "    1\n" * 40
#: (check, planted files, what the check must find)
PLANTED: list[tuple[Check, dict[str, str], list[str]]] = [
    (
        checks.imported_packages,
        {
            "codecs/a.py": "def f():\n    import numpy.linalg",
            "state/deep/b.py": "from numpy import array; import click",
        },
        ["codecs/a.py imports numpy", "state/deep/b.py imports click"],
    ),
    (
        checks.loaded_packages,
        {"codecs/deep/__init__.py": "", "codecs/deep/a.py": "__import__('click')"},
        ["codecs loads click"],
    ),
    (
        checks.clocks_read,
        {"state/deep/a.py": "import time as t\nnow = t.monotonic"},
        ["state/deep/a.py reads time.monotonic"],
    ),
    (checks.clocks_read, {"state/a.py": "from time import time\ntime()"}, ["state/a.py reads time.time"]),
    (
        checks.clocks_read,
        {
            "codecs/a.py": "import datetime\nfrom datetime import datetime as dt\ndt.now(); datetime.date.today()"
        },
        ["codecs/a.py reads datetime.date.today", "codecs/a.py reads datetime.datetime.now"],
    ),
    (
        checks.bare_decodings,
        {
            "streaming/deep/a.py": "import json\nfrom msgspec.json import Decoder as D\n"
            "def f(x):\n    json.loads(x); D(int); x.decode(); x.decode('utf-8', 'replace')"
        },
        [
            "streaming/deep/a.py bytes.decode",
            "streaming/deep/a.py json.loads",
            "streaming/deep/a.py msgspec.json.Decoder",
        ],
    ),
    (checks.long_modules, {"benchmarks/a.py": LONG_MODULE}, ["benchmarks/a.py"]),
    (checks.long_functions, {"tests/support/deep/a.py": LONG_FUNCTION}, ["tests/support/deep/a.py long"]),
    (
        checks.endless_waits,
        {
            "tests/deep/a.py": "while not is_ready():\n    pass\n",
            "benchmarks/a.py": "while True:\n    while count() < 3:\n        time.sleep(1)\n    break\n",
            "tests/b.py": "while x := f():\n    g(x)\nwhile at < len(text):\n    at = next_of(at)\n",
        },
        ["tests/deep/a.py 1", "benchmarks/a.py 2"],
    ),
    (
        checks.stale_paths,
        {
            "docs/a.md": "[a](state/a.py) [b](https://x.org/state/b.py)",
            "state/deep/a.py": "# docs/a.md, docs/b.md",
        },
        ["docs/a.md names state/a.py", "state/deep/a.py names docs/b.md"],
    ),
]


@pytest.mark.parametrize(("check", "files", "found"), PLANTED)
def test_a_planted_offence_is_found(
    tmp_path: Path, check: Check, files: dict[str, str], found: list[str]
) -> None:
    """Nothing is found in a tree without offences; with the planted files, exactly these."""
    files_before = {f"{room}/__init__.py": "" for room in checks.ROOMS} | {"src/groupreplay/__init__.py": ""}
    _plant(tmp_path, files_before)
    assert check(tmp_path) == []
    _plant(tmp_path, files)
    assert check(tmp_path) == found


@pytest.mark.parametrize("check", TODAY, ids=lambda check: check.__name__)
def test_the_tree_keeps_the_rules(check: Check) -> None:
    """The check finds what is listed in ``TODAY``: no new offence, and no entry that is out of date."""
    found, listed = set(check(ROOT)), set(TODAY[check])
    assert {"new": found - listed, "put right, to be removed": listed - found} == {
        "new": set(),
        "put right, to be removed": set(),
    }


def test_every_test_has_a_deadline(pytestconfig: pytest.Config) -> None:
    """The default of pytest-timeout, in seconds, for what waits without one of its own; no test turns it off."""
    assert pytestconfig.getini("timeout") == "1200"
    endless = re.compile(r"mark\.timeout\((0|None)?\)")
    assert [one.path for one in checks.modules(ROOT, "tests") if endless.search(one.text)] == []


def test_every_check_is_shown_to_fail() -> None:
    """Each check that the tree passes has a planted offence."""
    assert {check for check, _, _ in PLANTED} == set(TODAY)


def _plant(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = checks.place(root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
