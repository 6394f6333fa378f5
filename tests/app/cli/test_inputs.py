"""What reading commands read, and up to when it is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from groupreplay.app.cli import inputs
from groupreplay.app.cli.cluster_flags import ClusterFlags, ProbesFlags
from groupreplay.app.cli.table_flags import TableFlags
from groupreplay.app.inspection.capture_file import read_captures
from groupreplay.app.inspection.capture_files.context import CaptureContext
from groupreplay.app.inspection.groups import live_groups
from groupreplay.app.text.given_time import given_time
from groupreplay.streaming.base.clock import UTC, now_ms
from groupreplay.streaming.config.rules_file import RulesSource
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import Rows
from support.histories.group_writer import GroupWriter
from support.histories.modern_builders import handover
from support.job.captures import invoke, raw, write_capture

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


LIVED = "group.consumer.session.timeout.ms"
BEAT = "group.consumer.heartbeat.interval.ms"
SHOWN = (
    ("replay", "-o", "jsonl", "--member-events"),
    ("replay", "-o", "table"),
    ("describe", "--history", "--group", "g"),
    ("timeline", "--group", "g"),
)


@pytest.mark.parametrize("words", SHOWN)
@pytest.mark.parametrize(
    ("properties", "assumed", "named"),
    [
        ((), {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}, {LIVED, BEAT}),
        ((f"{LIVED}=60000",), {"heartbeat_interval_ms": 5_000}, {BEAT}),
        ((f"{LIVED}=60000", f"{BEAT}=3000"), {}, set()),
    ],
)
def test_assumed_sessions(
    tmp_path: Path,
    words: tuple[str, ...],
    properties: tuple[str, ...],
    assumed: dict[str, int],
    named: set[str],
) -> None:
    """Where something that is shown rests on them: in one line on stderr, with the flags that end it; not otherwise."""
    life = GroupWriter()
    life.join("a")
    life.join("b")
    life.settle()
    capture = write_capture(tmp_path / "a.parquet", raw(life.log))
    command, *flags = words
    before = invoke(command, "--from-file", capture, *flags)
    assert (before.exit_code, "sessions of" in before.stderr) == (0, False)
    life.leave("b")
    life.settle()
    write_capture(capture, raw(life.log))
    given = [word for one in properties for word in ("--broker-property", one)]
    result = invoke(command, "--from-file", capture, *flags, *given)
    assert result.exit_code == 0, result.output
    line = result.stderr.replace("=MS", "")
    assert {one for one in (LIVED, BEAT) if one in line} == named
    assert ("sessions of consumer groups last 45.0 s" in line) == (LIVED in named)
    if "jsonl" in words:
        events = [json.loads(text) for text in result.stdout.splitlines()]
        last = {
            event["type"].split(".", 1)[1]: event["data"]["assumed"]
            for event in events
            if "assumed" in event["data"]
        }
        assert last == {"member.left.v1": assumed, "rebalance.completed.v1": assumed}
