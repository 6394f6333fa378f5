"""Messages with a remedy: a command line that is refused, what the message says to do, and the line after that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.properties import ClientProperties
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from support.job.captures import invoke
from support.tools.remedies_in_source import remedies

Said: TypeAlias = "re.Match[str]"
#: What a message leaves open, and what is typed there; ``CAPTURE`` is a file of the test.
_OPEN: Final = {
    "HOST:PORT": "127.0.0.1:1",
    "NAME": "name",
    "FOLDER": "folder",
    "TIME": "now",
}


@dataclass(slots=True)
class Attempt:
    """A command line, as words, in the folder with its files, which is the working directory."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, value: str = "") -> None:
        """Types what the message names at the end of the line, and a value behind it."""
        more = [_OPEN.get(word, word) for word in text.split()]
        self.words += [*(value if word == "FILE" and value else word for word in more)]
        if value and "FILE" not in text:
            self.words.append(value)

    def leave_out(self, flag: str, *, values: int = 0) -> None:
        """Takes a flag away, and so many words behind it."""
        at = self.words.index(flag)
        del self.words[at : at + 1 + values]

    def put(self, old: str, new: str) -> None:
        """Types another word instead of one."""
        self.words[self.words.index(old)] = new


def edit(file: str, old: str, new: str) -> None:
    """Writes another text into a file."""
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new))


def read_remedy(key: str, printed: str) -> list[str]:
    """What is filled into a remedy in a printed text, which must have it.

    The key is a module and the begin of the remedy in its source, ``streaming.kafka.rights: grant it``. With it a test
    says that it applies the remedy: ``tests/project/remedies/test_every_remedy.py`` looks for the keys of all.
    """
    module, _, begin = key.partition(": ")
    line = " ".join(printed.split())
    named = [one for one in remedies() if one.module == module and one.text.startswith(begin)]
    read = [filled for one in named if (filled := one.in_(line)) is not None]
    assert read, (key, [one.text for one in named], printed)
    return read[0]


def installs(line: str, module: str) -> None:
    """The extra in a printed ``pip install`` brings the library that has the module."""
    (extra,) = re.findall(r"pip install 'groupreplay\[(\w+)\]'", line)
    brought = {
        re.split(r"[^\w.-]", requirement)[0].lower()
        for requirement in metadata.requires("groupreplay") or ()
        if re.search(rf"extra == ['\"]{extra}['\"]", requirement)
    }
    owners = {name.lower().replace("_", "-") for name in metadata.packages_distributions()[module]}
    assert brought & owners, (extra, brought, owners)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """``line`` is refused with a message in which the pattern ``says`` finds what to do; ``apply`` does it.

    ``of`` is the key of the message for ``read_remedy``, None if the message is click's. ``files`` are texts by name.
    After it the line ends with one of ``ends``, for another reason if it is an error: no test reaches a cluster.
    """

    line: str
    of: str | None
    says: str
    apply: Callable[[Attempt, Said], None]
    files: Mapping[str, str] = field(default_factory=dict)
    ends: tuple[ExitCode, ...] = (ExitCode.OK, ExitCode.CONNECTION)


def prove(remedy: Remedy) -> None:
    """Reads the remedy in the message, applies it, and finds the message gone."""
    for name, text in remedy.files.items():
        # A byte that is no UTF-8.
        Path(name).write_bytes(text.encode().replace(b"BYTE", b"\xff"))
    attempt = Attempt(remedy.line.split())
    refused = invoke(*attempt.words)
    assert refused.exit_code in (ExitCode.USAGE, ExitCode.DATA), refused.output
    if remedy.of is not None:
        read_remedy(remedy.of, refused.stderr)
    said = re.search(remedy.says, " ".join(refused.stderr.split()))
    assert said is not None, refused.stderr
    remedy.apply(attempt, said)
    done = invoke(*attempt.words, env=attempt.environment)
    assert re.search(remedy.says, " ".join(done.stderr.split())) is None, (attempt.words, done.stderr)
    assert done.exit_code in remedy.ends, (attempt.words, done.output, done.exception)


def unreachable(*_: object, **__: object) -> None:
    """Ends a command where it would begin to work."""
    raise GroupReplayError("reached", exit_code=ExitCode.CONNECTION)


def without_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster answers, at once; ``run`` ends where it would begin to work."""

    def opened(_: Connection, cluster: Cluster) -> None:
        ClientProperties(cluster.properties).for_librdkafka()
        unreachable()

    monkeypatch.setattr(Connection, "__init__", opened)
    monkeypatch.setattr("groupreplay.streaming.spark.job.run", unreachable)
