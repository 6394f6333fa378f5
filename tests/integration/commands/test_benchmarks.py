"""The benchmarks run and measure what they say, on a tiny scale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


def test_everything_reads_the_whole_topic(tmp_path: Path) -> None:
    """Commits and rebalances alike: each contender in Spark, and the broker, counts every record there is."""
    result = tmp_path / "result.json"
    command = [sys.executable, ROOT / "benchmarks" / "bench.py", "--shape", "steady", "--shape", "churn"]
    command += ["--factor", "0.01", "--repeat", "1", "--log-partitions", "4", "--json", result]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for shape in json.loads(result.read_text()):
        counted = ("connector", "count_rows", "count_packed", "job", "job_connector", "broker_load")
        assert {one["name"] for one in shape["measured"]} == {*counted, "replay", "console"}
        # Five groups of the second shape begin, each with two records more.
        assert shape["records"] == {"steady": 10 * 50 * 40, "churn": 100 + 5 * 2}[shape["shape"]["name"]]
        read = {one["name"]: one["details"][0]["records"] for one in shape["measured"] if one["details"]}
        assert read == dict.fromkeys(counted, shape["records"])
        assert all(one["median_seconds"] > 0 for one in shape["measured"])
        assert f"{shape['shape']['name']}: {shape['records']:,} records" in done.stdout


def test_a_cluster_beside_one_machine() -> None:
    """Each way to read the log has a row with its CPU time, and the ratio to one machine."""
    command = [sys.executable, ROOT / "benchmarks" / "spark_cluster.py", "--scale", "0.005"]
    command += ["--warm-up", "1", "--repeat", "1"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[4:]]
    assert [row[0] for row in rows] == [
        "`local[2]`",
        "two workers, our daemon",
        "two workers, Spark's own daemon",
    ]
    assert all(float(row[1]) > 0 for row in rows)
    assert rows[0][3] == "1.00"
