"""Executes the notebook of tables.

``PYTHONPATH=../docs python -m support.tables.tables_notebook``, run in the folder ``tests``, writes its outputs again.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import nbformat

from notebook_run import executed
from support.paths import ROOT
from support.tables.table_formats import FORMATS

NOTEBOOK: Final = ROOT / "docs" / "tables.ipynb"
#: The first cell starts a JVM, which takes minutes on a machine that does much else.
_SECONDS: Final = 1_000


def executed_tables() -> Any:
    """The notebook with the outputs of this installation, with the Delta Lake that docs/tables.md names."""
    arguments = FORMATS["delta"].submit_arguments()
    environment = {"PYSPARK_SUBMIT_ARGS": arguments, "PYSPARK_PYTHON": sys.executable}
    notebook = executed(NOTEBOOK, environment, _SECONDS)
    for cell in notebook.cells:
        # What Spark prints on stderr is that of a machine.
        shown = [output for output in cell.get("outputs", ()) if output.output_type != "stream"]
        if cell.cell_type == "code":
            cell.outputs = shown
    return notebook


if __name__ == "__main__":
    nbformat.write(executed_tables(), NOTEBOOK)
