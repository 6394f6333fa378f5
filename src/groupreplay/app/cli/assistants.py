"""``serve --mcp``: what answers assistants about each cluster. Each question is a command that reads with its login.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from groupreplay.app.serve.watched_cluster import ClusterToServe

#: Commands that read a log at once; further ones wait.
_COMMANDS: Final = 2


def assistants_of(clusters: Sequence[ClusterToServe], before: Sequence[str]) -> Mapping[str, Any]:
    """ASGI applications by the names of the clusters; ``before`` was typed before the name of the command."""
    from anyio import CapacityLimiter

    from groupreplay.app.mcp.answers import Commands
    from groupreplay.app.mcp.server import http_application, make_server

    places = CapacityLimiter(_COMMANDS)
    commands = {cluster.name: Commands(reading_flags(cluster), before, places=places) for cluster in clusters}
    return {name: http_application(make_server(reading)) for name, reading in commands.items()}


def reading_flags(cluster: ClusterToServe) -> Sequence[str]:
    """The flags by which a command reads what the pages of this cluster are made of."""
    from groupreplay.app.mcp.answers import given
    from groupreplay.streaming.config.settings import TopicNames

    source, sink, probes = cluster.source, cluster.sink, cluster.topics.probes
    flags = given(
        bootstrap_server=source.bootstrap_servers,
        command_config=_text(cluster.source_file),
        sink_bootstrap_server=None if sink == source else sink.bootstrap_servers,
        sink_command_config=None if sink == source else _text(cluster.sink_file),
        # One that is named must be there.
        probes_topic=None if probes == TopicNames().probes else probes,
    )
    return tuple(flags)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
