"""Executes a notebook of the docs: ``python docs/notebook_run.py`` writes the outputs of ``python.ipynb`` again.

``tables.ipynb`` needs jars of Delta Lake: ``tests/support/tables/tables_notebook.py`` has them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

NOTEBOOK: Final = Path(__file__).with_name("python.ipynb")
_SECONDS: Final = 240


def executed(
    path: Path = NOTEBOOK, environment: Mapping[str, str] | None = None, seconds: int = _SECONDS
) -> Any:
    """The notebook with the outputs of this installation; its files are written in a temporary folder.

    ``environment`` has variables of its kernel, beside those of this process; ``seconds`` is the limit of each cell.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="groupreplay-notebook-") as folder:
        client = NotebookClient(notebook, timeout=seconds, resources={"metadata": {"path": folder}})
        client.execute(env={**os.environ, **(environment or {})})
    # What differs from machine to machine.
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
