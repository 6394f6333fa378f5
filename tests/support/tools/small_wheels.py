"""Small wheels in a folder that pip uses in place of a package index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest


def small_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with these requirements and files, by default one module."""
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    content = {
        **({f"{name}.py": f"VERSION = {version!r}\n"} if files is None else files),
        f"{info}/METADATA": "\n".join([*lines, *(f"Requires-Dist: {one}" for one in requires), ""]),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    path = folder / f"{name}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in content.items():
            archive.writestr(place, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{place},,\n" for place in content))
    return path


def no_index(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From now on pip finds these wheels and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
