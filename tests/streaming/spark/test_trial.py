"""The trial of a Spark that the job was not tested with."""

from __future__ import annotations

import pytest

from groupreplay.streaming.spark import trial
from support.job.spark_sessions import small_session


@pytest.mark.spark
def test_the_watermark_reaches_the_function() -> None:
    """On every line that is known; the trial leaves no query behind."""
    spark = small_session()
    assert trial.watermark_is_passed(spark)
    assert [one.name for one in spark.streams.active] == []


@pytest.mark.spark
@pytest.mark.long
def test_a_spark_that_passes_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the metadata of the column the function is told of no watermark, and no call fails."""
    from pyspark.sql import functions as sql

    monkeypatch.setattr(trial, "caught_up_ms", lambda: sql.unix_millis("caught_up").alias("caught_up_ms"))
    monkeypatch.setattr(trial, "_SECONDS", 15.0)
    assert not trial.watermark_is_passed(small_session())
