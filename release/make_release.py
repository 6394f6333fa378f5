"""Builds everything that belongs to a release into one folder: ``make release``. Nothing is published.

docs/releasing.md has the steps before and after.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import release_rules
from bill_of_materials import bill_of_materials, install
from distributions import build, commit_time, write_checksums

PROJECT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Builds sdist, wheel, bill of materials and checksums of the commit that is checked out."""
    parser = argparse.ArgumentParser(prog="python release/make_release.py", description=main.__doc__)
    parser.add_argument("--output", type=Path, default=PROJECT / "dist" / "release", help="folder (new or empty)")
    parser.add_argument(
        "--environment",
        type=Path,
        metavar="PYTHON",
        help="list the libraries of this Python's environment instead of those that pip installs now",
    )
    arguments = parser.parse_args()
    found = release_rules.problems(PROJECT)
    if arguments.output.is_dir() and any(arguments.output.iterdir()):
        found.append(f"{arguments.output} is not empty")
    if found:
        sys.stderr.write("".join(f"error: {line}\n" for line in found))
        return 2
    for path in release(arguments.output, arguments.environment):
        sys.stdout.write(f"{path}\n")
    return 0


def release(output: Path, environment: Path | None) -> list[Path]:
    """Writes the files, and returns them."""
    sdist, wheel = build(PROJECT, output)
    with tempfile.TemporaryDirectory(prefix="groupreplay-environment-") as scratch:
        python = environment or install(wheel, Path(scratch, "environment"))
        content = bill_of_materials(wheel, python, PROJECT, commit_time(PROJECT))
    bill = output / f"groupreplay-{release_rules.version(PROJECT)}.cdx.json"
    bill.write_bytes(content)
    files = [sdist, wheel, bill]
    return [*files, write_checksums(output, files)]


if __name__ == "__main__":
    sys.exit(main())
