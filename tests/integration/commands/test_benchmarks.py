"""The benchmarks run and measure what they say, on a tiny scale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_everything_reads_the_whole_topic(tmp_path: Path) -> None:
    """Commits and rebalances alike: each contender in Spark, and the broker, counts every record there is."""
    result = tmp_path / "result.json"
    command = [sys.executable, ROOT / "benchmarks" / "bench.py", "--shape", "steady", "--shape", "churn"]
    command += ["--scale", "0.01", "--repeat", "1", "--log-partitions", "4", "--json", result]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for shape in json.loads(result.read_text()):
        wanted = {"connector", "count_rows", "count_packed", "job", "replay", "console", "broker_load"}
        assert {one["name"] for one in shape["measured"]} == wanted
        # Five groups of the second shape begin, each with two records more.
        assert shape["records"] == {"steady": 10 * 50 * 40, "churn": 100 + 5 * 2}[shape["shape"]["name"]]
        read = {one["name"]: one["details"][0]["records"] for one in shape["measured"] if one["details"]}
        assert read == dict.fromkeys(
            ("connector", "count_rows", "count_packed", "job", "broker_load"), shape["records"]
        )
        assert all(one["median_seconds"] > 0 for one in shape["measured"])
        assert f"{shape['shape']['name']}: {shape['records']:,} records" in done.stdout
