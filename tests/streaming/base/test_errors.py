"""Errors: their line, near names, and the extra of a missing library."""

from __future__ import annotations

import sys

import pytest
from packaging.utils import canonicalize_name

from groupreplay.streaming.base.errors import (
    EXTRAS,
    ExitCode,
    GroupReplayError,
    did_you_mean,
    naming_extras,
    needing_extra,
)
from support.requirements import project_requirements


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


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_extra_has_the_library(extra: str) -> None:
    """What the error tells the user to install brings the library; nothing of it comes without the extra."""
    libraries = set(EXTRAS[extra].values())
    without = {canonicalize_name(requirement.name) for requirement in project_requirements()}
    assert (
        libraries
        <= {canonicalize_name(requirement.name) for requirement in project_requirements(extra)} - without
    )


def test_the_extra_dev_has_all() -> None:
    """So that one install is enough for the tests."""
    (own,) = [requirement for requirement in project_requirements("dev") if requirement.name == "groupreplay"]
    assert own.extras == set(EXTRAS)


def test_the_error_names_the_extra() -> None:
    """In one sentence that can be copied, for a module inside of the library, too."""
    with pytest.raises(GroupReplayError) as error, naming_extras():
        raise ModuleNotFoundError("no", name="confluent_kafka.admin")
    assert str(error.value) == "confluent-kafka is not installed: pip install 'groupreplay[kafka]'"
    assert error.value.exit_code is ExitCode.USAGE


def test_all_missing_extras_of_a_command_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one after the other, each after another install."""
    monkeypatch.setitem(sys.modules, "starlette", None)
    error = needing_extra(ModuleNotFoundError("no", name="uvicorn"), ["kafka", "serve"])
    assert str(error) == "uvicorn is not installed: pip install 'groupreplay[serve]'"
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    error = needing_extra(ModuleNotFoundError("no", name="uvicorn"), ["kafka", "serve"])
    assert str(error) == "uvicorn is not installed: pip install 'groupreplay[kafka,serve]'"


def test_other_modules_are_no_extras() -> None:
    """A bug stays what it is."""
    with pytest.raises(ModuleNotFoundError, match="no such"), naming_extras():
        raise ModuleNotFoundError("no such", name="gone")
