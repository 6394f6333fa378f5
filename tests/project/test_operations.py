"""Facts in docs/operations.md agree with the code, and its code blocks work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.app.check.checklist import _CHECKS
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.local.platforms import NEWEST, connector_coordinate
from groupreplay.streaming.spark.session import _JVM_CONF
from support.job.captures import invoke, parsed
from support.paths import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SHELL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def test_every_check_has_a_row() -> None:
    """The table under "check" has a row for each check."""
    section = PAGE.partition("\n## Before the first start: check\n")[2].partition("\n## ")[0]
    rows = "\n".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))
    others = {"rights": "each right", "sink rights": "each right", "output topics": "each output topic"}
    missing = [one.name for one in _CHECKS if others.get(one.name, f"`{one.name}`") not in rows]
    assert missing == []


def test_commands_are_valid() -> None:
    """Each command line of the program has known flags and valid values."""
    lines = [line for block in SHELL for line in block.splitlines() if line.startswith("groupreplay ")]
    assert [parsed(shlex.split(line)[1:]).info_name for line in lines] == ["check", "run", "run", "run"]


def test_the_submitted_job() -> None:
    """The spark-submit recipe has the connector's version, the settings of our session, and a valid command."""
    (block,) = [one for one in SHELL if one.startswith("spark-submit")]
    words = shlex.split(block.replace("\\\n", " "))
    assert words[words.index("--packages") + 1] == connector_coordinate(NEWEST.connector)
    conf = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--conf")
    assert conf == {name: _JVM_CONF[name] for name in conf}
    context = parsed(words[words.index("job.py") + 1 :])
    assert context.params["checkpoint"].startswith("hdfs:///")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell")
def test_the_submitted_program(tmp_path: Path) -> None:
    """The lines that prepare a submission create a file that runs this program."""
    (block,) = [one for one in SHELL if "job.py" in one and "spark-submit" not in one]
    (tmp_path / "groupreplay-0-py3-none-any.whl").write_bytes(b"")
    subprocess.run(["sh", "-ec", block], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "job.py", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("groupreplay, version ")
    assert (tmp_path / "groupreplay.zip").exists()


def test_the_configuration_of_the_service(tmp_path: Path) -> None:
    """The configuration is valid: only the credential that systemd provides is missing here."""
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    config = tmp_path / "config.toml"
    config.write_text(block)
    result = invoke("--config", config, "run")
    assert result.exit_code == ExitCode.USAGE
    assert "/run/credentials/groupreplay.service/client.properties" in result.stderr
    unit = (ROOT / "deploy" / "groupreplay.service").read_text(encoding="utf-8")
    assert "LoadCredential=client.properties:/etc/groupreplay/client.properties" in unit
