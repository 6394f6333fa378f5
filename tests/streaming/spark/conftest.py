"""Everything that touches Spark runs on each of its lines."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from groupreplay.streaming.spark.internals import has_known_internals

FOLDER = Path(__file__).parent
#: It imports parts of PySpark's worker that a line later than the known ones may not have.
collect_ignore = [] if has_known_internals(pyspark.__version__) else ["internals/test_group_worker.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; pytest calls this with the tests of all folders."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.line)
