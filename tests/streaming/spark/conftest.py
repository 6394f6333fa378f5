"""Everything that touches Spark runs on each of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; pytest calls this with the tests of all folders."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.line)
