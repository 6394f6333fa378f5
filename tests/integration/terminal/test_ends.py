"""Commands on a terminal, ended by signals, and with a stdout that takes nothing."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories.builders import generation, member
from support.histories.raw_records import commit
from support.job.captures import raw, simulated_capture, write_capture
from support.job.jobs import topic_flags, topic_names, write_log
from support.kafka.waiting import seldom
from support.ordeals.terminal import WAYS as WAYS_OF_ALL
from support.ordeals.terminal import Terminal, Way, ends_as_documented, on_terminal

WAYS = (Terminal.ctrl_c, Terminal.terminate, Terminal.terminate_group)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """One group's capture."""
    return write_capture(tmp_path / "a.parquet", raw([generation(1, member("a"), at=1_000)]))


@pytest.fixture
def deaf_server() -> Iterator[str]:
    """An address where connections are accepted, and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    accepted.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_any_moment_of_a_short_command(capture: Path, tmp_path: Path) -> None:
    """It ends as documented, or it has ended before."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    for number in range(10):
        command = chance.choice((["list"], ["replay"], ["decode"], ["describe", "--all-groups"]))
        with on_terminal([*command, "--from-file", str(capture)], tmp_path / str(number)) as terminal:
            terminal.wait_until(terminal.is_loaded)
            time.sleep(chance.uniform(0, 0.8))  # what is tested is a random moment
            ended = terminal.end(chance.choice(WAYS))
            if ended.exit_code:
                assert "Traceback" not in ended.said, ended.said
                assert (ended.exit_code, terminal.left()) in ((130, []), (143, []))
                assert ended.said.splitlines()[-1].startswith("groupreplay: ")


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that several processes replay for some seconds."""
    words = ("--scenario", "storm", "--groups", "40", "--seconds", "900")
    return simulated_capture(tmp_path_factory.mktemp("storm") / "storm.parquet", *words)


@pytest.mark.parametrize("way", WAYS_OF_ALL, ids=lambda way: way.__name__)
def test_a_replay_by_several_processes(storm: Path, tmp_path: Path, way: Way) -> None:
    """Also while they start, each ends without a word."""
    words = ["replay", "--from-file", str(storm), "-o", "jsonl", "--processes", "2"]
    with on_terminal(words, tmp_path / "scratch") as terminal:
        terminal.wait_until(lambda: len(psutil.Process(terminal.pid).children()) == 3, pause=0.001)
        ends_as_documented(terminal, way)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["events", "--follow"],
        ["serve", "--metrics-only", "--listen", "127.0.0.1:0"],
        ["probe"],
        ["check", "--checkpoint", "nowhere"],
        ["run", "--checkpoint", "nowhere"],
    ],
    ids=lambda words: words[0],
)
def test_a_cluster_that_does_not_answer(words: list[str], deaf_server: str, tmp_path: Path) -> None:
    """A call to the Kafka client lasts long, and Python handles no signal in it; the command ends all the same."""
    with on_terminal([*words, "--bootstrap-server", deaf_server], tmp_path / "scratch") as terminal:
        terminal.wait_until(lambda: "librdkafka" in Path(f"/proc/{terminal.pid}/maps").read_text())
        time.sleep(0.5)  # until the client has connected
        ended = ends_as_documented(terminal, Terminal.ctrl_c)
    print(f"{ended.seconds:.2f} s")  # noqa: T201


@pytest.mark.broker
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_capture_keeps_its_file(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, way: Way
) -> None:
    """While it follows the topic, any signal ends it early, with 0 and the number of records."""
    group = unique("g")

    def follows() -> bool:
        write_log(broker.bootstrap_servers, [(0, *commit(group), 1_000)], 8)
        # The number of records that were there at the start is known, and of those that come it is not.
        return terminal.printed.rpartition(b"records copied: ")[2].rstrip().replace(b",", b"").isdigit()

    path = tmp_path / "a.parquet"
    words = ["capture", "--bootstrap-server", broker.bootstrap_servers, "-o", str(path), "--duration", "600"]
    with on_terminal(words, tmp_path / "scratch") as terminal:
        terminal.wait_until(lambda: [*tmp_path.glob(".a.parquet*.part")])
        terminal.wait_until(seldom(follows, 0.5))
        ended = terminal.end(way)
    assert (ended.exit_code, ended.said.splitlines()[-1]) == (
        0,
        f"{pq.ParquetFile(path).metadata.num_rows:,} records in {path}",
    )
    assert {one.name for one in tmp_path.iterdir()} == {"a.parquet", "scratch"}


@pytest.mark.broker
@pytest.mark.parametrize(
    ("words", "signs"),
    [
        (["serve", "--metrics-only", "--listen", "127.0.0.1:0"], (b"metrics on", b"retrying")),
        (["probe", "--interval", "1"], (b"groups rebalancing",)),
    ],
    ids=["serve", "probe"],
)
@pytest.mark.parametrize("way", [Terminal.ctrl_c, Terminal.close], ids=lambda way: way.__name__)
def test_a_command_that_goes_on_for_ever(
    broker: EmbeddedBroker,
    unique: Callable[[str], str],
    tmp_path: Path,
    words: list[str],
    signs: tuple[bytes, ...],
    way: Way,
) -> None:
    """Ends in the same way."""
    flags = topic_flags(topic_names(unique("ends")[:60]))
    kinds = {"serve": ("events", "states", "job"), "probe": ("probes",)}[words[0]]
    used = [
        word
        for name, value in zip(flags[::2], flags[1::2], strict=True)
        if name[2:-6] in kinds
        for word in (name, value)
    ]
    with on_terminal(
        [*words, "--bootstrap-server", broker.bootstrap_servers, *used], tmp_path / "scratch"
    ) as terminal:
        terminal.wait_until(lambda: all(sign in terminal.printed for sign in signs))
        ended = terminal.end(way)
        said = [line for line in ended.said.splitlines() if "groups rebalancing" not in line]
    expected = (130, ["groupreplay: interrupted (Ctrl-C)"]) if way is Terminal.ctrl_c else (129, [])
    assert (ended.exit_code, said) == expected
    assert terminal.left() == []


def test_a_second_signal_ends_at_once(deaf_server: str, tmp_path: Path) -> None:
    """Whoever asks twice does not want to wait; it is said once."""

    def twice(terminal: Terminal) -> None:
        terminal.terminate()
        time.sleep(0.1)
        terminal.terminate()

    with on_terminal(["list", "--bootstrap-server", deaf_server], tmp_path / "scratch") as terminal:
        terminal.wait_until(lambda: "librdkafka" in Path(f"/proc/{terminal.pid}/maps").read_text())
        ended = terminal.end(twice)
    assert (ended.exit_code, ended.said) == (143, "groupreplay: terminated (SIGTERM)\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["list", "-o", "csv", "--from-file", "FILE"],
        ["replay", "--from-file", "FILE"],
        ["decode", "--from-file", "FILE"],
        ["describe", "--all-groups", "-o", "json", "--from-file", "FILE"],
    ],
    ids=" ".join,
)
def test_a_stdout_that_takes_nothing(words: list[str], capture: Path) -> None:
    """A full disk, a stdout that the caller has closed, and one whose reader is gone."""
    words = [str(capture) if word == "FILE" else word for word in words]

    def end(how: str) -> tuple[int, str]:
        shell = f'exec "$@" {how}' if how.startswith(">") else f'"$@" {how}; exit ${{PIPESTATUS[0]}}'
        command = ["bash", "-c", shell, "bash", sys.executable, "-m", "groupreplay", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, without_assumptions(done.stderr)

    full, closed = end("> /dev/full"), end(">&-")
    advice = " (stdout)\n  check where stdout goes\n"
    assert full == (2, f"error: cannot write the output, No space left on device{advice}")
    assert closed == (2, f"error: cannot write the output, Bad file descriptor{advice}")
    read, write = os.pipe()
    os.close(read)
    with closing(os.fdopen(write, "w")) as stdout:
        command = [sys.executable, "-m", "groupreplay", *words]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, without_assumptions(done.stderr)) == (141, "")


def without_assumptions(errors: str) -> str:
    """Stderr without the sentence about what a capture does not say, which comes before any result."""
    return "".join(
        line for line in errors.splitlines(keepends=True) if not line.startswith("assumed, because")
    )


def test_streams_that_are_all_closed(capture: Path) -> None:
    """No file of the command becomes its stdout or stderr; the exit code is right."""
    command = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", sys.executable, "-m", "groupreplay"]
    before = capture.read_bytes()
    assert subprocess.run([*command, "list", "--from-file", str(capture)], check=False).returncode == 2
    assert subprocess.run([*command, "list", "--from-file", "nowhere"], check=False).returncode == 5
    assert capture.read_bytes() == before


@pytest.mark.parametrize(
    ("checkpoint", "says"),
    [("a.parquet/state", "Not a directory"), ("a.parquet", "Not a directory"), ("/proc/state", "")],
)
def test_a_checkpoint_that_cannot_be_written(
    capture: Path, deaf_server: str, checkpoint: str, says: str
) -> None:
    """Is said before a broker is asked and before a JVM is started."""
    words = ["run", "--bootstrap-server", deaf_server, "--checkpoint", str(capture.parent / checkpoint)]
    command = [sys.executable, "-m", "groupreplay", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: the checkpoint cannot be written: ")
    assert says in first
    assert len(rest) == 1
