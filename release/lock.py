"""Writes the locks of the Python packages: versions with the hashes of their files, for ``pip --require-hashes``.

    python release/lock.py              keeps the versions that are locked, where pyproject.toml still allows them
    python release/lock.py --upgrade    takes the newest ones: run all tests with them before you commit

``deploy/requirements.txt`` has what groupreplay with the extras ``kafka``, ``spark``, ``serve``, ``logs`` and ``msk``
needs on every Python that it supports, ``deploy/requirements-watch.txt`` what it needs without Spark, and
``deploy/requirements-build.txt`` what builds a wheel. The images and the installation in docs/operations.md take them.
``tests/constraints.txt`` has the versions with which a checkout is tested, on each line of Spark. It has no hashes,
because ``make`` installs the wheel of the checkout beside them.

Needs ``uv`` (``pip install uv``), which resolves for all Pythons at once; the index is uv's own setting.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from groupreplay.streaming.local.platforms import NEWEST

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT: Final = Path(__file__).resolve().parents[1]
RUN: Final = ROOT / "deploy" / "requirements.txt"
WATCH: Final = ROOT / "deploy" / "requirements-watch.txt"
BUILD: Final = ROOT / "deploy" / "requirements-build.txt"
TESTS: Final = ROOT / "tests" / "constraints.txt"
#: Of the package, for a machine that runs the job and serves its pages.
EXTRAS: Final = ("kafka", "spark", "serve", "logs", "msk")
WATCH_EXTRAS: Final = ("kafka", "serve", "logs", "msk")
TEST_EXTRAS: Final = ("spark", "dev")
#: Not in the constraints of the tests: each line of Spark has its own, and PySpark brings its py4j.
OF_A_LINE: Final = ("pyspark", "py4j")
_HEADER: Final = "# Written by release/lock.py from pyproject.toml. Do not edit.\n"
_OLDEST_PYTHON: Final = "3.10"
_OPTIONS: Final = ("--no-header", "--no-annotate", "--quiet", "--no-emit-index-url")
_HASHES: Final = ("--generate-hashes",)


def main(arguments: list[str]) -> int:
    """Writes the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--upgrade", action="store_true", help="take the newest versions that pyproject.toml allows"
    )
    given = parser.parse_args(arguments)
    if importlib.util.find_spec("uv") is None:
        sys.stderr.write("uv is not installed: pip install uv\n")
        return 2
    more = ["--upgrade"] if given.upgrade else []
    with tempfile.TemporaryDirectory() as folder:
        # The extra allows later lines of Spark, on which the job runs with PySpark's own worker only.
        tuned = Path(folder, "constraints.txt")
        tuned.write_text(f"pyspark=={NEWEST.name}.*\n", encoding="utf-8")
        # The small image has the versions of the other one: one run of the tests holds for both.
        _compile(RUN, [*_project(EXTRAS), "--constraints", str(tuned), *_HASHES, *more])
        _compile(WATCH, [*_project(WATCH_EXTRAS), "--constraints", str(RUN), *_HASHES, *more])
        unnamed = [part for name in OF_A_LINE for part in ("--no-emit-package", name)]
        _compile(TESTS, [*_project(TEST_EXTRAS), "--constraints", str(tuned), *unnamed, *more])
    _compile(BUILD, ["-", *_HASHES, *more], "\n".join(build_requirements()))
    return 0


def _project(extras: Sequence[str]) -> list[str]:
    return ["pyproject.toml", *(part for extra in extras for part in ("--extra", extra))]


def build_requirements() -> list[str]:
    """What pyproject.toml names to build a wheel; pyspark, which has no wheel, is built with the same."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    return found


def _compile(target: Path, source: list[str], text: str | None = None) -> None:
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        *source,
        "--universal",
        "--python-version",
        _OLDEST_PYTHON,
    ]
    command += [*_OPTIONS, "--output-file", str(target.relative_to(ROOT))]
    subprocess.run(command, check=True, cwd=ROOT, input=text, text=True)
    target.write_text(_HEADER + target.read_text("utf-8"), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
