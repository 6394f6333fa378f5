"""One error for users: what, where, and what to do."""

from __future__ import annotations

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, did_you_mean


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (GroupReplayError("it broke"), "it broke"),
        (GroupReplayError("it broke", where="here"), "it broke (here)"),
        (GroupReplayError("it broke", where="here", fix="mend it"), "it broke (here): mend it"),
        (GroupReplayError("it broke", fix="mend it"), "it broke: mend it"),
    ],
)
def test_an_error_is_one_line(error: GroupReplayError, text: str) -> None:
    """Whatever is known is in it, in one order."""
    assert str(error) == text


def test_exit_codes_are_a_contract() -> None:
    """Scripts branch on these numbers."""
    names = ("OK", "UNEXPECTED", "USAGE", "CONNECTION", "AUTHORISATION", "DATA", "FOUND")
    assert {code.name: int(code) for code in ExitCode} == {name: code for code, name in enumerate(names)}
    assert GroupReplayError("x").exit_code == ExitCode.UNEXPECTED


def test_the_nearest_name() -> None:
    """A typing error is answered; a word that resembles nothing is not."""
    known = ("severity", "threshold")
    assert [did_you_mean(name, known) for name in ("serverity", "colour")] == ["did you mean severity? ", ""]
