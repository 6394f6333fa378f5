"""A first start on a long log: a group that is active does not wait for those at rest, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="data sources that bound a batch: Spark 4.2")

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories.builders import Raw, commit, generation, member
from support.job.jobs import RunningJob, comparable, interleaved, topic_names, write_log
from support.job.replays import named, replayed_log

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 4
GROUPS = 600
HOUR_MS = 3_600_000
#: Offsets of a batch: those of the groups at rest take thirty batches.
LIMIT = 40


class LongLogJob(RunningJob):
    """A job for which a hundred offsets are a long log."""

    program = (
        "-c",
        "from groupreplay.streaming.spark import preflight; from groupreplay.app.cli.program import main; "
        "preflight._LONG_LOG = 100; main()",
    )

    def last_offsets(self) -> dict[str, dict[str, int]]:
        """Those of the last batch that was begun; empty before the first."""
        files = sorted(self.checkpoint.glob("offsets/[0-9]*"), key=lambda file: int(file.name))
        lines = files[-1].read_text().splitlines() if files else []
        return next((json.loads(line) for line in lines if OFFSETS_TOPIC in line), {})


def rebalanced(number: int, at: int = 0) -> list[Raw]:
    """A generation of two members, and a commit."""
    members = member("a", [0]), member("b", [1])
    return [generation(number, *members, at=at), commit("t", 0, number, at=at + 1)]


def test_an_active_group_does_not_wait(tmp_path: Path) -> None:
    """Its rebalances are reported while most of the log is unread, also after a kill there.

    In the end the job has emitted what a replay of the log finds, for all groups.
    """
    resting = {f"resting-{number:03}": rebalanced(1) for number in range(GROUPS)}
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers

        def write(histories: dict[str, list[Raw]], start_ms: int) -> None:
            write_log(server, interleaved(histories, PARTITIONS, start_ms), PARTITIONS)

        write({**resting, "live": rebalanced(1)}, now_ms() - HOUR_MS)
        write({"live": rebalanced(2)}, now_ms())
        flags = ("--backfill-events", "--no-probe", "--max-offsets-per-trigger", str(LIMIT))
        job = LongLogJob(server, tmp_path / "checkpoint", topic_names("active"), *flags)
        try:
            for number in (3, 4):
                write({"live": rebalanced(number)}, now_ms())
                job.wait_until(lambda: number in reported(job))  # noqa: B023
                assert job.last_offsets().keys() == {OFFSETS_TOPIC, "ahead", "aheadTo", "activeGroups"}
                job.kill()
                job.restart()
            job.wait_caught_up()
            events = {name: comparable(event) for name, event in job.events().items()}
            assert job.last_offsets().keys() == {OFFSETS_TOPIC}
            assert job.stop() == 143
        finally:
            job.process.end(0)
        expected = {event["id"]: comparable(event) for event in replayed_log(server)[0]}
    assert len(expected) > GROUPS
    assert {name: event for name, event in events.items() if name in expected} == expected


def reported(job: LongLogJob) -> list[int]:
    """The generations of the active group."""
    return [
        event["data"]["generation"]
        for event in named([*job.events().values()], "rebalance.completed", "live")
    ]
