"""Pins the images and the actions of workflows: a digest or a commit beside each tag, which others can move.

    python release/pins.py              names what has none; exit code 1 if something is not in UNPINNED
    python release/pins.py fill         looks up what has none, and writes it (needs git, docker and the internet)
    python release/pins.py fill --all   looks up everything anew, for example after tags were changed

The tag stays in the line, for people and for tools that propose updates.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: Not looked up so far: whoever can reach the registry runs ``fill``, and removes the line here.
UNPINNED: Final = frozenset(
    {
        "apache/spark:4.0.0-scala2.13-java17-python3-ubuntu",
        "grafana/grafana:11.6.1",
    }
)
_FILES: Final = (
    "docker-compose.yml",
    "deploy/*Dockerfile",
    "deploy/kubernetes/*Dockerfile",
    ".github/workflows/*.yml",
)
#: Images of this project have the version of the package as their tag.
_OURS: Final = "groupreplay:"
_IMAGE: Final = re.compile(
    r"(?m)^(?P<before>\s*(?:FROM|ARG \w*IMAGE=|image:|x-\w+:\s*&\w+)\s*)"
    r"(?P<name>[\w./-]+):(?P<tag>[\w.-]+)(?P<pin>@sha256:[0-9a-f]{64})?"
)
_ACTION: Final = re.compile(
    r"(?m)^(?P<before>\s*-?\s*uses:\s*)(?P<name>[\w.-]+/[\w.-]+)@(?P<pin>[0-9a-f]{40}  # )?(?P<tag>v[\w.]+)$"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """An image or an action as a file names it; ``pin`` is a digest or a commit, None without one."""

    file: str
    name: str
    tag: str
    pin: str | None
    is_action: bool

    def __str__(self) -> str:
        """``name:tag`` or ``name@tag``."""
        return f"{self.name}{'@' if self.is_action else ':'}{self.tag}"


def references(root: Path = ROOT) -> Iterator[Reference]:
    """All that is taken from elsewhere, file by file."""
    for file in _files(root):
        text, where = file.read_text("utf-8"), file.relative_to(root).as_posix()
        for pattern, is_action in ((_IMAGE, False), (_ACTION, True)):
            for found in pattern.finditer(text):
                one = Reference(where, found["name"], found["tag"], _bare(found["pin"]), is_action)
                if not str(one).startswith(_OURS):
                    yield one


def fill(
    look_up: Callable[[Reference], str], root: Path = ROOT, *, everything: bool = False
) -> list[Reference]:
    """Writes the pin of each reference that has none; returns those that were written."""
    written: list[Reference] = []

    def pinned(found: re.Match[str], file: Path, is_action: bool) -> str:
        one = Reference(str(file), found["name"], found["tag"], _bare(found["pin"]), is_action)
        if (one.pin and not everything) or str(one).startswith(_OURS):
            return found[0]
        pin = look_up(one)
        written.append(one)
        return (
            f"{found['before']}{one.name}@{pin}  # {one.tag}"
            if is_action
            else f"{found['before']}{one}@{pin}"
        )

    for file in _files(root):
        text = file.read_text("utf-8")
        for pattern, is_action in ((_IMAGE, False), (_ACTION, True)):
            text = pattern.sub(partial(pinned, file=file, is_action=is_action), text)
        file.write_text(text, "utf-8")
    return written


def look_up(reference: Reference) -> str:
    """The digest of an image, or the commit of an action's tag, as the registry or the repository says now."""
    if reference.is_action:
        # Of an annotated tag, the line with ^{} has the commit.
        address = f"https://github.com/{reference.name}"
        lines = _printed(
            ["git", "ls-remote", address, f"refs/tags/{reference.tag}", f"refs/tags/{reference.tag}^{{}}"]
        )
        pin = lines.splitlines()[-1].split()[0] if lines else ""
        form = r"[0-9a-f]{40}"
    else:
        # Of the list of all platforms, so that the image runs on each of them.
        format_ = "{{.Manifest.Digest}}"
        pin = _printed(["docker", "buildx", "imagetools", "inspect", str(reference), "--format", format_])
        form = r"sha256:[0-9a-f]{64}"
    if not re.fullmatch(form, pin):
        raise SystemExit(f"{reference}: no pin was found")
    return pin


def main(arguments: list[str]) -> int:
    """Lists or fills."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", choices=["list", "fill"], default="list")
    parser.add_argument("--all", action="store_true", help="with fill: also what has a pin")
    given = parser.parse_args(arguments)
    if given.command == "fill":
        for one in fill(look_up, everything=given.all):
            sys.stdout.write(f"pinned {one}\n")
        return 0
    loose = [one for one in references() if one.pin is None]
    for one in loose:
        sys.stdout.write(f"{one.file}: {one} has no pin\n")
    return 1 if any(str(one) not in UNPINNED for one in loose) else 0


def _files(root: Path) -> list[Path]:
    return [file for pattern in _FILES for file in sorted(root.glob(pattern))]


def _bare(pin: str | None) -> str | None:
    return None if pin is None else pin.removeprefix("@").partition(" ")[0]


def _printed(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
