"""What ``--redact`` and its key file say, as a ``Redaction``.

Knows files and flags; must not know which fields are hidden.
"""

from __future__ import annotations

from pathlib import Path

from groupreplay.state.policy.redaction import FIELDS, LEAST_KEY_BYTES, Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


def need_redaction(what: str | None, key_file: Path | None) -> Redaction:
    """The names with commas between them, and the bytes of the file without the blanks around them.

    Raises:
        GroupReplayError: one of both is missing, a name is unknown, or the key cannot be read or is too short.
    """
    names = frozenset(filter(None, (name.strip() for name in (what or "").split(","))))
    if not names or names - FIELDS.keys():
        unknown = ", ".join(sorted(names - FIELDS.keys()))
        raise _unusable(
            f"--redact cannot hide {unknown}" if unknown else "--redact does not say what to hide",
            f"name one or several of: {', '.join(FIELDS)}",
        )
    if key_file is None:
        # Hosts are few: without a key that is secret every hash could be tried out in a minute.
        raise _unusable(
            "--redact needs a key", f"make one and name it: {_make('redact.key')} --redact-key-file"
        )
    return Redaction(names, _read(key_file))


def _read(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise _unusable(
            f"cannot read the key, {error.strerror}", "check the path and its rights", file
        ) from None
    if len(key) < LEAST_KEY_BYTES:
        raise _unusable(
            f"the key has {len(key)} bytes, which is too short", f"make another: {_make(str(file))}", file
        )
    return key


def _make(file: str) -> str:
    return f"openssl rand -hex 32 > {file}"


def _unusable(what: str, fix: str, where: Path | None = None) -> GroupReplayError:
    return GroupReplayError(
        what, where=None if where is None else str(where), fix=fix, exit_code=ExitCode.USAGE
    )
