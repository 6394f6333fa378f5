"""The error where the library of an extra is missing, and the extras of pyproject.toml."""

from __future__ import annotations

import sys

import pytest
from packaging.utils import canonicalize_name

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.extras import EXTRAS, naming_extras, needing_extra
from support.requirements import project_requirements


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_extra_has_the_library(extra: str) -> None:
    """What the error tells the user to install brings the library; nothing of it comes without the extra."""
    libraries = set(EXTRAS[extra].values())
    without = {canonicalize_name(one.name) for one in project_requirements()}
    assert libraries <= {canonicalize_name(one.name) for one in project_requirements(extra)} - without


def test_the_extra_dev_has_all() -> None:
    """So that one install is enough for the tests."""
    (own,) = [one for one in project_requirements("dev") if one.name == "groupreplay"]
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
