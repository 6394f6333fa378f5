"""A small Maven repository on the loopback interface, with or without TLS, and Ivy settings that use it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import ssl
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from groupreplay.streaming.local.ivy import Coordinate


def jar(text: str) -> bytes:
    """A jar with one file that contains this text."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("text"), text)
    return content.getvalue()


@dataclass
class MavenRepository:
    """The folder with the repository's files, and the names of the jars that were downloaded."""

    settings: Path
    folder: Path
    jars_served: list[str] = field(default_factory=list)

    def add(self, coordinate: str, content: bytes, needs: tuple[str, ...] = ()) -> str:
        """Adds a jar and its pom; returns the jar's SHA-256 in hex."""
        for extension, written in (("jar", content), ("pom", _pom(coordinate, needs))):
            path = self.folder / _path(coordinate, extension)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written)
        return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def serve(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[MavenRepository]:
    """Serves an empty repository; the Ivy settings file is written to ``folder``."""
    repository = MavenRepository(folder / "ivysettings.xml", folder / "repository")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(repository.folder, repository.jars_served))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    root = f"http{'s' if tls else ''}://localhost:{server.server_port}/"
    repository.settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root="{root}"/></resolvers></ivysettings>',
        encoding="utf-8",
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield repository
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _path(coordinate: str, extension: str) -> str:
    named = Coordinate.parse(coordinate)
    folder = f"{named.group.replace('.', '/')}/{named.name}/{named.version}"
    return f"{folder}/{named.name}-{named.version}.{extension}"


def _pom(coordinate: str, needs: tuple[str, ...]) -> bytes:
    def tags(text: str) -> str:
        named = Coordinate.parse(text)
        return (
            f"<groupId>{named.group}</groupId><artifactId>{named.name}</artifactId>"
            f"<version>{named.version}</version>"
        )

    dependencies = "".join(f"<dependency>{tags(need)}</dependency>" for need in needs)
    return (
        f"<project><modelVersion>4.0.0</modelVersion>{tags(coordinate)}"
        f"<dependencies>{dependencies}</dependencies></project>"
    ).encode()


def _handler(folder: Path, jars_served: list[str]) -> type[SimpleHTTPRequestHandler]:
    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts, directory=str(folder))

        def do_GET(self) -> None:
            if self.path.endswith(".jar") and Path(self.translate_path(self.path)).is_file():
                jars_served.append(self.path.rpartition("/")[2])
            super().do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Logs nothing."""

    return Handler
