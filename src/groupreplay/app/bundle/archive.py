"""What an archive is made for (the Spark release, the interpreter and the machines), and the archive.

It has wheels that pip downloads, and groupreplay, in one ``.tar.gz`` whose bytes depend on nothing else. pip downloads
for another Python and machine than its own, but evaluates environment markers (``python_version < '3.11'``) for the
interpreter that it runs on, whatever ``--python-version`` is. Therefore the requirements of the downloaded wheels are
evaluated here again: what is missing for the target is downloaded, too, and what only this interpreter needs is left
out. ``docs/platforms.md`` is generated from the tables here.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import platform
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

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.base.files import place_of
from groupreplay.streaming.local import platforms
from groupreplay.streaming.local.platforms import SparkLine

if TYPE_CHECKING:
    from packaging.requirements import Requirement


#: The libraries of groupreplay with the extras kafka, spark and serve, as in pyproject.toml; ``pyspark`` is the
#: platform's own.
LIBRARIES: Final[Mapping[str, str]] = {
    "click": ">=8.1",
    "confluent-kafka": ">=2.6",
    "msgspec": ">=0.19",
    "numpy": ">=1.26",
    "packaging": ">=23",
    "pandas": ">=2.2,<3",
    "prometheus-client": ">=0.21",
    "pyarrow": ">=18,<26",
    "starlette": ">=0.47",
    "tomli": ">=2; python_version < '3.11'",
    "tzdata": ">=2024.1",
    "uvicorn": ">=0.32",
}


LINES: Final[Mapping[str, SparkLine]] = {line.name: line for line in platforms.LINES}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRelease:
    """A Spark release with its Scala; ``exact`` is false if only the line was given."""

    line: str
    release: str
    scala: str
    exact: bool

    @property
    def supported(self) -> SparkLine:
        """What its line needs."""
        return LINES[self.line]

    @property
    def requirements(self) -> tuple[str, ...]:
        """The requirements of the archive, in the form that pip reads."""
        ranges = {**LIBRARIES, **self.supported.libraries}
        return tuple(f"{name}{ranges[name]}" for name in sorted(ranges))

    @property
    def connector(self) -> str:
        """The Maven coordinate of Kafka's connector of this release, for ``--packages``."""
        return platforms.connector_coordinate(self.release, self.scala)


def spark_release(text: str, scala: str | None = None) -> SparkRelease:
    """The release for ``3.5`` or ``3.5.4``; ``scala`` None is the default of the line.

    Raises:
        GroupReplayError: the line is unknown, or is not built for this Scala.
    """
    # Platforms add a name of their own: 3.5.6-amzn-1.
    match = re.fullmatch(r"(\d+\.\d+)(\.\d+)?(?:[-+.][\w.-]+)?", text)
    if match is None or match[1] not in LINES:
        raise _unknown(text)
    line = LINES[match[1]]
    scala = scala or line.scala
    if scala not in line.scalas:
        fix = f"use --scala {' or '.join(line.scalas)}"
        raise unusable(f"Spark {match[1]} is not built for Scala {scala}", None, fix)
    exact = match[2] is not None
    release = f"{match[1]}{match[2]}" if exact else line.connector
    return SparkRelease(line=match[1], release=release, scala=scala, exact=exact)


def _unknown(text: str) -> GroupReplayError:
    what = f"{text!r} is not a Spark line that groupreplay supports"
    return unusable(what, None, f"use --spark {platforms.LINE_NAMES}, or a release of these such as 3.5.4")


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
        return ["--only-binary=:all:", "--implementation", "cp", "--python-version", self.python, *platforms]

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
    pythons = spark.supported.pythons
    if python not in pythons:
        what = f"groupreplay with Spark {spark.line} does not run on Python {python}"
        raise unusable(what, None, f"use --python {', '.join(pythons)}")
    machine = machine or platform.machine()
    machine = _ALIASES.get(machine, machine)
    if machine not in MACHINES:
        raise unusable(f"there are no wheels for {machine}", None, f"use --platform {' or '.join(MACHINES)}")
    return BundleTarget(python, machine)


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
        fix = "install it: python -m ensurepip, or uv pip install pip"
        raise unusable("this Python has no pip, which finds the libraries", sys.executable, fix)
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
