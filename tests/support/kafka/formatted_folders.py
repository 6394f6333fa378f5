"""Folders of brokers that were formatted once in a process: formatting costs a JVM, a third of a broker's start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from groupreplay.streaming.local.broker import EmbeddedBroker

#: Kafka's own tool, each time.
BY_KAFKA: Final = EmbeddedBroker._format
#: What Kafka writes when it formats depends on these; ids of folders may be the same in different clusters.
_READ: Final = ("node.id", "process.roles")


def format_once() -> Callable[[EmbeddedBroker, list[str], Path], None]:
    """Formats by Kafka's own tool once for each version and node, and copies what it wrote to the later folders."""
    written: dict[tuple[object, ...], dict[Path, bytes]] = {}

    def formatted(broker: EmbeddedBroker, tool: list[str], properties: Path) -> None:
        settings = dict(line.partition("=")[::2] for line in properties.read_text("utf-8").splitlines())
        key = (tool[tool.index("-cp") + 1], *(settings[name] for name in _READ))
        folder = Path(settings["log.dirs"])
        if key not in written:
            BY_KAFKA(broker, tool, properties)
            files = (path for path in folder.rglob("*") if path.is_file())
            written[key] = {path.relative_to(folder): path.read_bytes() for path in files}
            return
        for path, content in written[key].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    return formatted
