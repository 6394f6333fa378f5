"""What Spark counts of the rows that go to the sink."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import CONTEXT, commit, no_offset, replay
from spark_sessions import small_session

from groupreplay.state.envelope import cloud_event
from groupreplay.state.rules import GroupRule, Policy
from groupreplay.streaming.query import OUTPUT_SCHEMA, counters
from groupreplay.streaming.settings import TopicNames
from groupreplay.streaming.step import _headers_text

MINUTE = 60_000


@pytest.mark.spark
def test_losses_that_nobody_has_to_be_told() -> None:
    """Events about expired offsets, as information; a warning, another event and a document are none."""
    topics = TopicNames()
    rows = [(topics.states, b"g", b'{"severitynumber":9,}', None), (topics.states, b"g", None, None)]
    for matters in (True, False):
        policy = Policy(groups=(GroupRule(groups="*", matters=matters),))
        context = replace(CONTEXT, retention_ms=MINUTE, policy=policy)
        _, events = replay([commit("t", 0, 5, at=1), no_offset("t", 0, at=2 * MINUTE)], context)
        for event in events:
            message = cloud_event(event, context, event.time_ms)
            rows.append((topics.events, b"g", message.value, _headers_text(message.headers)))
    (counted,) = small_session().createDataFrame(rows, OUTPUT_SCHEMA).agg(*counters(topics)).collect()
    expected = {"events": len(rows) - 2, "states": 2, "dead_letters": 0, "job": 0, "unmissed_expired": 1}
    assert counted.asDict() == expected
    assert len(rows) > 4
