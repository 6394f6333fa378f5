"""The files of a report: its page, its scripts, and ECharts, which is shipped with its licence and checksum.

ECharts is the unchanged file of its npm package. ``python -m groupreplay.app.report.assets fetch`` gets it again,
``verify`` compares the file with the checksum in ``echarts.json``.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

#: Files of the package ``groupreplay.app.report`` below this folder.
FOLDER: Final = "web"
ECHARTS: Final = "echarts.min.js"
#: The scripts that draw a picture, and those that make a page of it, in the order in which they are loaded.
PICTURE_SCRIPTS: Final = ("format.js", "unread.js", "marks.js", "what_if.js", "picture.js")
PAGE_SCRIPTS: Final = (
    *PICTURE_SCRIPTS,
    "address.js",
    "elements.js",
    "present.js",
    "advice.js",
    "event_table.js",
    "group_view.js",
    "strips.js",
)
_LOCK: Final = "echarts.json"
#: Path in the npm package -> name here.
_PARTS: Final = {
    "package/dist/echarts.min.js": ECHARTS,
    "package/LICENSE": "echarts.LICENSE",
    "package/NOTICE": "echarts.NOTICE",
}


def asset(name: str, package: str = "groupreplay.app.report") -> str:
    """The text of a file of the report, or of the pages of another package."""
    return resources.files(package).joinpath(FOLDER).joinpath(name).read_text("utf-8")


def source_hash(text: str) -> str:
    """A script or style as a Content-Security-Policy names it: ``'sha256-...'``."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def echarts() -> str:
    """The script of ECharts.

    Raises:
        GroupReplayError: the file is not the one that was shipped.
    """
    text = asset(ECHARTS)
    digest, expected = hashlib.sha256(text.encode()).hexdigest(), json.loads(asset(_LOCK))["files"][ECHARTS]
    if digest != expected:
        raise GroupReplayError(
            f"the file of ECharts has the SHA-256 {digest}, expected {expected}",
            where=ECHARTS,
            fix="install groupreplay again",
            exit_code=ExitCode.DATA,
        )
    return text


def fetch(version: str, folder: Path) -> None:
    """Write the files of a release of ECharts and their checksums into a folder; needs npm."""
    with tempfile.TemporaryDirectory(prefix="echarts-") as scratch:
        subprocess.run(["npm", "pack", f"echarts@{version}"], cwd=scratch, check=True, capture_output=True)
        (archive,) = Path(scratch).glob("*.tgz")
        write_files(archive.read_bytes(), version, folder)


def write_files(archive: bytes, version: str, folder: Path) -> None:
    """Write the files of an npm archive of ECharts, and ``echarts.json`` with their checksums."""
    checksums = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as package:
        for place, name in _PARTS.items():
            member = package.extractfile(place)
            assert member is not None
            content = member.read()
            (folder / name).write_bytes(content)
            checksums[name] = hashlib.sha256(content).hexdigest()
    lock = {"package": "echarts", "version": version, "licence": "Apache-2.0", "files": checksums}
    (folder / _LOCK).write_text(json.dumps(lock, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """`verify` compares the file of ECharts with its checksum; `fetch` writes a release (for maintainers)."""
    parser = argparse.ArgumentParser(prog="python -m groupreplay.app.report.assets", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("verify", help="compare the shipped file with its checksum")
    get = commands.add_parser("fetch", help="download a release with npm, in a checkout")
    get.add_argument("version")
    get.add_argument("--output", type=Path, default=Path("src", "groupreplay", "app", "report", FOLDER))
    arguments = parser.parse_args()
    try:
        if arguments.command == "fetch":
            fetch(arguments.version, arguments.output)
        else:
            echarts()
    except GroupReplayError as error:
        parser.exit(error.exit_code, f"error: {error}\n")


if __name__ == "__main__":
    main()
