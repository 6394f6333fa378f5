"""An answer of a command as a document of bounded size.

Each question is a command of groupreplay in a process of its own, so that an assistant gets what a person gets: the
same facts, the same errors. A question that takes too long ends with its process, and the server goes on.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import anyio
import msgspec

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.messages import MessageDecoder

_PROGRAM: Final = (sys.executable, "-m", "groupreplay")
_JSON: Final = MessageDecoder[Any](Any)
#: An answer as JSON. What is longer loses the ends of its lists.
MOST_BYTES: Final = 60_000
#: So many entries of a list stay, until the answer is short enough.
_LENGTHS: Final = (200, 50, 20, 8, 3)
_LAST_LINES: Final = 10
#: A selection that matched nothing, and findings, are answers.
_ANSWERS: Final = (ExitCode.OK, ExitCode.DATA, ExitCode.FOUND)


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs commands that read one input; ``flags`` name it. ``before`` stands before the name of a command.

    ``places``: so many run at once, further ones wait; None: there is no bound.
    """

    flags: Sequence[str]
    before: Sequence[str] = ()
    timeout_seconds: float = 300
    places: anyio.CapacityLimiter | None = None

    async def answer(self, name: str, *flags: str, group: str | None = None) -> dict[str, Any]:
        """What a command prints as JSON: ``result``, and ``notes``, the lines of stderr; ``group`` is its argument.

        Raises:
            GroupReplayError: the command failed, or took too long.
        """
        arguments = () if group is None else ("--", group)
        line = [*_PROGRAM, *self.before, name, *self.flags, *flags, *arguments]
        try:
            with anyio.fail_after(self.timeout_seconds):
                async with self.places or nullcontext():
                    ended = await anyio.run_process(line, check=False, stdin=subprocess.DEVNULL)
        except TimeoutError:
            raise GroupReplayError(
                f"there was no answer within {self.timeout_seconds:g} s",
                where=name,
                fix="ask for one group, or for a shorter time",
            ) from None
        notes = ended.stderr.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        if ended.returncode not in _ANSWERS or (ended.returncode == ExitCode.DATA and not ended.stdout):
            raise GroupReplayError("\n".join(notes) or f"{name} ended with {ended.returncode}")
        return bounded(_documents(ended.stdout), notes)


def _documents(printed: bytes) -> Any:
    """The document of a command, or its documents where it prints one a line."""
    lines = printed.splitlines()
    # One event is a line and a document at once: it is a list as well, so that there is one form for any number.
    document = None if len(lines) == 1 and printed.startswith(b"{") else _JSON.decode(printed)
    return [_JSON.decode(line) for line in lines if line] if document is None else document


def bounded(result: Any, notes: Sequence[str] = ()) -> dict[str, Any]:
    """A result that is not longer than ``MOST_BYTES``; ``left_out`` has how many entries of which lists it lost."""
    for most in (None, *_LENGTHS):
        left_out: dict[str, int] = {}
        short = result if most is None else _shortened(result, most, "result", left_out)
        answer = {"result": short, "notes": list(notes), "left_out": left_out}
        if len(msgspec.json.encode(answer)) <= MOST_BYTES:
            return answer
    raise GroupReplayError(
        "the answer is too long", fix="ask for one group, for a shorter time, or for fewer types of events"
    )


def _shortened(value: Any, most: int, place: str, left_out: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(part, most, f"{place}.{name}", left_out) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > most:
        left_out[place] = left_out.get(place, 0) + len(value) - most
    return [_shortened(part, most, f"{place}[]", left_out) for part in value[:most]]


def given(**flags: str | int | bool | Sequence[str] | None) -> Iterator[str]:
    """Flags as words, those without a value left out.

    Each is one word, so that a value that begins with a dash stays a value: ``--group=-x``.
    """
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
        elif isinstance(value, str | int) and value is not False:
            yield f"{flag}={value}"
        elif isinstance(value, list | tuple):
            yield from (f"{flag}={each}" for each in value)
