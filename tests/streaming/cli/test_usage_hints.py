"""Mistakes of newcomers, and what they are told to type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            "list a.parquet",
            [
                "Error: Got unexpected extra argument (a.parquet): a capture is given with --from-file a.parquet."
            ],
        ),
        (
            "describe payments --members",
            ["Error: Got unexpected extra argument (payments): a group is given with --group payments."],
        ),
        ("schema group.created b", ["Error: Got unexpected extra argument (b)."]),
        (
            "events --from-file a.parquet",
            [
                "Error: No such option '--from-file'.",
                "events reads what the job has written; the events of a capture: "
                "groupreplay replay --from-file FILE",
            ],
        ),
        ("run --nothing", ["Error: No such option '--nothing'."]),
        (
            "--from-file a.parquet list",
            [
                "Error: No such option '--from-file'.",
                "Flags of a command stand behind its name: groupreplay list --from-file ...",
            ],
        ),
        ("simulat", ["Error: No such command 'simulat'. Did you mean simulate?"]),
        ("xyzzy", ["Error: No such command 'xyzzy'."]),
        ("-x", ["Error: No such option '-x'."]),
    ],
)
def test_hints(words: str, lines: list[str], tmp_path: Path) -> None:
    """Below the usage of the command; nothing is guessed where nothing is likely."""
    (tmp_path / "a.parquet").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-m", "groupreplay.streaming", *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    # Other releases of click put other quotes around names.
    assert done.stderr.replace('"', "'").splitlines()[3:] == lines
