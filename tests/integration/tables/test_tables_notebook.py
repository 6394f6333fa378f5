"""``docs/tables.ipynb``: it runs from the first cell to the last, with the outputs that stand there."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from support.tables.table_formats import FORMATS, LINE
from support.tables.tables_notebook import NOTEBOOK, executed_tables

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(LINE not in FORMATS["delta"].lines, reason=f"no Delta Lake for Spark {LINE}"),
]


def outputs(notebook: Any) -> list[list[str]]:
    """The frames that each cell shows as text; the warnings of Spark on stderr are those of a machine."""
    return [
        [output["data"]["text/plain"] for output in cell.get("outputs", ()) if "data" in output]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_notebook_has_its_real_outputs() -> None:
    """A table of Delta Lake from a capture, asked by SQL, merged with what it has, and read without Spark."""
    stored = outputs(nbformat.read(NOTEBOOK, as_version=4))
    assert [len(cell) for cell in stored] == [0, 1, 1, 1]
    assert outputs(executed_tables()) == stored
