"""Groups of every kind on brokers of three releases: what logs say of rebalances, and the records in a dialect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from groupreplay.state import Context
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures
from support.histories.redpanda import rewritten
from support.reasons.recorded import RELEASES, Told, told

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module", params=RELEASES)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Told]]:
    """The capture of a broker, and what is said of its rebalances."""
    folder = tmp_path_factory.mktemp("reasons")
    return folder / f"{request.param}.parquet", told(request.param, folder, turns=2)


def test_each_rebalance_has_the_reason_of_its_broker(recorded: tuple[Path, list[Told]]) -> None:
    """It is in the log, and what was done to the members."""
    _, rebalances = recorded
    assert [one for one in rebalances if not one.is_right] == []
    assert len(rebalances) > 10


def test_the_same_in_the_dialect_of_redpanda(recorded: tuple[Path, list[Told]]) -> None:
    """Each generation of a real broker, rewritten by the rules of the dialect, gives the same events to the byte."""
    capture, _ = recorded
    rows = read_captures([capture])
    context = Context(cluster_id=rows.cluster_id, era=rows.era, member_events=True)
    own = pa.Table.from_batches(rows.batches).to_pylist()
    other = rewritten([{**row} for row in own])
    assert own != other
    events = list[list[bytes]]()
    for content in (own, other):
        batches = [pa.RecordBatch.from_pylist(content, ROW_SCHEMA)]
        replay = Replay(context).feed(replace(rows, batches=iter(batches)))
        events.append([*events_in_order(replay, Filter())])
    assert events[0] == events[1]
    assert len(events[0]) > 20
