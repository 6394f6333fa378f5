"""Code that each Python process runs before anything else."""

from __future__ import annotations

import os
from pathlib import Path


def python_path(folder: Path, code: str) -> str:
    """``PYTHONPATH`` with which Python processes run this code first; it is written into the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code)
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
