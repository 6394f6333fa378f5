"""The page of settings and the program agree."""

from __future__ import annotations

import re
from pathlib import Path

import click

from generators.configuration_page import page
from groupreplay.app.cli.program import COMMANDS, cli


def test_every_flag_of_every_command_is_there() -> None:
    """Section by section, each flag once, with its environment variable where it has one."""
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=\n## |\Z)", page(), re.MULTILINE | re.DOTALL))
    assert list(sections) == ["groupreplay", *COMMANDS]
    own = {"config", "debug", "no_color", "log_level", "log_format"}
    for name, section in sections.items():
        command = cli if name == "groupreplay" else cli.get_command(click.Context(cli), name)
        assert command is not None
        expected = [
            (one.opts[0], one.envvar)
            for one in command.params
            if isinstance(one, click.Option)
            and one.name != "version"
            and (command is cli or one.name not in own)
        ]
        rows = re.findall(r"^\| `([^`]+)`[^|]*(?:\\\|[^|]*)*\| (?:`([A-Z_]+)`)? *\|", section, re.MULTILINE)
        assert [(flag, variable or None) for flag, variable in rows] == expected


def test_the_file_takes_what_the_page_names(tmp_path: Path) -> None:
    """A setting under the name of its flag, in the table of its command: ``run`` would start with these."""
    path = tmp_path / "config.toml"
    path.write_text(
        '[run]\nprobe-interval = 7\nlabel = ["team=core"]\nrule = ["rebalance.stuck.threshold_ms=3000"]\n'
        'events-topic = "mine"\nprobe = false\n'
    )
    ctx = cli.make_context("groupreplay", ["--config", str(path), "run"])
    command = cli.get_command(ctx, "run")
    assert command is not None
    flags = ["--bootstrap-server", "b:1", "--checkpoint", "c"]
    given = command.make_context("run", flags, parent=ctx).params
    assert {name: given[name] for name in ("probe_interval", "label", "rule", "probe")} == {
        "probe_interval": 7.0,
        "label": {"team": "core"},
        "rule": (("rebalance.stuck.threshold_ms", "3000"),),
        "probe": False,
    }
    assert given["events_topic"] == "mine"
