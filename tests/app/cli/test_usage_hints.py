"""Mistakes of newcomers, and what they are told to type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode
from support.job.captures import invoke


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
        ("export", ["Error: No such command 'export': it is 'serve --metrics-only' now."]),
        ("simulat", ["Error: No such command 'simulat'. Did you mean simulate?"]),
        ("xyzzy", ["Error: No such command 'xyzzy'."]),
        ("-x", ["Error: No such option '-x'."]),
    ],
)
def test_hints(words: str, lines: list[str], tmp_path: Path) -> None:
    """Below the usage of the command; nothing is guessed where nothing is likely."""
    (tmp_path / "a.parquet").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-m", "groupreplay", *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    # Other releases of click put other quotes around names.
    assert done.stderr.replace('"', "'").splitlines()[3:] == lines


def test_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no effect, which is said; a right one, one of Kubernetes and one of another program are left alone."""
    for name in ("GROUPREPLAY_BOOTSTRAP_SERVR", "GROUPREPLAY_PORT_9408_TCP_ADDR", "GROUPREPLAY_SERVICE_HOST"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("GROUPREPLAY_CHECKPOINT", "x")
    result = invoke("coordinator", "g")
    assert [line for line in result.stderr.splitlines() if "GROUPREPLAY" in line] == [
        "warning: GROUPREPLAY_BOOTSTRAP_SERVR has no effect: did you mean GROUPREPLAY_BOOTSTRAP_SERVER?"
    ]
