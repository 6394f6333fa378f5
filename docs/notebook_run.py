"""Executes the notebook of the docs: ``python docs/notebook_run.py`` writes its outputs again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

NOTEBOOK: Final = Path(__file__).with_name("python.ipynb")
_SECONDS: Final = 240


def executed(path: Path = NOTEBOOK) -> Any:
    """The notebook with the outputs of this installation; its files are written in a temporary folder."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="groupreplay-notebook-") as folder:
        client = NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": folder}})
        client.execute()
    # What differs from machine to machine.
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
