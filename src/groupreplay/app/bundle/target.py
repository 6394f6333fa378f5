"""The interpreter and the machines that an archive is made for."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupreplay.app.bundle.lines import SparkRelease
from groupreplay.streaming.base.errors import unusable

MACHINES: Final = ("x86_64", "aarch64")
#: The oldest C library (glibc) that all libraries have wheels for: RHEL 8, Debian 10, Ubuntu 20.04, Amazon Linux 2023.
GLIBC: Final = (2, 28)
_OLDEST_GLIBC: Final = 17
#: Names that ``platform.machine`` gives on other systems.
_ALIASES: Final[Mapping[str, str]] = {"arm64": "aarch64", "AMD64": "x86_64", "amd64": "x86_64"}


@dataclass(frozen=True, slots=True)
class BundleTarget:
    """CPython ``python`` (such as 3.11) on Linux with this machine."""

    python: str
    machine: str

    @property
    def pip_flags(self) -> list[str]:
        """Flags with which pip chooses wheels for this target and never builds one."""
        names = [f"manylinux_2_{minor}" for minor in range(GLIBC[1], _OLDEST_GLIBC - 1, -1)]
        names += ["manylinux2014", "manylinux2010", "manylinux1"]
        platforms = [word for name in names for word in ("--platform", f"{name}_{self.machine}")]
        return [
            *("--only-binary=:all:", "--implementation", "cp", "--python-version", self.python),
            *platforms,
        ]

    @property
    def markers(self) -> dict[str, str]:
        """The values of environment markers there."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def bundle_target(python: str | None, machine: str | None, spark: SparkRelease) -> BundleTarget:
    """The target; what is None is as in this process.

    Raises:
        GroupReplayError: the Spark line does not support this Python, or the machine is unknown.
    """
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    known = spark.supported.pythons
    if python not in known:
        raise unusable(
            f"groupreplay with Spark {spark.line} does not run on Python {python}",
            None,
            f"use --python {', '.join(known)}",
        )
    machine = machine or platform.machine()
    machine = _ALIASES.get(machine, machine)
    if machine not in MACHINES:
        raise unusable(f"there are no wheels for {machine}", None, f"use --platform {' or '.join(MACHINES)}")
    return BundleTarget(python, machine)
