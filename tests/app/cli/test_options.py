"""Options with environment variables."""

from __future__ import annotations

import click
from click.testing import CliRunner

from groupreplay.app.cli.options import option


def test_environment_variable() -> None:
    """Each flag has a variable of the same name; the flag wins."""

    @click.command()
    @option("--bootstrap-server")
    @option("--probe/--no-probe")
    def command(bootstrap_server: str, probe: bool) -> None:
        click.echo(f"{bootstrap_server} {probe}")

    env = {"GROUPREPLAY_BOOTSTRAP_SERVER": "env:1", "GROUPREPLAY_PROBE": "1"}
    assert CliRunner().invoke(command, [], env=env).output == "env:1 True\n"
    assert CliRunner().invoke(command, ["--bootstrap-server", "flag:1"], env=env).output == "flag:1 True\n"
