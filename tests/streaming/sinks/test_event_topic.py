"""The events of the job, read back from their topic."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.engine.replay import Filter
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sinks.event_topic import EventTopic, SinkReader, Wanted
from support.job.captures import invoke
from support.job.probes import beat, summed_up
from support.kafka.waiting import wait_until
from support.kafka.written_topics import WrittenTopics
from support.tools.hostile_json import BYTES

pytestmark = pytest.mark.broker
AT = 1_767_225_600_000


def event(
    number: int, group: str | None, *, severity: int = 9, name: str = "group.emptied"
) -> dict[str, Any]:
    """A CloudEvent of this second."""
    return {
        "id": f"e{number}",
        "type": f"groupreplay.{name}.v1",
        "time": timestamp(AT + 1_000 * number),
        "sequence": f"{number:05d}",
        "severitynumber": severity,
        "severitytext": {9: "INFO", 13: "WARN", 17: "ERROR"}[severity],
        "subject": group or "job",
        "data": {"group_id": group, "generation": number},
    }


class Topic:
    """A topic of two partitions to write events into; each is written at the time at which it happened."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.topics = WrittenTopics(cluster.bootstrap_servers)
        self.topics.create(name)

    def write(self, partition: int, *values: Mapping[str, Any] | bytes) -> None:
        """Into one partition, in this order."""
        for value in values:
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            at_ms = AT if isinstance(value, bytes) else AT + 1_000 * int(value["id"][1:])
            self.topics.write(self.name, b"", text, at_ms=at_ms, partition=partition)

    def command(self, *words: object) -> Any:
        """``groupreplay events`` on this topic."""
        where = ("--bootstrap-server", self.cluster.bootstrap_servers, "--events-topic", self.name)
        return invoke("events", *where, *words)


@pytest.fixture
def topic(broker: EmbeddedBroker, unique: Callable[[str], str]) -> Topic:
    """Two groups and the job itself, some of it twice, and something that is no event."""
    made = Topic(Cluster(bootstrap_servers=broker.bootstrap_servers), unique("events"))
    made.write(
        0, event(1, "pay-a"), event(4, "pay-a", severity=17, name="rebalance.stuck"), event(1, "pay-a")
    )
    made.write(
        1, event(3, "search", severity=13), b"no event", event(200, None, severity=17, name="job.blind")
    )
    return made


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ([], ["e1", "e3", "e4", "e200"]),
        (["--group", "pay-*"], ["e1", "e4"]),
        (["--group", "pay-*", "--group", "search"], ["e1", "e3", "e4"]),
        (["--min-severity", "warn"], ["e3", "e4", "e200"]),
        (["--min-severity", "ERROR", "--type", "rebalance.stuck"], ["e4"]),
        (["--since", AT + 3_000, "--until", AT + 4_000], ["e3"]),
        (["--since", AT + 150_000], ["e200"]),
    ],
)
def test_what_is_there(topic: Topic, words: list[object], ids: list[str]) -> None:
    """By time, each once, as it was written; all of it, or what is asked for."""
    result = topic.command("-o", "jsonl", *words)
    assert result.exit_code == 0
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ids


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--since", "0s"],
            "no event for --since {now} in {topic}: there are older events, "
            "the latest of 2026-01-01 00:03:20.000 (UTC)",
        ),
        (
            ["--group", "serch"],
            "there is no group 'serch' in the events of {topic}: did you mean search? 2 groups; {events}",
        ),
        (
            ["--group", "search", "--min-severity", "error"],
            "no event for --group search --min-severity error in {topic}: there are {events}; "
            "from 2026-01-01 00:00:01.000 to 2026-01-01 00:03:20.000 (UTC)",
        ),
    ],
)
def test_nothing_is_there(topic: Topic, words: list[object], line: str) -> None:
    """The nearest group, the events that there are, the latest one; exit code 5."""
    result = topic.command("-o", "jsonl", *words)
    assert (result.exit_code, result.stdout) == (5, "")
    events = "5 events: group.emptied 3, rebalance.stuck 1, job.blind 1; INFO 2, WARN 1, ERROR 2"
    found = re.sub(r"--since \S+ \S+ in", "--since {now} in", result.stderr.splitlines()[-1])
    assert found == "nothing found: " + line.format(topic=topic.name, events=events, now="{now}")


def test_an_empty_topic(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """It says so: a quiet cluster is no error, but a group or a time that is asked for was not found."""
    made = Topic(Cluster(bootstrap_servers=broker.bootstrap_servers), unique("events"))
    result = made.command()
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"no event in {made.name}: there are no events\n"
    for words in (["--group", "g"], ["--since", "2h"]):
        result = made.command(*words)
        assert (result.exit_code, result.stdout) == (5, "")
        assert re.fullmatch(
            rf"nothing found: no event for {words[0]} .* in {made.name}: there are no events\n", result.stderr
        )


def test_the_time_zone(topic: Topic) -> None:
    """Of the heading, the lines, and of times without an offset on the command line."""
    result = topic.command("--time-zone", "Asia/Kolkata", "--until", "2026-01-01T05:30:02")
    assert [" ".join(line.split()[:4]) for line in result.stdout.splitlines()] == [
        "TIME (Asia/Kolkata) LEVEL GROUP",
        "2026-01-01 05:30:01.000 INFO pay-a",
    ]


def test_as_lines(topic: Topic) -> None:
    """Date, time, severity, group and words; what is no event is counted on stderr."""
    result = topic.command("--group", "search")
    assert result.stdout == (
        "TIME (UTC)               LEVEL  GROUP           EVENT\n"
        "2026-01-01 00:00:03.000  WARN   search          "
        "group emptied: the last member has gone, generation 3\n"
    )
    assert result.stderr == f"1 messages in {topic.name} are not events\n"


def test_what_comes(topic: Topic) -> None:
    """After what was there, and without repeating it; no group is left behind."""
    groups_before = topic.topics.groups()
    wanted = Wanted(groups=("pay-*",), filter=Filter(since_ms=AT))
    events = EventTopic(topic.cluster, topic.name, wanted).read(follow=True)
    found = [json.loads(next(events))["id"] for _ in range(2)]
    topic.write(1, event(4, "pay-a"), event(5, "search"), event(6, "pay-b"))
    found.append(json.loads(next(events))["id"])
    events.close()
    assert found == ["e1", "e4", "e6"]
    assert topic.topics.groups() == groups_before


def test_bad_messages_do_not_end_the_command(topic: Topic) -> None:
    """Every one is counted, whatever its bytes are, and the events around it are printed."""
    good = topic.command("-o", "jsonl").stdout
    topic.write(0, *BYTES)
    for output in ("jsonl", "table"):
        result = topic.command("-o", output)
        assert result.exit_code == 0
        assert result.stderr == f"{1 + len(BYTES)} messages in {topic.name} are not events\n"
        headings = 1 if output == "table" else 0
        assert len(result.stdout.splitlines()) == headings + len(good.splitlines())
    assert topic.command("-o", "jsonl").stdout == good


def test_no_topic(topic: Topic) -> None:
    """The error names the command that creates it, and the flags that may be wrong."""
    with pytest.raises(GroupReplayError) as caught:
        next(EventTopic(topic.cluster, "nothing-here", Wanted()).read(follow=False))
    assert caught.value.exit_code == ExitCode.DATA
    assert caught.value.what == "there is no topic 'nothing-here', or this login may not see it"
    assert "groupreplay run" in str(caught.value.fix)


def test_reads_what_the_job_wrote(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Repeats of an event are dropped, documents are kept by group until their tombstone, the last heartbeat counts.

    The reader leaves no group behind.
    """
    names = TopicNames(events=unique("events"), states=unique("states"), probes=unique("probes"))
    topics = WrittenTopics(broker.bootstrap_servers)
    groups_before = topics.groups()
    with SinkReader(broker.bootstrap_servers, names) as reader:
        assert not reader.find_topics()
        topics.create(names.events, names.states, names.probes, partitions=1)
        wait_until(reader.find_topics)
        topics.write(names.events, b"g", *(b'{"id":"e%d"}' % number for number in (1, 2, 1, 3)))
        for group, document in (("kept", {"state": "Empty"}), ("gone", {}), ("kept", {"state": "Stable"})):
            topics.write(names.states, group.encode(), json.dumps(document).encode())
        topics.write(names.states, b"gone", None)
        for message in (
            beat(at=5, caught_up=5),
            summed_up(at=5),
            beat(at=7, caught_up=7),
            beat(at=9, caught_up=9),
        ):
            topics.write(names.probes, *encode_message(message))
        found = []

        def all_there() -> bool:
            found.extend(reader.events(0.2))
            return len(found) >= 3 and reader.caught_up_ms == 9 and list(reader.documents) == ["kept"]

        wait_until(all_there)
        assert found == [{"id": "e1"}, {"id": "e2"}, {"id": "e3"}]
        assert reader.documents == {"kept": {"state": "Stable"}}
    assert topics.groups() - groups_before == set()
