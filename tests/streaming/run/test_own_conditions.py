"""What the driver publishes itself: nothing while the query reads, and what the query would write while it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from groupreplay.state import Context
from groupreplay.state.events.event import Evidence
from groupreplay.state.job import job_state
from groupreplay.state.job.job_state import JobState
from groupreplay.state.job.observations import HeartbeatObservation, ObservationPlace, RoundObservation
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.snapshot.group_snapshot import ActiveCondition, ConditionKey
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import CONDITIONS_KEY, STATE_KEY, JobStateMessage, OutputRow
from groupreplay.streaming.contract.probe_messages import ProbeMessage, decode_message, encode_message
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.probe_rows import ProbeFilter, job_observation
from groupreplay.streaming.engine.wire import JOB_TAG, to_wire
from groupreplay.streaming.run.own_conditions import OwnConditions
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.sinks.job_topic import OwnMessage
from support.job.captures import CLUSTER_ID
from support.job.jobs import comparable
from support.job.probes import beat, moment, summed_up
from support.job.progress import IDENTITY, batch
from support.kafka.waiting import wait_until

TOPICS = TopicNames()
CONTEXT = Context(cluster_id=CLUSTER_ID, era="e", job_id="j", emit_since_ms=1)
FILTER = ProbeFilter(topic=TOPICS.probes, cluster_id=CLUSTER_ID, job_id="j", run_id="r")
START = 1_700_000_000_000
MINUTE = 60_000


class Topics:
    """``group-probes`` and ``group-job`` in memory; a reader of both."""

    def __init__(self) -> None:
        self.probes: list[OwnMessage] = []
        self.job: list[OwnMessage] = []
        self.begun: list[tuple[dict[int, int], int]] = []
        self.broken = False
        self._next = (0, 0)

    def write(self, message: ProbeMessage) -> None:
        """Appends to ``group-probes``."""
        place = len(self.probes)
        written = OwnMessage(TOPICS.probes, 0, place, moment(message), *encode_message(message))
        self.probes.append(written)

    def write_job(self, key: bytes, value: bytes) -> None:
        """Appends to ``group-job``."""
        self.job.append(OwnMessage(TOPICS.job, 0, len(self.job), None, key, value))

    def last_state(self) -> JobStateMessage | None:
        """See ``OwnMessages``."""
        self._fail()
        self._next = (self._next[0], len(self.job))
        states = [one.value for one in self.job if one.key == STATE_KEY]
        return msgspec.json.decode(states[-1] or b"", type=JobStateMessage) if states else None

    def begin(self, read_to: Mapping[int, int], since_ms: int) -> None:
        """See ``OwnMessages``."""
        self._fail()
        self.begun.append((dict(read_to), since_ms))
        self._next = (read_to.get(0, -1) + 1, self._next[1])

    def new_messages(self) -> list[OwnMessage]:
        """See ``OwnMessages``: first those of ``group-job``."""
        self._fail()
        found = [*self.job[self._next[1] :], *self.probes[self._next[0] :]]
        self._next = (len(self.probes), len(self.job))
        return found

    def _fail(self) -> None:
        if self.broken:
            raise GroupReplayError("no broker")


class Driver:
    """A driver, and a query that reads when it is told to."""

    def __init__(self, topics: Topics | None = None) -> None:
        self.topics = topics or Topics()
        self.now_ms = START
        self.published: list[tuple[str, bytes, dict[str, Any]]] = []
        #: Topics that cannot be written.
        self.refused: set[str] = set()
        self.report = JobReport(IDENTITY, seconds=lambda: self.now_ms / 1_000)
        self.blob: bytes | None = None
        self.read = 0
        self.of_query: list[OutputRow] = []
        self.batches = 0
        self.own = self._started()

    def _started(self) -> OwnConditions:
        return OwnConditions(
            messages=self.topics,
            topics=TOPICS,
            probe_filter=FILTER,
            report=self.report,
            context=lambda: CONTEXT,
            publish=self._publish,
            clock=lambda: self.now_ms,
            seconds=lambda: self.now_ms / 1_000,
        )

    def restart(self) -> None:
        """Another process on the same checkpoint."""
        self.report = JobReport(IDENTITY, seconds=lambda: self.now_ms / 1_000)
        self.own = self._started()

    def _publish(self, topic: str, row: OutputRow) -> None:
        if topic in self.refused:
            raise GroupReplayError("no broker")
        self.published.append((topic, row.key, msgspec.json.decode(row.value or b"")))

    def query(self) -> None:
        """A batch of the query: it reads everything, and its messages go to ``group-job``."""
        packed = []
        for one in self.topics.probes[self.read :]:
            seen = _observation(one)
            packed += [] if seen is None else [to_wire(seen)]
        self.read = len(self.topics.probes)
        result = advance(
            JOB_TAG, self.blob, packed, now_ms=self.now_ms, recorded_ms=self.now_ms, context=CONTEXT
        )
        self.blob = result.blob
        self.of_query += [one for one in result.rows if one.event_type is not None]
        for row in result.rows:
            if row.key == STATE_KEY:
                self.topics.write_job(row.key, row.value or b"")
        self.report.take([batch(self.batches, {}, read_to={TOPICS.probes: {0: self.read}})])
        self.batches += 1

    def minute(self, *, unanswered: tuple[int, ...] = (), reads: bool = True) -> None:
        """A minute of heartbeats, each read by the query if it reads."""
        for _ in range(6):
            self.now_ms += 10_000
            message = beat(at=self.now_ms, caught_up=self.now_ms)
            self.topics.write(
                msgspec.structs.replace(message, unanswered=unanswered, told_to=self.report.told_to)
            )
            if reads:
                self.query()
            self.own.tick()

    def events(self) -> list[tuple[str, str, str]]:
        """Id, what and status of each event that the driver has published."""
        found = [value for topic, _, value in self.published if topic == TOPICS.events]
        return [(one["id"], one["data"].get("what", ""), one["data"]["status"]) for one in found]

    def conditions(self) -> list[str]:
        """What the last document of conditions from the driver has."""
        values = [
            value for topic, key, value in self.published if (topic, key) == (TOPICS.job, CONDITIONS_KEY)
        ]
        return [one["what"] for one in values[-1]["conditions"]]


def _observation(message: OwnMessage) -> Any:
    place = ObservationPlace(message.topic, message.partition, message.offset)
    return job_observation(decode_message(message.key, message.value), place, message.append_ms, FILTER)


def of_query(driver: Driver) -> dict[str, dict[str, Any]]:
    """The query's events by id, without what depends on the time of writing."""
    return {one["id"]: one for one in map(comparable, map(_value, driver.of_query))}


def _value(row: OutputRow) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(row.value or b"")
    return value


def test_while_the_query_reads_the_driver_is_silent() -> None:
    """It evaluates the same, and publishes nothing of it."""
    driver = Driver()
    driver.minute()
    driver.minute(unanswered=(3,))
    driver.minute()
    assert driver.published == []
    assert [(_value(one)["data"]["what"], _value(one)["data"]["status"]) for one in driver.of_query] == [
        ("brokers_silent", "firing"),
        ("brokers_silent", "resolved"),
    ]


def test_while_the_query_stands_still_the_driver_reports() -> None:
    """Beginning and end, each with the document; what the query writes later has the same ids and contents."""
    driver = Driver()
    driver.minute()
    driver.minute(unanswered=(3,), reads=False)
    assert [one[1:] for one in driver.events()] == [("brokers_silent", "firing")]
    assert driver.conditions() == ["brokers_silent"]
    driver.minute(reads=False)
    assert [one[1:] for one in driver.events()] == [
        ("brokers_silent", "firing"),
        ("brokers_silent", "resolved"),
    ]
    assert driver.conditions() == []
    driver.now_ms += 60 * MINUTE
    driver.query()
    mine = {one["id"]: one for one in (comparable(v) for t, _, v in driver.published if t == TOPICS.events)}
    assert of_query(driver) == mine
    assert len(mine) == 2
    driver.minute()
    assert len(driver.of_query) == len(driver.events()) == 2


def test_what_was_told_in_time_is_not_told_again_by_a_late_query() -> None:
    """The heartbeats carry up to where the driver has published; a condition that still holds has one event."""
    driver = Driver()
    driver.minute()
    for _ in range(10):
        driver.minute(unanswered=(3,), reads=False)
    driver.query()
    driver.minute(unanswered=(3,))
    assert len(driver.events()) == 1
    assert list(of_query(driver)) == [driver.events()[0][0]]


def test_a_query_that_was_only_slow() -> None:
    """Within three triggers of a finished batch the events are the query's; after that they are told once."""
    driver = Driver()
    driver.minute()
    driver.topics.write(summed_up(at=driver.now_ms, rights="missing"))
    driver.own.tick()
    driver.now_ms += 29_999
    driver.own.tick()
    assert driver.published == []
    driver.now_ms += 1
    for _ in range(3):
        driver.own.tick()
    assert [topic for topic, _, _ in driver.published] == [TOPICS.events, TOPICS.job]


def with_condition(text: bytes) -> bytes:
    """A state with an active condition whose text somebody has written."""
    key = ConditionKey("job.blind", "no_rights")
    return job_state.write(JobState(active={key: ActiveCondition(17, (), Evidence.LOG, text)}))


def test_the_driver_goes_on_from_the_query_s_state() -> None:
    """At a start: what the query has seen counts; nothing of another job's state, or of one that cannot be read."""
    for job_id, era, state, expected in (
        ("j", "e", None, ("brokers_silent", "resolved")),
        ("another", "e", None, None),
        ("j", "e.1", None, None),
        ("j", "e", b"\x63", None),
        ("j", "e", with_condition(b"{}"), None),
    ):
        driver = Driver()
        driver.minute()
        driver.minute(unanswered=(3,))
        stored = JobWatch.from_snapshot(CONTEXT, driver.blob or b"").snapshot_for_driver()
        message = JobStateMessage(cluster_id=CLUSTER_ID, job_id=job_id, era=era, state=state or stored)
        driver.topics.write_job(STATE_KEY, msgspec.json.encode(message))
        del driver.topics.probes[:-2]
        driver.restart()
        driver.topics.probes.clear()
        driver.topics.probes += [OwnMessage(TOPICS.probes, 0, n, None, b"", b"") for n in range(20)]
        driver.read = 20
        driver.minute(reads=False)
        assert [one[1:] for one in driver.events()] == ([expected] if expected else [])
        (read_to, since_ms) = driver.topics.begun[-1]
        assert read_to == ({0: 11} if expected else {})
        assert since_ms == driver.now_ms - MINUTE + 10_000 - 60 * MINUTE


def test_a_driver_that_starts_again_in_an_outage() -> None:
    """It publishes the same once more, and nothing under another id: the former one has told it in time."""
    driver = Driver()
    driver.minute()
    for _ in range(5):
        driver.minute(unanswered=(3,), reads=False)
    driver.restart()
    for _ in range(5):
        driver.minute(unanswered=(3,), reads=False)
    assert len(driver.events()) == 2
    assert len({one[0] for one in driver.events()}) == 1
    assert driver.conditions() == ["brokers_silent"]


def test_a_new_state_of_the_query_replaces_the_driver_s() -> None:
    """Both are the same again after a change of the rules; what is behind the state is read once more."""
    driver = Driver()
    driver.minute()
    driver.topics.write(summed_up(at=driver.now_ms, rights="missing"))
    driver.own.tick()
    driver.query()
    driver.topics.write(summed_up(at=driver.now_ms, rights="ok"))
    driver.own.tick()
    assert [read_to for read_to, _ in driver.topics.begun] == [{0: 0}, {0: 6}]
    driver.own.tick()
    driver.now_ms += 30_000
    driver.own.tick()
    assert [one[1:] for one in driver.events()] == [("no_rights", "resolved")]


def test_a_sink_that_refuses_is_tried_again() -> None:
    """Nothing is lost or told twice, and heartbeats claim only what was published."""
    driver = Driver()
    driver.minute()
    driver.refused = {TOPICS.events, TOPICS.job}
    driver.topics.write(summed_up(at=driver.now_ms, rights="missing"))
    driver.now_ms += 60_000
    for _ in range(2):
        with pytest.raises(GroupReplayError):
            driver.own.tick()
    assert (driver.report.told_to, driver.published) == (0, [])
    # Events may be what stops the query: the document is written once, and shows what holds.
    driver.refused = {TOPICS.events}
    for _ in range(2):
        with pytest.raises(GroupReplayError):
            driver.own.tick()
    assert ([topic for topic, _, _ in driver.published], driver.conditions()) == ([TOPICS.job], ["no_rights"])
    driver.refused = set()
    driver.own.tick()
    assert [one[1:] for one in driver.events()] == [("no_rights", "firing")]
    assert driver.report.told_to == 7
    driver.own.tick()
    assert len(driver.published) == 2


def test_topics_that_cannot_be_read_are_begun_again() -> None:
    """From the query's last state; what was published stays published."""
    driver = Driver()
    driver.minute()
    driver.minute(unanswered=(3,), reads=False)
    driver.topics.broken = True
    with pytest.raises(GroupReplayError):
        driver.own.tick()
    driver.topics.broken = False
    driver.minute(unanswered=(3,), reads=False)
    assert len(driver.events()) == 1


def test_the_messages_of_others_are_none_of_the_job_s() -> None:
    """Another cluster, another job, a date ahead of its append time, no message at all."""
    driver = Driver()
    driver.minute()
    at = driver.now_ms
    other = msgspec.structs.replace(summed_up(at=at, rights="missing"), cluster_id="other")
    for message in (other, beat(at=at, caught_up=at - 60 * MINUTE, job="k")):
        driver.topics.write(message)
    ahead = OwnMessage(
        TOPICS.probes, 0, 8, at, *encode_message(summed_up(at=at + 2 * MINUTE, rights="missing"))
    )
    driver.topics.probes += [ahead, ahead._replace(offset=9, key=b"x", value=b"\xff")]
    driver.now_ms += 60_000
    driver.own.tick()
    assert driver.published == []


def test_when_the_driver_gets_the_state_of_the_job() -> None:
    """With the first heartbeat, with every event, and once in ten minutes; never one that a broker would refuse."""
    blob, written = None, []
    silent = range(7 * MINUTE, 9 * MINUTE, 10_000)
    for offset, at in enumerate(range(0, 25 * MINUTE, 10_000)):
        unanswered = (3,) if at in silent else ()
        beat = HeartbeatObservation(at, ObservationPlace(TOPICS.probes, 0, offset), at, unanswered=unanswered)
        result = advance(JOB_TAG, blob, [to_wire(beat)], now_ms=at, recorded_ms=at, context=CONTEXT)
        blob = result.blob
        for row in result.rows:
            if row.key == STATE_KEY:
                state = msgspec.json.decode(row.value or b"", type=JobStateMessage)
                assert JobWatch.from_snapshot(CONTEXT, state.state).read_to == {0: offset}
                written.append(at)
    assert written == [10_000, 7 * MINUTE + 30_000, 9 * MINUTE, 10 * MINUTE, 20 * MINUTE]
    many = dict.fromkeys(range(200000), (9, 5))
    beat = RoundObservation(1, ObservationPlace(TOPICS.probes, 0, 0), {}, "missing", many, None)
    huge = advance(JOB_TAG, None, [to_wire(beat)], now_ms=1, recorded_ms=1, context=CONTEXT)
    assert [row.key for row in huge.rows] == [b"\0job", CONDITIONS_KEY]


def test_the_thread_survives_whatever_happens() -> None:
    """A topic that cannot be read now is read later."""
    driver = Driver()
    driver.topics.broken = True
    thread = driver.own.background()
    thread.start()
    driver.topics.broken = False
    driver.topics.write(summed_up(at=driver.now_ms, rights="missing"))

    def told() -> bool:
        driver.now_ms += 1_000
        return len(driver.published) == 2

    wait_until(told)
    thread.close()
