"""What reading commands read, and up to when it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from groupreplay.app.cli import inputs
from groupreplay.app.cli.flags import ClusterFlags, ProbesFlags
from groupreplay.app.cli.table_flags import TableFlags
from groupreplay.app.inspection.capture_file import read_captures
from groupreplay.app.inspection.capture_files.context import CaptureContext
from groupreplay.app.inspection.groups import live_groups
from groupreplay.app.text.times import given_time
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.time_zones import UTC
from groupreplay.streaming.config.rules_file import RulesSource
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import Rows
from support.histories.modern_builders import handover
from support.job.captures import raw, write_capture

AT = 1_767_225_600_000
WEEK = RetentionFlags(retention_minutes=10_080, check_interval_ms=600_000, broker_release=(3, 9))
NO_PROBES = ProbesFlags("group-probes", ClusterFlags(), asked_for=False)


class Answering:
    """A cluster that names its topics."""

    def topic_names(self) -> Mapping[str, str]:
        """One topic."""
        return {"id-1": "orders"}

    def broker_settings(self, wanted: object) -> Mapping[str, str]:
        """Nothing."""
        return {}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Member ``a`` has been asked to give up a partition; nothing was written since."""
    return write_capture(tmp_path / "a.parquet", raw(handover(AT)))


def conditions(capture: Path, until_ms: int | None = None) -> list[Any]:
    """The names of the conditions that hold at the end of what is read."""
    query = inputs.GroupsQuery(
        log=inputs.LogInput(from_file=[capture], source=ClusterFlags(), probes=NO_PROBES),
        retention=WEEK,
        types=(),
        with_lag=False,
        at=None if until_ms is None else given_time(str(until_ms)),
        zone=UTC,
        fail_on=(),
        rules=RulesSource(),
        output="table",
        table=TableFlags(),
    )
    with inputs.replaying(query, query.at_range()) as (replay, rows):
        (group,) = live_groups(replay, rows)
    return [one["condition"] for one in group["conditions"]]


def test_a_capture_is_known_up_to_its_last_record(capture: Path) -> None:
    """Nobody knows what was written after that."""
    assert conditions(capture) == conditions(capture, AT + 3_600_000) == []


def test_a_capture_is_known_up_to_the_time_it_was_taken(tmp_path: Path) -> None:
    """Its context has the time: the same conditions as on the live topic then."""
    taken = write_capture(
        tmp_path / "b.parquet", raw(handover(AT)), context=CaptureContext(complete_ms=AT + 90_000)
    )
    assert conditions(taken) == ["rebalance.slow"]
    assert conditions(taken, AT + 3_000) == []


def test_a_live_topic_is_known_up_to_now(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is stuck writes nothing: what waits for time to pass shows all the same; or at the time asked for."""

    def live(*_: object, **__: object) -> Rows:
        rows = read_captures([capture])
        return replace(rows, connection=cast(Connection, Answering()), complete_ms=now_ms())

    monkeypatch.setattr(inputs, "open_rows", live)
    assert "rebalance.stuck" in conditions(capture)
    assert conditions(capture, AT + 90_000) == ["rebalance.slow"]
    assert conditions(capture, AT + 3_000) == []


def test_names_of_topics(capture: Path) -> None:
    """From the cluster where there is one, else from the capture."""
    rows = read_captures([capture])
    assert inputs.context_of(rows, retention=WEEK).topic_names == rows.topic_names
    live = replace(rows, connection=cast(Connection, Answering()))
    assert inputs.context_of(live, retention=WEEK).topic_names == {"id-1": "orders"}
