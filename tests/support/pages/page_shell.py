"""A shell in which the blocks of a page run as they stand there, against a broker with logins."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.kafka.kafka_classes import java_command
from support.kafka.secured import ADMINISTRATOR, SecuredBroker
from support.kafka.waiting import wait_until

#: The scripts of Kafka that pages call -> the classes that they start.
TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
#: The address of a web hook on the pages.
HOOK = "https://hooks.example.com/kafka"
END_SECONDS = 240.0


def blocks_of(page: str, heading: str) -> list[str]:
    """The shell blocks of a section of a page."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found


class Terminal:
    """A shell in which blocks run one after the other, in a folder that may have a checkout."""

    def __init__(
        self, guarded: SecuredBroker, folder: Path, words: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        self._words, self._folder = {"broker:9092": guarded.checked, **words}, folder
        programs = folder / "programs"
        programs.mkdir()
        for name, java_class in TOOLS.items():
            _script(programs / name, f'exec {shlex.join(java_command(java_class))} "$@"')
        _script(programs / "groupreplay", f'exec {sys.executable} -m groupreplay "$@"')
        _script(programs / "python3", f'exec {sys.executable} "$@"')
        guarded.properties(folder, user=ADMINISTRATOR)
        (folder / "ca.pem").write_bytes(guarded.ca.read_bytes())
        self.log = folder / "terminal.log"
        variables = {
            **os.environ,
            "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # The libraries are those of the tests; pip installs the package alone.
            "PIP_NO_DEPS": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **environment,
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=variables,
            text=True,
            stdin=subprocess.PIPE,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def type(self, text: str) -> None:
        """Gives lines to the shell."""
        assert self._shell.stdin is not None
        for word, replacement in self._words.items():
            text = text.replace(word, replacement)
        self._shell.stdin.write(text)
        self._shell.stdin.flush()

    def run(self, block: str, code: int = 0) -> None:
        """Runs a block to its end; the exit code is that of its last command."""
        mark = self._folder / "mark"
        mark.unlink(missing_ok=True)
        self.type(f"{block}\necho $? > mark.new && mv mark.new mark\n")
        wait_until(lambda: mark.exists() or self._shell.poll() is not None, END_SECONDS, pause=0.1)
        assert mark.exists(), self.log.read_text()
        assert int(mark.read_text()) == code, self.log.read_text()

    def follow(self, block: str, output: str) -> Path:
        """Runs a block that does not end in the background, with its output in a file."""
        self.run(f"{{ {block.strip()}\n}} > {output} 2>&1 &\n")
        return self._folder / output

    def close(self) -> None:
        """Ends the shell and everything that it has started."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        for word in ("TERM", "KILL"):
            subprocess.run(
                ["kill", f"-{word}", "--", f"-{self._shell.pid}"], capture_output=True, check=False
            )
            try:
                self._shell.wait(20)
            except subprocess.TimeoutExpired:
                continue


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/bash\n{line}\n")
    path.chmod(0o755)


@contextmanager
def terminal(
    guarded: SecuredBroker,
    folder: Path,
    words: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """A shell that ends with everything in it; ``words`` are replaced in what is typed."""
    found = Terminal(guarded, folder, words or {}, environment or {})
    try:
        yield found
    finally:
        found.close()
