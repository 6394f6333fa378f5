"""Commands in the boxes of docs/runbook.md and in messages, run as they stand there, with names for placeholders."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support.kafka.kafka_classes import java_command
from support.kafka.secured import SecuredBroker
from support.paths import ROOT

#: Kafka's scripts start these classes.
CLASSES = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


def remedies(section: str) -> list[list[str]]:
    """The words of each command in the boxes of a section, in order."""
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^##+ {re.escape(section)}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    boxes = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [line.split() for box in boxes for line in box.splitlines()]


def run_remedy(words: list[str], names: Mapping[str, str], server: str) -> str:
    """Runs one command; ``names`` are the values of its placeholders. Returns its output, or writes it to a file."""
    known = {"B": f"--bootstrap-server {server}", **names}
    text = [known.get(word, word) for word in words]
    text = [
        ":".join(known.get(part, part) for part in word.split(":")) if ":" in word else word for word in text
    ]
    target = text.index(">") if ">" in text else len(text)
    command = shlex.split(" ".join(text[:target]))
    if command[0] in CLASSES:
        command = java_command(CLASSES[command[0]], *command[1:])
    else:
        assert command[0] == "groupreplay"
        command = [sys.executable, "-m", "groupreplay", *command[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    if target < len(text):
        Path(text[target + 1]).write_text(done.stdout, encoding="utf-8")
    return done.stdout


def run_printed(line: str, servers: str = "") -> str:
    """Runs a printed command of Kafka's, with these servers in place of ``HOST:PORT``; returns its output."""
    script, *words = shlex.split(line.replace("HOST:PORT", servers))
    command = java_command(CLASSES[script], *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_administrator(guarded: SecuredBroker, line: str) -> str:
    """Runs a printed command as the administrator, who may do so without a login at another address."""
    return run_printed(line.replace(guarded.checked, guarded.broker.bootstrap_servers))
