"""``groupreplay offsets-file`` on the command line; with Kafka's tool in tests/integration/remedies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupreplay.app.inspection.offsets_plan import TYPES
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.engine.replay import Filter
from groupreplay.streaming.sinks import event_topic
from groupreplay.streaming.sinks.event_topic import Wanted
from support.histories.builders import commit, gone, no_offset
from support.job.captures import invoke, raw, write_capture

AT = 1_767_225_600_000
WEEK_MS = 7 * 86_400_000


def test_from_a_capture(tmp_path: Path) -> None:
    """The file of an expiry, by the id that ``replay`` prints; the event on the terminal has the command."""
    life = [
        commit("t", 0, 5, at=AT),
        commit("t", 1, 7, at=AT),
        no_offset("t", 0, at=AT + WEEK_MS + 1_000),
        no_offset("t", 1, at=AT + WEEK_MS + 1_000),
        gone(at=AT + WEEK_MS + 1_000),
    ]
    capture = write_capture(tmp_path / "a.parquet", raw(life))
    words = ("replay", "--from-file", capture, "--type", "offsets.expired")
    (line,) = invoke(*words, "-o", "jsonl").stdout.splitlines()
    event_id = json.loads(line)["id"]
    assert f"groupreplay offsets-file {event_id}" in invoke(*words).stdout

    result = invoke("offsets-file", event_id, "--from-file", capture)
    assert (result.exit_code, result.stdout) == (0, "t,0,5\nt,1,7\n")
    assert result.stderr == "group: g\n"


def test_from_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a capture the job's own events are read; an unknown id is an error of the data."""
    opened: list[tuple[object, ...]] = []

    class Topic:
        def __init__(self, *arguments: object) -> None:
            opened.append(arguments)

        def read(self, *, follow: bool) -> Iterator[bytes]:
            assert not follow
            set_ = {"topic": "t", "partition": 0, "from_offset": None, "to_offset": 5}
            data = {"group_id": "g\x1b", "partitions": [set_], "partition_count": 1}
            yield json.dumps({"id": "e1", "type": "groupreplay.offsets.set.v1", "data": data}).encode()

    monkeypatch.setattr(event_topic, "EventTopic", Topic)
    result = invoke("offsets-file", "e1", "--bootstrap-server", "h:1", "--topic-prefix", "x-")
    note = r"group: g\u{1b}; left out, because no offset is known before the event: t-0"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{note}\n")
    wanted = Wanted(filter=Filter(types=TYPES))
    assert opened == [(Cluster(bootstrap_servers="h:1"), "x-group-events", wanted)]
    assert invoke("offsets-file", "e2", "--bootstrap-server", "h:1").exit_code == 5


def test_an_input_is_needed() -> None:
    """Without a capture and without a cluster there is nothing to read."""
    assert invoke("offsets-file", "e1", env={"GROUPREPLAY_BOOTSTRAP_SERVER": ""}).exit_code == 2
