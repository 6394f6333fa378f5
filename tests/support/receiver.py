"""A receiver of webhooks on this machine that answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """``status`` is what it answers, with these ``headers``; ``taken`` are bodies that it has answered with 2xx."""

    url: str = ""
    status: int = 202
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    taken: list[Any] = field(default_factory=list)


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """Listens until the end of the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.asked.append(({name.lower(): text for name, text in self.headers.items()}, body))
            if receiver.status < 300:
                receiver.taken.append(json.loads(body))
            self.send_response(receiver.status)
            for name, text in receiver.headers.items():
                self.send_header(name, text)
            self.end_headers()
            if receiver.status >= 300:
                self.wfile.write(b"as the test wants")

        def log_message(self, *args: Any) -> None:
            del args

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
