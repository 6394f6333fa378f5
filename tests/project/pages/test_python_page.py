"""``docs/python.md`` and ``docs/python.ipynb``: every example runs, with the outputs that stand there."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

import groupreplay
from groupreplay.api.sources import open_log
from notebook_run import NOTEBOOK, executed
from support.job.spark_sessions import small_session
from support.kafka.clients import make_topics, new_consumer
from support.kafka.waiting import wait_until
from support.paths import ROOT

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text("utf-8"), re.M | re.S)
SESSIONS = [block for block in BLOCKS if block.startswith(">>>")]
BATCH, STREAM = [block for block in BLOCKS if not block.startswith(">>>")]


def test_the_examples_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, in one interpreter."""
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_doctest("\n".join(SESSIONS), {}, "python.md", None, 0)
    result = doctest.DocTestRunner().run(examples)
    assert (result.failed, result.attempted > 5) == (0, True)


def outputs(notebook: Any) -> list[list[str]]:
    """The text of each cell's outputs; pictures are those of another engine on another machine."""
    return [
        [output["data"]["text/plain"] for output in cell.get("outputs", ())]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_notebook_has_its_real_outputs() -> None:
    """It runs from the first cell to the last, and gives the text that is stored."""
    stored = nbformat.read(NOTEBOOK, as_version=4)
    assert outputs(executed()) == outputs(stored)
    assert "image/svg+xml" in stored.cells[-1].outputs[0]["data"]


@pytest.mark.spark
def test_the_batch_writes_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the events of ``replay`` on the same capture."""
    monkeypatch.chdir(tmp_path)
    groupreplay.simulate("deployment", "tuesday.parquet", groups=3, seconds=7200, probe_interval=0)
    spark = small_session()
    exec(BATCH.replace('"tuesday.parquet"', f'"file://{tmp_path}/tuesday.parquet"'), {"spark": spark})
    ids = {row.event_id for row in spark.table("group_events").collect()}
    spark.sql("DROP TABLE group_events")
    assert ids == {event.id for event in groupreplay.replay("tuesday.parquet")}


@pytest.mark.broker
@pytest.mark.spark
def test_the_stream_writes_a_table(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The table gets the events of a group that joins while the query runs, with the ids of ``replay``."""
    servers, name, group = broker.bootstrap_servers, unique("input"), unique("group")
    make_topics(servers, {name: 1})
    opened = open_log(groupreplay.topic(servers), None, None)
    text = STREAM.replace("broker:9092", servers).replace("range(50)", f"range({opened.rows.partitions})")
    text = text.replace('"checkpoint")', f'"{tmp_path}")').replace('"10 seconds"', '"1 second"')
    text = text.replace('"my-cluster"', f'"{opened.rows.cluster_id}", topic_id="{opened.rows.era}"')
    spark = small_session()
    running: dict[str, Any] = {"spark": spark, "group_events": groupreplay.spark.group_events}
    exec(text, running)
    try:
        consumer = new_consumer(servers, group, name, heartbeat_interval_ms=200)
        wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 1)
        consumer.close()

        def ids() -> set[str]:
            return {
                row.event_id for row in spark.table("live_group_events").collect() if row.group_id == group
            }

        def expected() -> set[str]:
            events = list(groupreplay.replay(groupreplay.topic(servers), group=group))
            return {event.id for event in events if event.data["cause"] is not None}

        wait_until(lambda: len(ids()) >= 3 and ids() >= expected(), seconds=120)
        assert running["query"].exception() is None
    finally:
        running["query"].stop()
        spark.sql("DROP TABLE live_group_events")
