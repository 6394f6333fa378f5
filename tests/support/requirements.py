"""What pyproject.toml requires."""

from __future__ import annotations

import sys
from typing import Any

from packaging.requirements import Requirement

from support.paths import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def project_requirements(*extras: str) -> list[Requirement]:
    """The requirements of the package and of these extras."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in extras for text in project["optional-dependencies"][extra]),
    ]
    return [Requirement(text) for text in texts]
