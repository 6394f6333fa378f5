"""What the simulated prober says of the settings of groups; its rounds and answers are in ``test_files.py``."""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.app.simulate.files import write_simulation
from groupreplay.coordinator.simulation import SCENARIOS, SimulationPlan
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.contract.probe_messages import GroupSettingsAnswer
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import CaptureSource
from groupreplay.streaming.sources.source import context_of, probe_messages


def test_groups_of_the_newer_protocol_have_set_nothing(tmp_path: Path) -> None:
    """Each is asked about in the round after its first record, so that no departure assumes its session."""
    path = tmp_path / "a.parquet"
    plan = SimulationPlan(scenario=SCENARIOS["kip848"], groups=6, duration_ms=1_800_000, seed=1, partitions=3)
    write_simulation(plan, path)
    messages = probe_messages(CaptureSource([path]).open().probes)
    answers = [message for message in messages if isinstance(message, GroupSettingsAnswer)]
    assert [answer.settings for answer in answers] == [{}] * len(answers)
    rows = CaptureSource([path]).open()
    replay = Replay(context_of(rows, RetentionFlags(), member_events=True))
    events = map(json.loads, events_in_order(replay.feed(rows), Filter(types={"groupreplay.member.left.v1"})))
    left = [event["data"] for event in events]
    newer = {data["group_id"] for data in left if data["group_type"] == "consumer"}
    assert newer
    assert newer <= {answer.group_id for answer in answers}
    assert [data["assumed"] for data in left] == [{}] * len(left)
