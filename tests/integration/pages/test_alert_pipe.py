"""The pipe of docs/quickstart.md from events to a web hook: nothing is lost when the hook, or the pipe, fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from support.job.sink_messages import events, expired
from support.kafka.clients import make_topics, produce
from support.kafka.secured import ADMINISTRATOR, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until
from support.pages.page_shell import HOOK, blocks_of, terminal
from support.paths import ROOT
from support.receiver import receiving

pytestmark = pytest.mark.broker

PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
#: As unpleasant as a group's name can make a line of JSON.
GROUPS = ("plain", '"id":"another"', "back\\slash", "$(touch made) `touch made`", "line\nbreak", " blanks ")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with an administrator's login, and the topic of events."""
    with secured_broker(tmp_path_factory.mktemp("pipe")) as broker:
        broker.create_user(ADMINISTRATOR)
        make_topics(broker.broker.bootstrap_servers, {"group-events": 1})
        yield broker


def write(guarded: SecuredBroker, groups: tuple[str, ...]) -> list[Any]:
    """Events of now, one a group."""
    said = [replace(expired(1), time_ms=int(time.time() * 1000))]
    values = [value for group in groups for value in events(said, group)]
    produce(guarded.broker.bootstrap_servers, "group-events", [(b"key", value) for value in values])
    return [json.loads(value) for value in values]


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
    with receiving() as hook:
        hook.status = 503
        with pipe(guarded, before, hook.url):
            wait_until(lambda: len(hook.asked) >= 2)
            assert hook.taken == []
            hook.status = 204
            wait_until(lambda: len((before / "sent.ids").read_text().splitlines()) == len(first))
        assert hook.taken == first
        missed = write(guarded, GROUPS[3:])
        (after / "sent.ids").write_bytes((before / "sent.ids").read_bytes())
        with pipe(guarded, after, hook.url):
            wait_until(lambda: len(hook.taken) == len(GROUPS))
            last = write(guarded, ("while it runs",))
            wait_until(lambda: len(hook.taken) == len(GROUPS) + 1)
    assert sorted(hook.taken[len(first) : -1], key=itemgetter("id")) == sorted(missed, key=itemgetter("id"))
    assert hook.taken[-1:] == last
