"""Whatever clients wrote into the log, there is a document, a page and a picture of each group."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from py_mini_racer import MiniRacer

from groupreplay.app.report.assets import PICTURE_SCRIPTS, asset
from groupreplay.app.report.overview import all_strips
from groupreplay.app.report.page import data_island
from groupreplay.app.report.timelines import TimelineQuery, group_timelines
from groupreplay.state import Context
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.timeline.document import timeline_schema
from support.job.captures import CLUSTER_ID, ERA, write_capture
from support.pictures.timelines import SOURCE
from support.tools.hostile import history

CONTEXT = Context(cluster_id=CLUSTER_ID, era=ERA, member_events=True)
DRAW = "(d => {{ const one = Picture.draw(d, Picture.firstView(d, 1300)); return one.dropped; }})({})"


@pytest.mark.parametrize("seed", range(16))
def test_every_group_is_drawn(seed: int, tmp_path: Path) -> None:
    """Malformed records, impossible times, strange names: the document fits its schema and the script draws it."""
    rows = [one for batch in history(seed, brief=seed % 2 == 0) for one in batch.log]
    capture = write_capture(tmp_path / "hostile.parquet", rows)
    groups = [one.group_id for one in all_strips(read_captures([capture]), CONTEXT, None, None, None).strips]
    found, _ = group_timelines(read_captures([capture]), CONTEXT, TimelineQuery(groups=groups, source=SOURCE))
    schema, engine = jsonschema.Draft202012Validator(timeline_schema()), MiniRacer()
    for name in PICTURE_SCRIPTS:
        engine.eval(f"{asset(name)};0")
    for document in found:
        schema.validate(json.loads(msgspec.json.encode(document)))
        assert engine.eval(DRAW.format(data_island(document))) == 0
    assert {one.group_id for one in found} == set(groups)
