"""What a request asks for, as checked values; places that clients share; and the error that refuses a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from groupreplay.state.events.event import Severity

_Value = TypeVar("_Value")
#: Characters of one parameter: an id of a group may have 30 000 bytes.
_MOST_CHARACTERS: Final = 32_768
_LATEST_MS: Final = 253_402_300_800_000


#: Parameters that may be given several times.
REPEATED: Final = frozenset({"groups"})


class RequestError(Exception):
    """A request that cannot be answered: the status of HTTP, and one sentence for people."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Parameters:
    """The parameters of one request. Every one must be known; each is given once.

    Raises:
        RequestError: one is not known, given twice, or too long.
    """

    def __init__(self, query: Collection[tuple[str, str]], names: Collection[str]) -> None:
        self._values: dict[str, str] = {}
        self._lists: dict[str, list[str]] = {}
        for name, value in query:
            if name not in names:
                raise RequestError(
                    400, f"there is no parameter {name[:40]!r} here; there are: {', '.join(names)}"
                )
            if name in REPEATED:
                self._lists.setdefault(name, []).append(value)
            elif name in self._values or len(value) > _MOST_CHARACTERS:
                raise RequestError(400, f"{name} is given twice or too long")
            else:
                self._values[name] = value

    def texts(self, name: str) -> list[str]:
        """The texts of a parameter of ``REPEATED``."""
        return self._lists.get(name, [])

    def text(self, name: str) -> str:
        """A text; empty without one."""
        return self._values.get(name, "")

    def text_or_none(self, name: str) -> str | None:
        """A text; None where it is missing or empty."""
        return self._values.get(name) or None

    def choice(self, name: str, words: Collection[str], default: str) -> str:
        """One of these words."""
        word = self._values.get(name) or default
        if word not in words:
            raise RequestError(400, f"{name} is one of: {', '.join(words)}")
        return word

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number between two bounds."""
        value = self._read(name, int, f"a whole number from {least} to {most}")
        if value is None:
            return default
        if not least <= value <= most:
            raise RequestError(400, f"{name} is a whole number from {least} to {most}")
        return value

    def time_ms(self, name: str) -> int | None:
        """Milliseconds since 1970; None without one."""
        moment_ms = self._read(name, int, "in milliseconds since 1970")
        if moment_ms is not None and not 0 <= moment_ms < _LATEST_MS:
            raise RequestError(400, f"{name} is in milliseconds since 1970")
        return moment_ms

    def severity(self, name: str) -> int:
        """The number of a severity; 0 without one."""
        word = self._values.get(name)
        return int(Severity[self.choice(name, Severity.__members__, "INFO")]) if word else 0

    def place(self, name: str) -> tuple[int, int] | None:
        """A place among the events, as an answer gave it: ``time.position``."""
        return self._read(name, _place, "the value of next in an answer")

    def _read(self, name: str, read: Callable[[str], _Value], kind: str) -> _Value | None:
        text = self._values.get(name)
        if not text:
            return None
        try:
            # Python reads digits of other scripts, underscores and spaces, too; and thousands of digits slowly.
            if len(text) > 40 or not text.isascii() or set(text) & set("_ +"):
                raise ValueError(text)
            return read(text)
        except ValueError:
            raise RequestError(400, f"{name} is {kind}") from None


def _place(text: str) -> tuple[int, int]:
    at_ms, dot, position = text.partition(".")
    if not dot or len(at_ms) > 18 or len(position) > 18:
        raise ValueError(text)
    return int(at_ms), int(position)


def path_parts(scope: Mapping[str, Any], prefix: str) -> list[str]:
    """The parts of the path behind a prefix, each decoded by itself: an id may contain a slash.

    Raises:
        RequestError: a part is no UTF-8 text.
    """
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    parts = raw.partition(b"?")[0].decode("ascii", "replace").removeprefix(prefix).split("/")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise RequestError(400, "the path is no UTF-8 text") from None


class Shares:
    """At most ``most`` places for ``what``. A client gets a further one while it has fewer than are free.

    So a client alone, for example a proxy with all clients behind it, gets half of the places, and the next one half of
    the rest.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """A place for as long as the block lasts.

        Raises:
            RequestError: there is none (503), or none for this client (429).
        """
        free = self._most - self._held.total()
        if free <= 0:
            raise RequestError(503, f"too many {self._what}")
        if self._held[client] >= free:
            raise RequestError(429, f"too many {self._what} of this address")
        self._held[client] += 1
        try:
            yield
        finally:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]
