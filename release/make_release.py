"""Builds everything that belongs to a release into one folder: ``make release``. Nothing is published.

docs/releasing.md has the steps before and after.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import release_rules
from bill_of_materials import bill_of_materials
from distributions import build, commit_time, pack_chart, write_checksums

PROJECT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Builds sdist, wheel, bill of materials, chart and checksums of the commit that is checked out."""
    parser = argparse.ArgumentParser(prog="python release/make_release.py", description=main.__doc__)
    parser.add_argument(
        "--output", type=Path, default=PROJECT / "dist" / "release", help="folder (new or empty)"
    )
    arguments = parser.parse_args()
    found = release_rules.problems(PROJECT)
    if arguments.output.is_dir() and any(arguments.output.iterdir()):
        found.append(f"{arguments.output} is not empty")
    if found:
        sys.stderr.write("".join(f"error: {line}\n" for line in found))
        return 2
    for path in release(arguments.output):
        sys.stdout.write(f"{path}\n")
    return 0


def release(output: Path) -> list[Path]:
    """Writes the files, and returns them."""
    sdist, wheel = build(PROJECT, output)
    # The environment in which the tests have run.
    content = bill_of_materials(wheel, PROJECT, commit_time(PROJECT))
    version = release_rules.version(PROJECT)
    bill = output / f"groupreplay-{version}.cdx.json"
    bill.write_bytes(content)
    files = [sdist, wheel, bill, pack_chart(PROJECT, output, version)]
    return [*files, write_checksums(output, files)]


if __name__ == "__main__":
    sys.exit(main())
