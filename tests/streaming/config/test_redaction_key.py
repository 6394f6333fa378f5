"""What cannot be made of ``--redact`` and its key file; what can is shown where it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.redaction_key import need_redaction
from support.job.captures import invoke
from support.reachable import reachable_folder


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
