"""``groupreplay events`` on the command line; with a broker in tests/streaming/sinks/test_event_topic.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupreplay.state import Severity
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.engine.replay import Filter
from groupreplay.streaming.sinks import event_topic
from groupreplay.streaming.sinks.event_topic import Wanted
from support.job.captures import invoke


def test_flags_choose_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jsonl prints the messages unchanged; messages that are not events are counted on stderr."""
    opened: list[tuple[object, ...]] = []

    class Topic:
        unreadable = 2

        def __init__(self, *arguments: object) -> None:
            opened.append(arguments)

        def read(self, *, follow: bool) -> Iterator[bytes]:
            yield b'{"follow":%s}' % str(follow).lower().encode()

    monkeypatch.setattr(event_topic, "EventTopic", Topic)
    words = (
        "events --bootstrap-server h:1 --events-topic e --follow --since 5 --group a* --type rebalance.stuck"
    )
    result = invoke(*words.split(), "--min-severity", "WARN", "-o", "jsonl")
    assert (result.exit_code, result.stdout) == (0, '{"follow":true}\n')
    assert result.stderr == "2 messages in e are not events\n"
    types = frozenset({"groupreplay.rebalance.stuck.v1"})
    chosen = Filter(types=types, since_ms=5, least_severity=Severity.WARN)
    wanted = Wanted(groups=("a*",), filter=chosen)
    assert opened == [(Cluster(bootstrap_servers="h:1"), "e", wanted)]


def test_what_follows_has_no_end() -> None:
    """--follow and --until contradict each other."""
    result = invoke("events", "--bootstrap-server", "h:1", "--follow", "--until", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave out either --follow or --until" in result.stderr
