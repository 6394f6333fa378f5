"""Prometheus, Alertmanager and their tools: those of the machine, or Debian's packages unpacked without root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from groupreplay.streaming.base.files import cache_folder
from support.tools.go_programs import go_program

#: Where Debian's Alertmanager looks for its templates, and the same in the folder where the package was unpacked.
_INSTALLED, _BESIDE = b"/usr/share/prometheus/alertmanager", b"usr/share/prometheus//alertmanager"
#: Built where there is no package, which takes minutes.
_ALERTMANAGER = "github.com/prometheus/alertmanager/cmd/alertmanager@v0.28.1"
#: Program -> Debian's packages that may have it; promtool has one of its own in Debian sid.
_PACKAGES = {
    "prometheus": ("prometheus",),
    "promtool": ("prometheus", "promtool"),
    "amtool": ("prometheus-alertmanager",),
    "prometheus-alertmanager": ("prometheus-alertmanager",),
}


def prometheus_tool(name: str) -> str:
    """The path of one of these programs; skips the test if there is none."""
    found = shutil.which(name) or _unpacked(name)
    if found is None:
        pytest.skip(
            f"{name} is not on this machine and could not be fetched: install {' or '.join(_PACKAGES[name])}"
        )
    return found


def alertmanager() -> tuple[str, Path | None]:
    """The path of Alertmanager and the folder to start it in, None: any; skips the test without package and Go."""
    installed = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    if installed is not None:
        return installed, None
    package = _unpacked("prometheus-alertmanager")
    return (str(go_program(_ALERTMANAGER)), None) if package is None else _with_templates(Path(package))


def _with_templates(program: Path) -> tuple[str, Path]:
    """A copy of Debian's program that finds its templates from the folder where the package was unpacked."""
    changed = program.with_name("alertmanager-unpacked")
    if not changed.exists():
        content = program.read_bytes()
        assert _INSTALLED in content, f"{program} looks for its templates elsewhere"
        # Under a name of its own first: several tests may do so at once.
        with tempfile.NamedTemporaryFile(dir=program.parent, delete=False) as copy:
            copy.write(content.replace(_INSTALLED, _BESIDE))
        os.chmod(copy.name, 0o755)
        os.rename(copy.name, changed)
    return str(changed), program.parents[2]


def promtool(*words: object, stdin: bytes | None = None) -> str:
    """The output of promtool with these arguments; it must succeed."""
    return _output("promtool", *words, stdin=stdin)


def amtool(*words: object) -> str:
    """The output of amtool with these arguments; it must succeed."""
    return _output("amtool", *words)


def _output(name: str, *words: object, stdin: bytes | None = None) -> str:
    command = [prometheus_tool(name), *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, output
    return output


@cache
def _unpacked(name: str) -> str | None:
    for package in _PACKAGES[name]:
        folder = cache_folder() / package
        program = folder / "usr" / "bin" / name
        if (folder.exists() or _unpack(package, folder)) and program.exists():
            return str(program)
    return None


def _unpack(package: str, folder: Path) -> bool:
    """Downloads and unpacks the package to a temporary folder, then renames it: several tests may do so at once."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        try:
            command = ["apt-get", "download", package]
            subprocess.run(command, cwd=beside, capture_output=True, check=True, timeout=60)
        except (subprocess.SubprocessError, OSError):
            return False
        archives = list(Path(beside).glob("*.deb"))
        unpacked = Path(beside) / "unpacked"
        subprocess.run(["dpkg-deb", "-x", archives[0], unpacked], check=True, timeout=120)
        try:
            os.rename(unpacked, folder)
        except OSError:
            return folder.exists()  # another test has unpacked it first
    return True
