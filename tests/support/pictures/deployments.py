"""Groups that are deployed again and again, as the events of the job that watches them."""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.state.phrases import timestamp_ms
from support.job.captures import invoke, simulated_capture

SCENARIO = "rolling-restart-3-dynamic-eager"
GROUPS = (f"{SCENARIO}-000000", f"{SCENARIO}-000001")
RULES = """\
runbook = "https://docs.example.com/runbook.md"
[[group]]
match = '*-000001'
labels = { team = 'blue' }
"""


def rolled_capture(folder: Path) -> tuple[Path, Path]:
    """A capture of an hour of two such groups, and rules that give one of them to a team.

    Incremental rebalances would save a group standstill only if its members learn of a rebalance one after another:
    with this seed both groups have that advice, by seconds.
    """
    path, rules = folder / "rolled.parquet", folder / "rules.toml"
    rules.write_text(RULES)
    words = ("--groups", "2", "--seconds", "3600", "--seed", "2", "--scenario", SCENARIO)
    simulated_capture(path, *words)
    return path, rules


def rolled_events(folder: Path) -> tuple[list[bytes], int]:
    """The events, and a moment after the last one."""
    path, rules = rolled_capture(folder)
    told = invoke("replay", "--from-file", path, "--rules", rules, "-o", "jsonl").stdout.splitlines()
    events = [json.loads(line) for line in told]
    times = [timestamp_ms(event["time"]) or 0 for event in events]
    return [json.dumps(event, separators=(",", ":")).encode() for event in events], max(times) + 60_000
