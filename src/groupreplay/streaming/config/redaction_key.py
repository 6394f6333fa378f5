"""Makes a ``Redaction`` from ``--redact`` and the key file."""

from __future__ import annotations

import shlex
from pathlib import Path

from groupreplay.state.policy.redaction import FIELDS, LEAST_KEY_BYTES, Redaction
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.base.file_modes import warn_readable


def need_redaction(what: str | None, key_file: Path | None) -> Redaction:
    """A redaction of the comma-separated names; the key is the file's content without surrounding whitespace.

    Raises:
        GroupReplayError: a flag is missing, a name is unknown, or the key cannot be read or is too short.
    """
    names = frozenset(filter(None, (name.strip() for name in (what or "").split(","))))
    if not names or names - FIELDS.keys():
        unknown = ", ".join(sorted(names - FIELDS.keys()))
        what = f"--redact cannot replace {unknown}" if unknown else "--redact has no names"
        raise unusable(what, None, f"give one or more of: {', '.join(FIELDS)}")
    if key_file is None:
        # There are few hosts: without a secret key somebody could try out all hashes within a minute.
        raise unusable("--redact needs --redact-key-file", None, f"create a key: {_make('redact.key')}")
    return Redaction(names, _read(key_file))


def _read(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        what = f"cannot read the key, {error.strerror}"
        raise unusable(what, file, "check the path and its permissions") from None
    warn_readable(file, "key of --redact")
    if len(key) < LEAST_KEY_BYTES:
        raise unusable(f"the key is too short: {len(key)} bytes", file, f"create another: {_make(str(file))}")
    return key


def _make(file: str) -> str:
    return f"(umask 077; openssl rand -hex 32 > {shlex.quote(file)})"
