"""``groupreplay schema`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.coordinator.trace_entries import trace_schema
from groupreplay.state.output.schemas import EVENTS, json_schemas
from support.job.captures import invoke


def test_schema(tmp_path: Path) -> None:
    """All schemas by name, one of them alone, or a file for each."""
    names = [fact.NAME for fact in EVENTS]
    everything = json.loads(invoke("schema").stdout)
    assert (list(everything), everything) == (names, json_schemas())
    assert json.loads(invoke("schema", "group.created").stdout) == everything["group.created"]
    assert json.loads(invoke("schema", "trace-file").stdout) == trace_schema()
    result = invoke("schema", "-o", tmp_path / "schemas")
    assert result.stdout == ""
    written = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "schemas").iterdir()}
    assert written == everything
