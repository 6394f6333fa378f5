"""Rows of ``step`` as messages of Kafka."""

from __future__ import annotations

import json

import pytest

from groupreplay.streaming.spark.operator import OUTPUT_SCHEMA
from groupreplay.streaming.spark.sink import messages
from support.job.spark_sessions import small_session


@pytest.mark.spark
def test_headers_become_binary_pairs() -> None:
    """In their order, in any language; a row without headers has none, a tombstone stays one."""
    headers = {"content-type": "application/cloudevents+json", "ce_subject": "grüße \u0001"}
    rows = [("t", b"k", b"v", json.dumps(headers), "x", 9), ("t", b"k", None, None, None, None)]
    event, tombstone = messages(small_session().createDataFrame(rows, OUTPUT_SCHEMA)).collect()
    assert (event.topic, bytes(event.key), bytes(event.value)) == ("t", b"k", b"v")
    assert [(one.key, bytes(one.value).decode()) for one in event.headers] == list(headers.items())
    assert (tombstone.value, tombstone.headers) == (None, None)
