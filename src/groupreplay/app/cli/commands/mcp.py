"""``groupreplay mcp``: answers about a cluster, captures or log folders for assistants that speak MCP.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupreplay.app.cli.command import typed_words, with_settings
from groupreplay.app.cli.flags import retention_flags, rules_file_flag
from groupreplay.app.cli.inputs import LogInput, log_and_probes_flags

if TYPE_CHECKING:
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """The flags of ``mcp``: those that each of its commands takes."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    rules: RulesSource = rules_file_flag()


@with_settings("mcp", McpSettings)
def command(settings: McpSettings) -> None:
    """Answer an assistant over stdin and stdout (Model Context Protocol): groups, causes, events, lag.

    Reads only. Each question is a command of groupreplay with the flags that are given here; docs/mcp.md has the tools.
    """
    from groupreplay.app.mcp.answers import Commands
    from groupreplay.app.mcp.server import make_server

    settings.log.source()
    # An assistant shows why its server did not start; a cluster may come later, and each question asks it.
    if (recorded := LogInput(values=settings.log.values).recorded()) is not None:
        recorded.open()
    settings.rules.load()
    before, flags = typed_words()
    make_server(Commands(flags, before)).run("stdio")
