"""The archive: wheels that pip downloads, and groupreplay, in one ``.tar.gz`` whose bytes depend on nothing else.

pip downloads for another Python and machine than its own, but evaluates environment markers
(``python_version < '3.11'``) for the interpreter that it runs on, whatever ``--python-version`` is. Therefore the
requirements of the downloaded wheels are evaluated here again: what is missing for the target is downloaded, too, and
what only this interpreter needs is left out.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from groupreplay.app.bundle.target import BundleTarget
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.base.files import place_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement


_ROUNDS: Final = 5
_NO_WHEEL: Final = re.compile(r"No matching distribution found for ([^\s;]+)")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A downloaded wheel."""

    path: Path
    name: str
    version: str
    requires: tuple[str, ...]


def download_wheels(requirements: Sequence[str], target: BundleTarget, folder: Path) -> list[Wheel]:
    """The wheels of these requirements and of theirs for the target, by name.

    Raises:
        GroupReplayError: there is no pip, pip failed, or a package has no wheel for the target.
    """
    from packaging.requirements import Requirement

    if importlib.util.find_spec("pip") is None:
        raise unusable(
            "this Python has no pip, which finds the libraries",
            sys.executable,
            "install it: python -m ensurepip, or uv pip install pip",
        )
    roots = [Requirement(text) for text in requirements]
    wanted = [root for root in roots if _applies(root, (), target)]
    for number in range(_ROUNDS):
        wheels = _download(wanted, target, folder / str(number))
        needed, unmet = closure(roots, wheels, target)
        if not unmet:
            return [wheels[name] for name in sorted(needed)]
        wanted += unmet
    raise GroupReplayError(
        "the libraries' requirements contradict each other", where=", ".join(map(str, unmet))
    )


def closure(
    roots: Iterable[Requirement], wheels: Mapping[str, Wheel], target: BundleTarget
) -> tuple[set[str], list[Requirement]]:
    """The names of the wheels that the target needs, and the requirements that no wheel fulfils."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    queue = [root for root in roots if _applies(root, (), target)]
    seen: set[tuple[str, frozenset[str]]] = set()
    needed: set[str] = set()
    unmet: dict[str, Requirement] = {}
    while queue:
        requirement = queue.pop()
        name = str(canonicalize_name(requirement.name))
        wheel = wheels.get(name)
        if wheel is None or not requirement.specifier.contains(wheel.version, prereleases=True):
            unmet[str(requirement)] = _without_marker(requirement)
            continue
        needed.add(name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        further = map(Requirement, wheel.requires)
        queue += [need for need in further if _applies(need, requirement.extras, target)]
    return needed, [unmet[text] for text in sorted(unmet)]


def _applies(requirement: Requirement, extras: Iterable[str], target: BundleTarget) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**target.markers, "extra": extra}) for extra in ("", *extras))


def _without_marker(requirement: Requirement) -> Requirement:
    """The same for pip, which would evaluate the marker for another interpreter."""
    from packaging.requirements import Requirement

    bare = Requirement(str(requirement))
    bare.marker = None
    return bare


def _download(wanted: Sequence[Requirement], target: BundleTarget, folder: Path) -> dict[str, Wheel]:
    """Name -> wheel of everything that pip finds for these requirements."""
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"),
        *("--dest", str(folder), *target.pip_flags),
        *(str(_without_marker(requirement)) for requirement in wanted),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise _failure(done.stderr, target)
    return {wheel.name: wheel for wheel in _wheels(folder)}


def _wheels(folder: Path) -> Iterator[Wheel]:
    from packaging.utils import parse_wheel_filename

    for path in sorted(folder.glob("*.whl")):
        name, version, _, _ = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            (member,) = [
                entry for entry in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", entry)
            ]
            headers = BytesHeaderParser().parsebytes(archive.read(member))
        yield Wheel(path, str(name), str(version), tuple(headers.get_all("Requires-Dist") or ()))


def _failure(said: str, target: BundleTarget) -> GroupReplayError:
    place = f"Python {target.python} on {target.machine}"
    if match := _NO_WHEEL.search(said):
        return GroupReplayError(
            f"pip found no wheel of {match[1]} for this target",
            where=place,
            fix="use another --python; or build the wheel and name its folder in PIP_FIND_LINKS; or, if pip reaches "
            "no package index here, set PIP_INDEX_URL to one that it reaches",
            exit_code=ExitCode.USAGE,
        )
    errors = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines()[-3:]
    return GroupReplayError(
        f"pip could not download the libraries: {' '.join(errors) or 'it gave no reason'}",
        where=place,
        fix="pip reads its settings from pip.conf and from variables such as PIP_INDEX_URL and PIP_CONSTRAINT",
    )


#: 1980-01-01, the earliest time that zip files can have, too; tar warns of the year 1970.
_TIME: Final = 315_532_800
#: Parts of a wheel that are installed beside the other files; the remaining ones (scripts, headers) are left out.
_DATA: Final = re.compile(r"[^/]+\.data/(?P<kind>[^/]+)/(?P<path>.+)")
_LIBRARY_KINDS: Final = frozenset({"purelib", "platlib"})


class ArchiveFile(NamedTuple):
    """A file of the archive: how its content is read, and whether it can be executed."""

    read: Callable[[], bytes]
    executable: bool = False


def text_file(text: str) -> ArchiveFile:
    """A file with this text."""
    return ArchiveFile(partial(str.encode, text, "utf-8"))


def wheel_files(wheel: Wheel, opened: ExitStack) -> Iterator[tuple[str, ArchiveFile]]:
    """The files that an installation of this wheel has, by path; ``opened`` keeps the wheel open."""
    archive = opened.enter_context(zipfile.ZipFile(wheel.path))
    for member in archive.infolist():
        path = member.filename
        if match := _DATA.fullmatch(path):
            if match["kind"] not in _LIBRARY_KINDS:
                continue
            path = match["path"]
        if not member.is_dir():
            yield path, ArchiveFile(partial(archive.read, member), bool(member.external_attr >> 16 & 0o111))


def package_files() -> Iterator[tuple[str, ArchiveFile]]:
    """The files of the groupreplay that runs now."""
    root = Path(__file__).parents[2]
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield f"{root.name}/{path.relative_to(root).as_posix()}", ArchiveFile(path.read_bytes)


def write_archive(path: Path, files: Mapping[str, ArchiveFile]) -> None:
    """Writes the archive beside its place, then moves it there. The same files give the same bytes."""
    with (
        place_of(path) as unfinished,
        unfinished.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        for place in sorted(files):
            content = files[place].read()
            entry = tarfile.TarInfo(place)
            entry.size, entry.mtime = len(content), _TIME
            entry.mode = 0o755 if files[place].executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
