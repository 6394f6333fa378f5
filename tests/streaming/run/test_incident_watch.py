"""Incidents while a job runs: found in its topics once, under the same ids after it was killed, and as in a capture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pytest

from groupreplay.state import Context
from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.log import IncidentState, Places
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.run.incident_watch import IncidentWatch
from groupreplay.streaming.run.status import JobReport
from groupreplay.timeline.incidents import IncidentFinder
from support.job.probes import summed_up
from support.job.progress import IDENTITY
from support.populations import AT, MINUTE, SECOND, Population

TOPICS = TopicNames()
CONTEXT = Context(cluster_id="test", era="e")


@dataclass
class Topics:
    """Messages in memory, each topic with one partition."""

    topics: TopicNames = TOPICS
    written: dict[str, list[tuple[bytes | None, bytes | None]]] = field(
        default_factory=lambda: {TOPICS.events: [], TOPICS.states: [], TOPICS.probes: []}
    )

    def begin(self, since_ms: int) -> Places:
        """From the first message on."""
        return {topic: {0: 0} for topic in self.written}

    def read(self, places: Places) -> Iterator[tuple[str, bytes | None, bytes | None]]:
        """What follows the places."""
        for topic, messages in self.written.items():
            for key, value in messages[places[topic][0] :]:
                yield topic, key, value
            places[topic] = {0: len(messages)}

    def write(self, said: Population) -> None:
        """All documents and events of these groups."""
        self.written[TOPICS.states] += [(b"", json.dumps(body).encode()) for body in said.documents]
        self.written[TOPICS.events] += [(b"", json.dumps(body).encode()) for body in said.bodies]


@dataclass
class Store:
    """The state in memory."""

    state: IncidentState | None = None

    def incidents(self) -> IncidentState | None:
        """What was stored last."""
        return self.state

    def note_incidents(self, state: IncidentState) -> None:
        """Stores it."""
        self.state = state


@dataclass
class Job:
    """A run with its topics and its store."""

    topics: Topics = field(default_factory=Topics)
    store: Store = field(default_factory=Store)
    published: list[OutputRow] = field(default_factory=list)
    report: JobReport = field(default_factory=lambda: JobReport(IDENTITY))
    broken: bool = False

    def watch(self) -> IncidentWatch:
        """The watch of a run that starts now."""
        return IncidentWatch(
            messages=self.topics,
            progress=self.report,
            context=lambda: CONTEXT,
            publish=self._publish,
            clock=lambda: self.report.caught_up_ms or 0,
            store=self.store,
        )

    def _publish(self, topic: str, row: OutputRow) -> None:
        if self.broken:
            raise OSError("no broker")
        assert topic == TOPICS.events
        self.published.append(row)
        self.topics.written[topic].append((row.key, row.value))

    def ids(self) -> list[str]:
        """The ids of what was published."""
        return [json.loads(row.value or b"")["id"] for row in self.published]


def told() -> tuple[Job, Population]:
    """A job whose topics say that the readers of one topic have stopped."""
    job, population = Job(), Population.of(60)
    for group in population.change(12, topic="orders"):
        population.pauses(group, AT, until_ms=AT + 20 * MINUTE)
    job.topics.write(population)
    return job, population


def test_incident_is_published_as_a_capture_has_it() -> None:
    """What the job publishes when it has caught up has the ids and the facts of a finder that reads all at once."""
    job, population = told()
    finder = IncidentFinder()
    finder.take([item for item in population.items if item.at_ms > 0])
    expected = [event.fact for event in finder.advance(AT + 60 * MINUTE)]
    watch = job.watch()
    for minutes in (3, 10, 24, 40):
        job.report.caught_up_ms = AT + minutes * MINUTE
        watch.tick()
    bodies = [json.loads(row.value or b"") for row in job.published]
    assert [body["type"] for body in bodies] == [
        "groupreplay.incident.opened.v1",
        "groupreplay.incident.resolved.v1",
    ]
    assert [(body["data"]["incident_id"], body["data"]["group_count"]) for body in bodies] == [
        (getattr(fact, "incident_id", None), 12) for fact in expected
    ]
    assert [body["data"]["group_id"] for body in bodies] == [None, None]


def test_killed_job_finds_the_same_under_the_same_id() -> None:
    """A job that is killed after it has published, and before it has stored, publishes the same id again."""
    job, _ = told()
    job.report.caught_up_ms = AT + MINUTE
    job.watch().tick()
    stored = job.store.state
    job.report.caught_up_ms = AT + 4 * MINUTE
    job.watch().tick()
    job.store.state = stored
    job.watch().tick()
    first, second = job.ids()
    assert first == second


def test_incident_of_a_watch_ends_under_its_id() -> None:
    """The finder of a watch has read no topics: it goes on with all that the job has written."""
    job, population = told()
    opened_ms = AT + 5 * MINUTE
    finder = IncidentFinder()
    finder.take([item for item in population.items if item.at_ms <= opened_ms])
    (opened,) = finder.advance(opened_ms)
    job.store.state = IncidentState(finder=finder.snapshot(), read_to={})
    job.topics.written[TOPICS.events] = [
        (b"", json.dumps(body).encode())
        for body in population.bodies
        if (timestamp_ms(body["time"]) or 0) > opened_ms
    ]
    watch = job.watch()
    for minutes in (10, 24, 40):
        job.report.caught_up_ms = AT + minutes * MINUTE
        watch.tick()
    (row,) = job.published
    body = json.loads(row.value or b"")
    assert body["type"] == "groupreplay.incident.resolved.v1"
    assert body["data"]["incident_id"] == getattr(opened.fact, "incident_id", None)


def test_nothing_is_lost_while_the_topic_cannot_be_written() -> None:
    """An incident that could not be published is published by a later tick."""
    job, _ = told()
    watch = job.watch()
    job.broken, job.report.caught_up_ms = True, AT + 4 * MINUTE
    with pytest.raises(OSError, match="no broker"):
        watch.tick()
    job.broken = False
    watch.tick()
    assert len(job.ids()) == 1


def test_nothing_is_found_before_the_log_was_read() -> None:
    """A query that has not caught up may still write what belongs to the time before."""
    job, _ = told()
    job.watch().tick()
    assert (job.ids(), job.store.state) == ([], None)


def test_leaders_prove_a_move() -> None:
    """Rounds of the prober in the topic say who led the partition that all groups are in."""
    job, population = Job(), Population.of(60)
    for group in population.change(12, partition=12):
        population.pauses(group, AT, until_ms=AT + 20 * MINUTE)
    for number, at_ms in ((1, AT - 10 * MINUTE), (3, AT + 5 * SECOND)):
        summary = summed_up(at=at_ms, brokers={1: None, 3: None})
        summary = msgspec.structs.replace(summary, cluster_id="test", leaders={12: number})
        job.topics.written[TOPICS.probes].append(encode_message(summary))
    job.topics.write(population)
    job.report.caught_up_ms = AT + 4 * MINUTE
    job.watch().tick()
    (row,) = job.published
    data = json.loads(row.value or b"")["data"]
    assert (data["certainty"], data["text"].rpartition(": ")[2]) == (
        "proven",
        "partition 12 moved from broker 1 to broker 3",
    )
