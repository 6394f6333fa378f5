"""The command ``simulate``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from groupreplay.app.cli.program import cli
from groupreplay.coordinator.simulation.scenarios import SCENARIOS


def test_a_capture_and_its_truth(tmp_path: Path) -> None:
    """Both files, said on stderr; the capture is one that list reads."""
    path = tmp_path / "a.parquet"
    flags = ["--groups", "3", "--seconds", "120", "--scenario", "stuck", "--probe-interval", "0"]
    run = CliRunner().invoke(cli, ["simulate", *flags, "-o", str(path)])
    assert (run.exit_code, run.stdout) == (0, "")
    assert str(tmp_path / "a.truth.jsonl") in run.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.parquet", "a.truth.jsonl"]
    listed = CliRunner().invoke(cli, ["list", "--from-file", str(path), "-o", "csv"])
    assert [line.split(",")[0] for line in listed.stdout.splitlines()[1:]] == [
        "stuck-000000",
        "stuck-000001",
        "stuck-000002",
    ]


def test_a_trace(tmp_path: Path) -> None:
    """A third file beside the capture."""
    flags = ["--groups", "1", "--seconds", "60", "--scenario", "storm", "--trace"]
    run = CliRunner().invoke(cli, ["simulate", *flags, "-o", str(tmp_path / "a.parquet")])
    assert (run.exit_code, run.stdout) == (0, "")
    assert str(tmp_path / "a.trace.jsonl") in run.stderr
    assert '"kind":"rebalance"' in (tmp_path / "a.trace.jsonl").read_text()


def test_there_is_one_place_to_write_to() -> None:
    """Neither none nor two."""
    for flags in ([], ["-o", "a.parquet", "--to-topic", "t"]):
        run = CliRunner().invoke(cli, ["simulate", *flags])
        assert run.exit_code == 2
        assert "either -o FILE or --to-topic NAME" in run.stderr


def simulated(folder: Path, *flags: str) -> bytes:
    """The true states that are written with these flags."""
    path = folder / "a.parquet"
    run = CliRunner().invoke(
        cli,
        [
            "simulate",
            "--groups",
            "2",
            "--seconds",
            "60",
            "--probe-interval",
            "0",
            "--force",
            *flags,
            "-o",
            str(path),
        ],
    )
    assert (run.exit_code, run.stdout) == (0, ""), run.stderr
    return path.with_suffix(".truth.jsonl").read_bytes() + path.read_bytes()


def test_the_scenarios_are_listed() -> None:
    """Name and title of each."""
    listed = CliRunner().invoke(cli, ["simulate", "--list"])
    lines = listed.stdout.splitlines()
    assert (listed.exit_code, [line.split()[0] for line in lines]) == (0, list(SCENARIOS))
    assert "storm                                   A member is restarted about every 25 seconds" in lines


def test_a_seed_decides(tmp_path: Path) -> None:
    """Groups have the scenario's name, and the same seed gives the same bytes."""
    here = ["--scenario", "storm"]
    files = simulated(tmp_path, *here)
    assert b"storm-000001" in files
    assert simulated(tmp_path, *here) == files
    assert simulated(tmp_path, *here, "--seed", "1") != files


def test_settings_of_brokers_and_clients(tmp_path: Path) -> None:
    """A flag wins over the scenario; the defaults change nothing; the short flags are the same as the long ones."""
    here = ["--scenario", "resubscribed"]
    plain = simulated(tmp_path, *here)
    assert simulated(tmp_path, *here, "--broker-property", "offsets.retention.minutes=5") == plain
    assert simulated(tmp_path, *here, "--broker-property", "group.max.size=1") != plain
    assert simulated(tmp_path, *here, "--client-property", "session.timeout.ms=45000") == plain
    assert simulated(tmp_path, *here, "--client-property", "session.timeout.ms=11000") != plain
    long = simulated(tmp_path, *here, "--broker-property", "offsets.topic.num.partitions=3")
    assert simulated(tmp_path, *here, "--partitions", "3") == long != plain
    long = simulated(tmp_path, *here, "--broker-property", "offsets.retention.minutes=7")
    assert simulated(tmp_path, *here, "--retention-minutes", "7") == long != plain


@pytest.mark.parametrize(
    ("flags", "sentences"),
    [
        (["--scenario", "storn"], ["there is no scenario 'storn'", "did you mean storm?"]),
        (
            ["--scenario", "my.toml"],
            ["there is no scenario 'my.toml'", "simulate one of your own from Python"],
        ),
        (["--broker-property", "group.max.sise=2"], ["unknown setting", "did you mean group.max.size?"]),
        (
            ["--broker-property", "group.max.size=0"],
            ["group.max.size must be a whole number, 1 or more, not 0"],
        ),
        (
            ["--client-property", "group.protocol=x"],
            ["group.protocol must be one of classic, consumer, not x"],
        ),
        (["--broker-property", "group.max.size"], ["is not KEY=VALUE"]),
        (
            ["--client-property", "heartbeat.interval.ms=45000"],
            [
                "heartbeat.interval.ms = 45000 must be less than session.timeout.ms = 45000",
                "--client-property",
            ],
        ),
        (
            ["--broker-property", "group.max.session.timeout.ms=1"],
            ["group.min.session.timeout.ms = 6000 must be at most", "--broker-property"],
        ),
    ],
)
def test_a_setting_or_scenario_that_is_refused(
    tmp_path: Path, flags: list[str], sentences: list[str]
) -> None:
    """With exit code 2, before anything is written."""
    run = CliRunner().invoke(cli, ["simulate", *flags, "-o", str(tmp_path / "a.parquet")])
    assert (run.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert [sentence for sentence in sentences if sentence not in run.stderr] == []
