"""The systemd units are valid, restricted, and contain no secret."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode
from support.job.captures import invoke
from support.paths import ROOT

UNIT = ROOT / "deploy" / "groupreplay.service"
PAGES = ROOT / "deploy" / "groupreplay-serve.service"
WATCH = ROOT / "deploy" / "groupreplay-watch.service"
each = pytest.mark.parametrize("source", [UNIT, PAGES, WATCH], ids=lambda path: path.stem)


def settings(source: Path = UNIT) -> dict[str, str]:
    """The unit's settings, none of which is repeated."""
    pairs = re.findall(r"^(\w+)=(.*)$", source.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@each
def test_systemd_accepts_the_unit(tmp_path: Path, source: Path) -> None:
    """systemd-analyze reports no unknown setting and no invalid value."""
    # systemd-analyze also checks that the program exists, and it is not installed where tests run.
    unit = tmp_path / source.name
    unit.write_text(source.read_text().replace("/opt/groupreplay/bin/groupreplay", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if source.name in line]
    # Growing pauses came with systemd 254; earlier ones say that they ignore them.
    assert [
        line for line in complaints if not re.search(r"'Restart(Steps|MaxDelaySec)'.*ignoring", line)
    ] == []


def test_the_unit_starts_a_valid_command(tmp_path: Path) -> None:
    """The command line is valid: with a configuration without a checkpoint, only that option is missing."""
    program, *words = settings()["ExecStart"].split()
    config = tmp_path / "config.toml"
    config.write_text('bootstrap-server = "127.0.0.1:1"\n')
    result = invoke(*[str(config) if word == "/etc/groupreplay/config.toml" else word for word in words])
    assert Path(program).name == "groupreplay"
    assert (result.exit_code, "Missing option '--checkpoint'" in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(("source", "flag"), [(PAGES, "--history-file"), (WATCH, "--state")])
def test_the_pages_start_a_valid_command(tmp_path: Path, source: Path, flag: str) -> None:
    """The command line is valid, and its file is in the folder that systemd makes for the unit."""
    found = settings(source)
    program, *words = found["ExecStart"].split()
    config = tmp_path / "config.toml"
    config.write_text("[serve]\n[watch]\n")
    result = invoke(*[str(config) if word == "/etc/groupreplay/config.toml" else word for word in words])
    assert Path(program).name == "groupreplay"
    assert (result.exit_code, "No cluster is named" in result.stderr) == (ExitCode.USAGE, True)
    assert words[words.index(flag) + 1].startswith(f"/var/lib/{found['StateDirectory']}/")
    assert found["StateDirectoryMode"] == "0700"


@each
def test_permanent_failures_are_not_retried(source: Path) -> None:
    """The unit lists the program's exit codes for usage, authorisation and data."""
    permanent = {ExitCode.USAGE, ExitCode.AUTHORISATION, ExitCode.DATA}
    found = settings(source)
    assert found["Restart"] == "on-failure"
    assert {int(code) for code in found["RestartPreventExitStatus"].split()} == permanent
    assert found["SuccessExitStatus"] == "143"


@each
def test_everything_else_is_tried_for_ever(source: Path) -> None:
    """An outage of days must not need an operator: no limit of starts, and pauses of up to five minutes."""
    found = settings(source)
    assert found["StartLimitIntervalSec"] == "0"
    assert "StartLimitBurst" not in found
    pauses = [int(found[name]) for name in ("RestartSec", "RestartMaxDelaySec", "RestartSteps")]
    assert pauses == [10, 300, 6]


@each
def test_the_unit_is_restricted_and_holds_no_secret(source: Path) -> None:
    """The unit uses systemd's restrictions, and the login is a credential."""
    found = settings(source)
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "DynamicUser"):
        assert found[name] == "yes"
    assert found["ProtectSystem"] == "strict"
    assert found["CapabilityBoundingSet"] == ""
    assert found["LoadCredential"].startswith("client.properties:")
    text = source.read_text().replace("auth-token-file", "")
    assert re.search(r"(?i)password|secret=|token|jaas", text) is None
