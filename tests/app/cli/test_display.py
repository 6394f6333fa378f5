"""Display flags before and after the command's name."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from groupreplay.app.cli.display import Display, display_options


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Other tests rely on the level of the program's logger."""
    logger = logging.getLogger("groupreplay")
    before = logger.level, logger.handlers[:], logger.propagate
    yield
    logger.setLevel(before[0])
    logger.handlers, logger.propagate = before[1:]


@pytest.mark.parametrize(
    ("words", "env", "level", "log_format"),
    [
        (["c"], {}, "WARNING", "text"),
        (["--log-level", "info", "c"], {}, "info", "text"),
        (["c", "--log-level", "info", "--log-format", "json"], {}, "info", "json"),
        (["--log-level", "info", "c", "--log-level", "error"], {}, "error", "text"),
        (["--log-level", "info", "c"], {"GROUPREPLAY_LOG_LEVEL": "error"}, "info", "text"),
        (["c", "--debug"], {}, "WARNING", "text"),
    ],
)
def test_both_places(words: list[str], env: dict[str, str], level: str, log_format: str) -> None:
    """The flag after the name overrides the one before it; a variable overrides neither."""
    display = Display()

    @click.group()
    @display_options
    def program() -> None:
        """The program."""

    @program.command("c")
    @display_options
    def command() -> None:
        """A command."""

    assert CliRunner().invoke(program, words, env=env, obj=display).exit_code == 0
    assert (display.log_level.lower(), display.log_format) == (level.lower(), log_format)
    expected = "DEBUG" if display.debug else level.upper()
    if words != ["c"]:
        assert logging.getLevelName(logging.getLogger("groupreplay").level) == expected
