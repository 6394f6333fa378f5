"""The command ``simulate``."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from groupreplay.streaming.cli.program import cli


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
