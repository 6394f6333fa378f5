"""Why a member left, as docs/reading.md shows it: the program says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest

from groupreplay.state.events.event import LeaveReason
from support.job.captures import invoke, printed_by
from support.paths import ROOT

SECTION = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8").partition("## Why a member left\n")[2]
SECTION = SECTION.partition("\n## ")[0]
LINES = re.findall(r"```text\n(.*?)\n```", SECTION)
FLAGS = re.findall(r"`(--broker-property) ([\w.=]+)`", SECTION)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of the groups of the page; that of the KIP-848 group says nothing about its brokers."""
    folder = tmp_path_factory.mktemp("night")
    for scenario in ("timeouts", "kip848"):
        flags = ("--groups", 1, "--seconds", 600, "-o", folder / f"{scenario}.parquet")
        printed_by("simulate", "--scenario", scenario, *flags)
    path = folder / "kip848.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    return folder


def left(night: Path, scenario: str, *flags: str) -> list[str]:
    """The lines, or with -o jsonl the events, of members that left."""
    capture = night / f"{scenario}.parquet"
    return invoke(
        "replay", "--from-file", capture, "--member-events", "--type", "member.left", *flags
    ).stdout.splitlines()


def test_the_lines(night: Path) -> None:
    """Of a client that does not poll, of an assumption, and of the same with the flags of the page."""
    poll, assumed, given = LINES
    assert poll in left(night, "timeouts")
    assert assumed in left(night, "kip848")
    flags = [word for one in FLAGS for word in one]
    assert (len(FLAGS), given in left(night, "kip848", *flags)) == (3, True)


def test_the_candidates(night: Path) -> None:
    """The block is the field of the event."""
    (shown,) = re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)
    events = [json.loads(line)["data"] for line in left(night, "kip848", "-o", "jsonl")]
    (found,) = [one for one in events if one["reason"] == "unknown"]
    assert json.loads(shown) == found["candidates"]
    assert found["assumed"] == {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}


def test_every_reason_is_explained() -> None:
    """But the one that only earlier releases wrote."""
    head, *reasons = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)
    assert (head, {*reasons}) == ("reason", {*get_args(LeaveReason)} - {"group_emptied"})
