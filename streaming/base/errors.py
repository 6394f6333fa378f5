"""The one error that a user sees: what went wrong, where, and what to do next.

Knows the exit codes of the command line; must not know how an error is printed.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns; part of the contract of the command line (docs/cli.md)."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    CONNECTION = 3
    AUTHORISATION = 4
    DATA = 5
    FOUND = 6


class GroupReplayError(Exception):
    """A fault with its remedy.

    ``what`` is one sentence without secrets, ``where`` names the file, topic, partition or address, ``fix``
    is what to do or to type next.
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
