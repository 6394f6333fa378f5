"""The pipe of docs/quickstart.md from events to a web hook: nothing is lost when the hook, or the pipe, fails."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.job.sink_messages import events, expired
from support.kafka.clients import make_topics, produce
from support.kafka.secured import ADMINISTRATOR, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until
from support.pages.page_shell import HOOK, blocks_of, terminal
from support.paths import ROOT

pytestmark = pytest.mark.broker

PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
#: As unpleasant as a group's name can make a line of JSON.
GROUPS = ("plain", '"id":"another"', "back\\slash", "$(touch made) `touch made`", "line\nbreak", " blanks ")


class Hook:
    """A web hook that refuses while ``refuses``; ``taken`` are the ids and groups of what it has taken."""

    def __init__(self) -> None:
        self.refuses = True
        self.refused = 0
        self.taken: list[tuple[str, str]] = []


@contextmanager
def web_hook() -> Iterator[tuple[str, Hook]]:
    """Its address, and what comes."""
    hook = Hook()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if hook.refuses:
                hook.refused += 1
            else:
                hook.taken.append((event["id"], event["data"]["group_id"]))
            self.send_response(503 if hook.refuses else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/kafka", hook
        server.shutdown()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with an administrator's login, and the topic of events."""
    with secured_broker(tmp_path_factory.mktemp("pipe")) as broker:
        broker.create_user(ADMINISTRATOR)
        make_topics(broker.broker.bootstrap_servers, {"group-events": 1})
        yield broker


def write(guarded: SecuredBroker, groups: tuple[str, ...]) -> list[tuple[str, str]]:
    """Events of now, one a group: their ids and groups."""
    said = [replace(expired(1), time_ms=int(time.time() * 1000))]
    values = [value for group in groups for value in events(said, group)]
    produce(guarded.broker.bootstrap_servers, "group-events", [(b"key", value) for value in values])
    return [(json.loads(value)["id"], json.loads(value)["data"]["group_id"]) for value in values]


@contextmanager
def pipe(guarded: SecuredBroker, folder: Path, address: str) -> Iterator[None]:
    """The pipe of the page, in a folder; killed in the end."""
    _, _, sending, _ = blocks_of(PAGE, "5. The first alert")
    # The login of the job was made in an earlier section of the page.
    with terminal(guarded, folder, {HOOK: address, "client.properties": "admin.properties"}) as shell:
        shell.follow(sending, "printed")
        yield
    assert not (folder / "made").exists()


def test_nothing_is_lost(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Refused events come again until they are taken; a pipe that was killed goes on with what was not sent."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    first = write(guarded, GROUPS[:3])
    with web_hook() as (address, hook):
        with pipe(guarded, before, address):
            wait_until(lambda: hook.refused >= 2)
            assert hook.taken == []
            hook.refuses = False
            wait_until(lambda: len((before / "sent.ids").read_text().splitlines()) == len(first))
        assert hook.taken == first
        missed = write(guarded, GROUPS[3:])
        (after / "sent.ids").write_bytes((before / "sent.ids").read_bytes())
        with pipe(guarded, after, address):
            wait_until(lambda: len(hook.taken) == len(GROUPS))
            last = write(guarded, ("while it runs",))
            wait_until(lambda: len(hook.taken) == len(GROUPS) + 1)
    assert sorted(hook.taken[len(first) : -1]) == sorted(missed)
    assert hook.taken[-1:] == last
