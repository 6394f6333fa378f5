"""What a run can be told, and what it refuses.

What cannot be made of ``--redact`` and its key file; what can is shown where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import (
    Cluster,
    RunSettings,
    TopicNames,
    default_master,
    need_redaction,
)
from support.job.captures import invoke
from support.reachable import reachable_folder

CLUSTER = Cluster(bootstrap_servers="b:9092")


def test_the_sink_is_the_source_unless_told() -> None:
    """The five topics are on the watched cluster by default."""
    other = Cluster(bootstrap_servers="other:9092")
    assert RunSettings(source=CLUSTER, checkpoint="c").sink_cluster is CLUSTER
    assert RunSettings(source=CLUSTER, checkpoint="c", sink=other).sink_cluster is other


def test_the_pause_between_batches() -> None:
    """The trigger; a single run waits a second at most."""

    def batch_seconds(trigger_seconds: float, *, once: bool) -> float:
        settings = RunSettings(source=CLUSTER, checkpoint="c", trigger_seconds=trigger_seconds, once=once)
        return settings.batch_seconds

    found = [batch_seconds(trigger, once=once) for once in (False, True) for trigger in (0.1, 10.0)]
    assert found == [0.1, 10.0, 0.1, 1.0]


def test_no_password_in_any_text_form() -> None:
    """Settings end up in logs and error messages."""
    cluster = Cluster(bootstrap_servers="b:9092", properties={"sasl.jaas.config": "hunter2"})
    settings = RunSettings(source=cluster, checkpoint="c")
    assert "hunter2" not in f"{cluster!r} {settings!r} {settings}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"checkpoint": " "},
        {"trigger_seconds": 0},
        {"shuffle_partitions": 0},
        {"max_offsets_per_trigger": 0},
        {"probe_interval_seconds": 0.5},
        {"ends_interval_seconds": 0.5},
        {"standby": True, "take_over": True},
        {"standby": True, "once": True},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    """A wrong setting is an error of usage that names the flag, before anything is started."""
    with pytest.raises(GroupReplayError) as caught:
        RunSettings(**{"source": CLUSTER, "checkpoint": "c", **wrong})
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        *(
            (lambda name=name: TopicNames(events=name), "is not a valid topic name")
            for name in ("", ".", "..", "a b", "é", "x" * 250)
        ),
        (lambda: TopicNames(events="x", states="x"), "same name"),
        (lambda: Cluster(bootstrap_servers=""), "--bootstrap-server"),
    ],
)
def test_wrong_names_and_addresses_are_refused(make: Callable[[], object], error: str) -> None:
    """Topic names that a broker would refuse, one topic for two kinds of message, and an empty address."""
    with pytest.raises(GroupReplayError, match=error):
        make()


def test_the_default_master_forgives_a_failed_task() -> None:
    """``local[N]`` alone gives up at the first lost connection."""
    assert default_master().endswith(",4]")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--redact", "hosts"], "--redact needs --redact-key-file"),
        (["--redact", "hosts,names", "--redact-key-file", "K"], "--redact cannot replace names"),
        (["--redact-key-file", "K"], "--redact has no names"),
        (
            ["--redact", "hosts", "--redact-key-file", "K"],
            "cannot read the key, No such file or directory (K)",
        ),
        (["--redact", "hosts", "--redact-key-file", "/dev/null"], "the key is too short: 0 bytes"),
    ],
)
def test_what_cannot_hide(tmp_path: Path, words: list[str], said: str) -> None:
    """A usage error that names the flag or the file, and how a key is made."""
    result = invoke("decode", "--from-file", tmp_path, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {said}")


def test_the_key_without_the_blanks_around_it(tmp_path: Path) -> None:
    """An editor's line end is not part of it; blanks between the names do no harm."""
    file = tmp_path / "key"
    file.write_bytes(b" sixteen bytes or more\r\n")
    redaction = need_redaction("hosts, member-id", file)
    assert (redaction.hidden, redaction.key) == ({"hosts", "member-id"}, b"sixteen bytes or more")


def test_a_key_that_others_can_read(caplog: pytest.LogCaptureFixture) -> None:
    """It works, with a warning that has the mode and the remedy; the key that an error proposes would be private."""
    with reachable_folder() as folder:
        file = folder / "key"
        file.write_bytes(b"sixteen bytes or more")
        file.chmod(0o640)
        need_redaction("hosts", file)
        assert caplog.messages == [
            f"every user of its group can read the key of --redact in {file} (mode 0640): chmod 600 {file}"
        ]
    with pytest.raises(GroupReplayError) as caught:
        need_redaction("hosts", None)
    assert caught.value.fix == "create a key: (umask 077; openssl rand -hex 32 > redact.key)"
