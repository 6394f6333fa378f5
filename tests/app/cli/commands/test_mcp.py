"""``groupreplay mcp`` before it answers: what it cannot read is an error at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode
from support.job.captures import invoke


@pytest.mark.parametrize("flag", ["--from-file", "--from-log-dir"])
def test_an_input_that_is_not_there(tmp_path: Path, flag: str) -> None:
    """The error of every other command, in place of a server whose every answer is that error."""
    words = (flag, tmp_path / "missing.parquet")
    started, listed = invoke("mcp", *words), invoke("list", *words)
    assert (started.exit_code, started.stderr) == (ExitCode.DATA, listed.stderr)
    assert "missing.parquet" in started.stderr
