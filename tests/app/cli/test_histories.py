"""The log of commands that show what happened: one context for all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from groupreplay.app.cli.histories import opened_history
from groupreplay.app.cli.inputs import LogInput
from groupreplay.streaming.base.clock import UTC
from groupreplay.streaming.config.rules_file import RulesSource
from groupreplay.streaming.config.settings import RetentionFlags
from support.histories.builders import generation, member
from support.job.captures import raw, write_capture

AT = 1_767_225_600_000


def test_the_context_has_the_events_of_members(tmp_path: Path) -> None:
    """Whatever reads a history needs why members left, and the retention that the flags give."""
    path = write_capture(tmp_path / "a.parquet", raw([generation(1, member("a", (0,)), at=AT)]))
    flags = SimpleNamespace(
        log=LogInput(values={"from_file": [path]}),
        retention=RetentionFlags(retention_minutes=60, check_interval_ms=600_000, broker_release=None),
        rules=RulesSource(),
        zone=UTC,
    )
    with opened_history(flags) as (rows, context):
        assert (context.member_events, context.retention_ms) == (True, 3_600_000)
        assert sum(batch.num_rows for batch in rows.batches) == 1
