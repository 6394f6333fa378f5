"""Words for what Spark keeps in a checkpoint, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def spark_files(folder: Path, *, planned: Sequence[int], finished: Sequence[int]) -> None:
    """What Spark leaves behind these batches."""
    offsets = 'v1\n{"batchWatermarkMs":0}\n{"__consumer_offsets":{"0":1}}\n-'
    for name, numbers, text in (("offsets", planned, offsets), ("commits", finished, 'v1\n{"nextBatch":0}')):
        (folder / name).mkdir()
        for number in numbers:
            (folder / name / str(number)).write_text(text)
    (folder / "state").mkdir()
    (folder / "metadata").write_text('{"id":"x"}')
