"""The examples in the docstrings of the Python face."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import groupreplay

MODULES = ("reading", "sources")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each module has examples, and they print what stands there, beside the capture that the package names."""
    monkeypatch.chdir(tmp_path)
    groupreplay.simulate("deployment", "tuesday.parquet", groups=3, seconds=7200)
    result = doctest.testmod(import_module(f"groupreplay.api.{name}"), optionflags=doctest.FAIL_FAST)
    assert result.attempted > 0
    assert result.failed == 0
