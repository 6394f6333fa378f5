"""Another Python than that of the tests, for tests of two versions that meet."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

#: That of the tests, such as ``3.11``.
DRIVER_VERSION = ".".join(map(str, sys.version_info[:2]))


def another_python() -> tuple[str, str]:
    """An interpreter of another minor version, and that version; skips the test if this machine has none."""
    for minor in range(9, 16):
        version = f"3.{minor}"
        found = shutil.which(f"python{version}")
        # Names that a version manager installs need not run.
        if (
            found
            and version != DRIVER_VERSION
            and not subprocess.run([found, "-c", ""], check=False).returncode
        ):
            return found, version
    pytest.skip("there is only one version of Python on this machine")
