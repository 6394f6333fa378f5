"""Without the extras: what reading a capture needs is there, and everything else ends with the name of its extra."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import groupreplay
from groupreplay.app.cli.program import COMMANDS, NEEDED_EXTRAS
from groupreplay.streaming.base.errors import EXTRAS

#: Hides the libraries of all extras, or of those that a script leaves in ``HIDDEN``, as if they were not installed.
HIDING = f"""
import sys
HIDDEN = {sorted(module for modules in EXTRAS.values() for module in modules)!r}
class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in HIDDEN:
            raise ModuleNotFoundError('hidden', name=name)
sys.meta_path.insert(0, Hiding())
"""
PROGRAM = f"{HIDING}\nfrom groupreplay.__main__ import main\nmain()"
#: Executes the command of each line of its input in a child, with files for what that prints, and prints its exit code.
#: A start of Python and the imports that all commands have are paid once.
FORKING = f"""{HIDING}
import json, os
import pyarrow.parquet, groupreplay.app.cli.program
from groupreplay.__main__ import main
for line in iter(sys.stdin.readline, ''):
    if (child := os.fork()) == 0:
        sys.argv[1:] = json.loads(line)
        for number, name in enumerate((os.devnull, 'stdout', 'stderr')):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
CAPTURE = ("--from-file", "night.parquet")
ASKED = ("--set", "session.timeout.ms=10000", "--draws", "10")
CLUSTER = ("--bootstrap-server", "127.0.0.1:1")
#: Command -> arguments with which it needs no extra; None: it always needs some.
ALONE = {
    "demo": None,
    "run": None,
    "check": None,
    "probe": None,
    "replay": CAPTURE,
    "list": CAPTURE,
    "describe": ("--all-groups", *CAPTURE),
    "explain": ("*", *CAPTURE),
    "report": ("--all-groups", "-o", "report.html", *CAPTURE),
    "events": None,
    "watch": None,
    "lag": CAPTURE,
    "advise": ("--all-groups", *CAPTURE),
    "ready": ("--to", "consumer", *CAPTURE),
    "whatif": ("--group", "steady-000000", *ASKED, *CAPTURE),
    "mcp": None,
    "offsets-file": None,
    "serve": None,
    "decode": CAPTURE,
    "capture": ("--show", "night.parquet"),
    "simulate": ("--groups", "1", "--seconds", "60", "-o", "other.parquet"),
    "coordinator": ("group",),
    "schema": ("timeline",),
    "bundle": None,
}
#: Arguments with which a command needs an extra, and which.
MORE = {
    "run": ("--checkpoint", "checkpoint", *CLUSTER),
    "capture": ("-o", "copy.parquet", *CLUSTER),
    "bundle": ("--spark", "4.0", "-o", "bundle.tar.gz"),
    "demo": (),
    "describe": ("--all-groups", *CLUSTER),
    "explain": ("g", *CLUSTER),
    "advise": ("g", *CLUSTER),
    "ready": ("--to", "consumer", *CLUSTER),
    "whatif": ("--group", "g", *ASKED, *CLUSTER),
    "report": ("--all-groups", "-o", "live.html", *CLUSTER),
    "coordinator": ("g", *CLUSTER),
    "offsets-file": ("event", *CLUSTER),
    "simulate": ("--to-topic", "t", *CLUSTER),
}


class HiddenExtras(NamedTuple):
    """The program in a folder, without the libraries of all extras."""

    folder: Path
    process: subprocess.Popen[str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(words), file=self.process.stdin, flush=True)
        code = int(self.process.stdout.readline())
        printed = [(self.folder / name).read_text("utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(words, code, *printed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the capture ``night.parquet``."""
    path = tmp_path_factory.mktemp("extras")
    groupreplay.simulate("steady", path / "night.parquet", groups=2, seconds=300)
    return path


@pytest.fixture(scope="module")
def program(folder: Path) -> Iterator[HiddenExtras]:
    """The program in that folder."""
    command = [sys.executable, "-I", "-c", FORKING, "groupreplay"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        yield HiddenExtras(folder, process)


def python(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A process in that folder."""
    command = [sys.executable, "-I", "-c", script, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [name for name, words in ALONE.items() if words is not None])
def test_captures_need_no_extra(program: HiddenExtras, command: str) -> None:
    """The command does its work."""
    words = ALONE[command]
    assert words is not None
    done = program.run(command, *words)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "schema"])
def test_the_missing_extras_are_named(program: HiddenExtras, command: str) -> None:
    """In one sentence, with all that the command needs; with 2, as for any wrong use, and without a traceback."""
    done = program.run(command, *MORE.get(command, CLUSTER))
    extras = NEEDED_EXTRAS.get(command, ("kafka",))
    what, fix = done.stderr.splitlines()[-2:]
    assert what.startswith("error: ")
    assert what.endswith(" is not installed")
    assert fix == f"  pip install 'groupreplay[{','.join(sorted(extras))}]'"
    assert (done.returncode, done.stdout) == (2, "")


def test_serve_for_assistants_needs_one_more(folder: Path) -> None:
    """``--mcp`` names its extra before the cluster is asked."""
    without = PROGRAM.replace("class Hiding", "HIDDEN = ['mcp', 'mcp_types']\nclass Hiding")
    done = python(folder, without, "serve", "--mcp", *CLUSTER)
    assert done.stderr == "error: mcp is not installed\n  pip install 'groupreplay[mcp]'\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_login_by_iam_needs_one_more(folder: Path) -> None:
    """A client file with ``AWS_MSK_IAM`` names the extra with AWS's signer."""
    file = folder / "iam.properties"
    file.write_text("sasl.mechanism=AWS_MSK_IAM\nsecurity.protocol=SASL_SSL\n")
    without = PROGRAM.replace("class Hiding", "HIDDEN = ['aws_msk_iam_sasl_signer']\nclass Hiding")
    done = python(folder, without, "list", *CLUSTER, "--command-config", str(file))
    assert done.stderr.splitlines()[-2:] == [
        "error: aws-msk-iam-sasl-signer-python is not installed",
        "  pip install 'groupreplay[msk]'",
    ]
    assert (done.returncode, done.stdout) == (2, "")


def test_every_command_is_tried() -> None:
    """The tables above have all commands."""
    assert set(ALONE) == set(COMMANDS)


def test_the_import_is_cheap(folder: Path) -> None:
    """``import groupreplay`` loads no library at all, and naming a function only what reading a capture needs."""
    libraries = {"pyspark", "confluent_kafka", "pandas", "pyarrow", "numpy", "click", "msgspec"}
    loaded = f"print(sorted({libraries!r} & set(sys.modules)))"
    assert python(folder, f"import sys, groupreplay; {loaded}").stdout == "[]\n"
    names = "groupreplay.replay, groupreplay.spark.group_events"
    done = python(folder, f"import sys, groupreplay; {names}; {loaded}")
    assert done.stdout == "['click', 'msgspec', 'numpy', 'pyarrow']\n"


def test_the_functions_name_the_extra(folder: Path) -> None:
    """As the commands do, also inside of an iteration."""
    script = HIDING + (
        "import groupreplay\n"
        "assert len(groupreplay.list_groups('night.parquet')) == 2\n"
        "for call in (lambda: groupreplay.list_groups(groupreplay.topic('127.0.0.1:1')),\n"
        "             lambda: list(groupreplay.replay(groupreplay.topic('127.0.0.1:1'))),\n"
        "             lambda: groupreplay.spark.group_events(None, cluster_id='c')):\n"
        "    try:\n"
        "        call()\n"
        "    except groupreplay.GroupReplayError as error:\n"
        "        print(error)\n"
    )
    assert python(folder, script).stdout.splitlines() == [
        *["confluent-kafka is not installed: pip install 'groupreplay[kafka]'"] * 2,
        "pandas is not installed: pip install 'groupreplay[spark]'",
    ]


def test_a_frame_needs_the_extra_spark_alone(folder: Path) -> None:
    """``group_events`` gets to the columns of the frame without Kafka's client library."""
    script = f"{HIDING}\nHIDDEN = {[*EXTRAS['kafka'], *EXTRAS['serve']]!r}\n" + (
        "import groupreplay, types\n"
        "frame = types.SimpleNamespace(schema=types.SimpleNamespace(fields=[]))\n"
        "try:\n"
        "    groupreplay.spark.group_events(frame, cluster_id='c')\n"
        "except groupreplay.GroupReplayError as error:\n"
        "    print(error.what)\n"
    )
    expected = "the frame has no column partition, offset, timestamp, key, value\n"
    assert python(folder, script).stdout == expected
