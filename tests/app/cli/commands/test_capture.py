"""``groupreplay capture`` on the command line; with a broker in tests/integration/commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.inspection import capture as module
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.sources.topic import ProbesPlace
from support.job.captures import invoke


@pytest.mark.parametrize(
    ("words", "probes"),
    [
        ([], ProbesPlace(Cluster(bootstrap_servers="h:1"), "group-probes", asked_for=False)),
        (["--probes-topic", "p"], ProbesPlace(Cluster(bootstrap_servers="h:1"), "p")),
        (["--sink-bootstrap-server", "s:1"], ProbesPlace(Cluster(bootstrap_servers="s:1"), "group-probes")),
    ],
)
def test_flags(monkeypatch: pytest.MonkeyPatch, words: list[str], probes: ProbesPlace) -> None:
    """The probes topic must exist only if a flag names it or its cluster."""
    calls: list[object] = []

    def capture(plan: module.CapturePlan, **_: Any) -> int:
        calls.append(plan)
        return 1_234

    monkeypatch.setattr(module, "capture", capture)
    result = invoke("capture", "--bootstrap-server", "h:1", "-o", "x.parquet", "--duration", "2", *words)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1,234 records in x.parquet\n")
    cluster = Cluster(bootstrap_servers="h:1")
    assert calls == [
        module.CapturePlan(cluster=cluster, path=Path("x.parquet"), probes=probes, follow_seconds=2.0)
    ]
