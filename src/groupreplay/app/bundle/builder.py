"""Makes the archive and ``job.py``."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupreplay import __version__
from groupreplay.app.bundle import submitted_program
from groupreplay.app.bundle.archive import (
    ArchiveFile,
    package_files,
    text_file,
    wheel_files,
    write_archive,
)
from groupreplay.app.bundle.lines import SparkRelease
from groupreplay.app.bundle.submission import PROGRAM, Submission
from groupreplay.app.bundle.target import BundleTarget
from groupreplay.app.bundle.wheels import Wheel, download_wheels
from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.base.files import atomic_file, require_new

#: Python 3.12 has no distutils, and pyspark 3.5 compares versions with it.
_DISTUTILS: Final = {
    "distutils/__init__.py": "",
    "distutils/version.py": "from packaging.version import Version as LooseVersion  # noqa: F401\n",
}
_METADATA: Final = (
    f"Metadata-Version: 2.4\nName: groupreplay\nVersion: {__version__}\nLicense-Expression: Apache-2.0\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What was made: the archive, ``job.py`` beside it, how to submit both, and the wheels in the archive."""

    archive: Path
    program: Path
    submission: Submission
    wheels: tuple[str, ...]


def build_bundle(archive: Path, spark: SparkRelease, target: BundleTarget, *, force: bool = False) -> Bundle:
    """Writes the archive and, beside it, ``job.py``.

    The archive contains the groupreplay that runs now and wheels of its libraries, which pip downloads. It holds no
    interpreter: it is used with the platform's Python of the same version, by PYTHONPATH. So it can be made for another
    Python and another machine than this one.

    Args:
        archive: the ``.tar.gz`` file.
        spark: from ``spark_release``.
        target: from ``bundle_target``.
        force: replace files that exist.

    Raises:
        GroupReplayError: a file exists or cannot be written; see also ``download_wheels``.
    """
    program = archive.with_name(PROGRAM)
    _require_place(archive, program, force=force)
    try:
        with tempfile.TemporaryDirectory(prefix="groupreplay-bundle-") as folder, ExitStack() as opened:
            wheels = download_wheels(spark.requirements, target, Path(folder))
            files = _files(wheels, spark, target, opened)
            archive.parent.mkdir(parents=True, exist_ok=True)
            write_archive(archive, files)
        with atomic_file(program, force=force) as file:
            file.write(inspect.getsource(submitted_program))
    except OSError as error:
        where = str(error.filename or archive)
        raise GroupReplayError(
            f"the archive could not be written, {error.strerror or error}",
            where=where,
            fix="an archive needs 200 MB here and as much in the folder for temporary files (TMPDIR)",
        ) from None
    return Bundle(
        archive=archive,
        program=program,
        submission=Submission(spark=spark, target=target, archive=archive.name),
        wheels=tuple(wheel.path.name for wheel in wheels),
    )


def _require_place(archive: Path, program: Path, *, force: bool) -> None:
    if not archive.name.endswith(".tar.gz"):
        raise unusable(
            "the archive's name does not end with .tar.gz", archive, "Spark unpacks it by this ending"
        )
    require_new([archive, program], force=force)


def _files(
    wheels: Sequence[Wheel], spark: SparkRelease, target: BundleTarget, opened: ExitStack
) -> dict[str, ArchiveFile]:
    """Path -> file of the whole archive."""
    about = {
        "groupreplay": __version__,
        "spark": spark.line,
        "python": target.python,
        "platform": target.machine,
        "wheels": [wheel.path.name for wheel in wheels],
    }
    files = {path: file for wheel in wheels for path, file in wheel_files(wheel, opened)}
    files |= dict(package_files())
    files[f"groupreplay-{__version__}.dist-info/METADATA"] = text_file(_METADATA)
    files[submitted_program.ABOUT] = text_file(json.dumps(about, indent=2) + "\n")
    if spark.line == "3.5" and target.python == "3.12":
        files |= {path: text_file(text) for path, text in _DISTUTILS.items()}
    return files
