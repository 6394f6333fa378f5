"""The error that users see (what failed, where, and what to do next), and the exit codes."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from enum import IntEnum


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


def did_you_mean(name: str, known: Collection[str], least: float = 0.6) -> str:
    """The begin of a remedy for a name that nobody knows: the nearest known one, or nothing."""
    return "".join(f"did you mean {one}? " for one in get_close_matches(name, known, 1, least))


def unusable(what: str, where: object, fix: str) -> GroupReplayError:
    """The error for a flag, a setting or a file that cannot be used."""
    place = None if where is None else str(where)
    return GroupReplayError(what, where=place, fix=fix, exit_code=ExitCode.USAGE)
