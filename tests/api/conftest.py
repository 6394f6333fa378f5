"""A capture for the tests of the Python face."""

from __future__ import annotations

from pathlib import Path

import pytest

import groupreplay


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated groups of all kinds, with a prober; alone in its folder, but for the true states."""
    path = tmp_path_factory.mktemp("api") / "mixed.parquet"
    groupreplay.simulate("mixed", path, groups=12, seconds=600)
    return path
