"""What ``run --adopt`` takes from the file of a watch, and the files that it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.log import IncidentState
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import GroupAnswer, decode_message, encode_message
from groupreplay.streaming.delivery.result_topics import NAME, ResultTopics
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.run.standby import FormerJob
from groupreplay.streaming.watch.handover import handover
from groupreplay.streaming.watch.incidents import PolledIncidents
from groupreplay.streaming.watch.own_messages import OpenAnswers
from groupreplay.streaming.watch.state_file import Change, Owner, StateFile
from streaming.watch.test_incidents import paused_readers
from support.histories.builders import CONTEXT
from support.populations import AT, MINUTE
from support.remedies import read_remedy

OWNER = Owner(cluster_id="c", era="e", partitions=50, first_start_ms=1_000, job_id="watch-1")
ANSWER = GroupAnswer(
    cluster_id="c",
    group_id="g",
    taken_ms=1,
    state="PreparingRebalance",
    broker=1,
    protocol_type=None,
    protocol=None,
)


def left_by_a_watch(path: Path, change: Change) -> Path:
    """A file with this."""
    with closing(StateFile(path)) as file:
        file.claim(OWNER)
        assert file.write(change)
    return path


def event(time: str) -> bytes:
    """An event of that time."""
    return msgspec.json.encode({"id": time, "time": time, "type": "groupreplay.group.created.v1"})


@pytest.mark.parametrize(
    ("change", "emitted_to_ms"),
    [
        (Change(), 1_000),
        (Change(passed_ms=9_000), 9_000),
        (Change(passed_ms=9_000, pending={1: event("1970-01-01T00:00:07.000Z")}), 7_000),
        (Change(passed_ms=9_000, outgoing={("webhook", 1): event("1970-01-01T00:00:08.000Z")}), 8_000),
    ],
)
def test_where_a_watch_has_ended(tmp_path: Path, change: Change, emitted_to_ms: int) -> None:
    """At the last caught-up time, or at the first event that has not reached all its readers."""
    found = handover(left_by_a_watch(tmp_path / "state.db", change))
    assert found.former == FormerJob(
        job_id="watch-1",
        cluster_id="c",
        era="e",
        first_start_ms=1_000,
        emitted_to_ms=emitted_to_ms,
        is_reported=True,
    )


def test_events_that_wait_for_topics(tmp_path: Path) -> None:
    """They count, too, although they wait with their keys and headers; documents have no time."""
    outlet = ResultTopics.__new__(ResultTopics)
    outlet.topics = TopicNames()
    rows = [
        OutputRow(Output.STATES, b"g", b'{"since_ms":1}'),
        OutputRow(Output.STATES, b"h", None),
        OutputRow(Output.EVENTS, b"g", event("1970-01-01T00:00:05.000Z"), (("ce_id", b"x"),)),
    ]
    outgoing = {(NAME, number): message for number, message in enumerate(outlet.choose(rows, ()))}
    found = handover(left_by_a_watch(tmp_path / "state.db", Change(passed_ms=9_000, outgoing=outgoing)))
    assert found.former.emitted_to_ms == 5_000


def test_answers_are_handed_over(tmp_path: Path) -> None:
    """With the mark that their own times count."""
    answers = dict(OpenAnswers({}).take([encode_message(ANSWER)], []))
    found = handover(left_by_a_watch(tmp_path / "state.db", Change(answers=answers)))
    assert [decode_message(*message) for message in found.answers] == [
        msgspec.structs.replace(ANSWER, kept=True)
    ]


def opened_by_a_watch() -> tuple[Change, OutputRow]:
    """What a watch stores that has opened an incident which no reader has yet; the row of its event."""
    incidents = PolledIncidents(CONTEXT, b"")
    (row,) = incidents.found(paused_readers(), (), AT + 5 * MINUTE)
    outgoing = {("webhook", 1): row.value or b"", ("jsonl", 2): row.value or b""}
    return Change(passed_ms=AT, incidents=incidents.to_store(AT), outgoing=outgoing), row


def test_open_incidents_are_handed_over(tmp_path: Path) -> None:
    """The finder, and as a message of the job the event that waits for two readers; neither where names are hidden."""
    change, row = opened_by_a_watch()
    path = left_by_a_watch(tmp_path / "state.db", change)
    found, publisher = handover(path), Publisher()
    topic = TopicIdentity("c", "__consumer_offsets", "e", 50, {})
    found.give(topic, publisher, TopicNames())  # type: ignore[arg-type]
    assert publisher.written == [(TopicNames().events, (row.key, row.value, row.headers))]
    assert found.incidents == msgspec.msgpack.decode(change.incidents, type=IncidentState)
    hidden = handover(path, with_incidents=False)
    assert (hidden.incidents, hidden.untold) == (None, ())
    assert hidden.former == found.former


@dataclass
class Publisher:
    """What was written."""

    written: list[object] = field(default_factory=list)

    def publish(self, topic: str, messages: Iterable[object]) -> None:
        """Notes them."""
        self.written += [(topic, message) for message in messages]

    publish_all = publish


def test_another_log_is_refused(tmp_path: Path) -> None:
    """Nothing is written then."""
    found = handover(left_by_a_watch(tmp_path / "state.db", Change()))
    publisher = Publisher()
    for cluster_id, era in (("other", "e"), ("c", "created-again")):
        topic = TopicIdentity(cluster_id, "__consumer_offsets", era, 50, {})
        with pytest.raises(GroupReplayError) as refused:
            found.give(topic, publisher, TopicNames())  # type: ignore[arg-type]
        read_remedy("streaming.run.handover: leave out --adopt", str(refused.value))
        assert (refused.value.exit_code, publisher.written) == (ExitCode.USAGE, [])
    topic = TopicIdentity("c", "__consumer_offsets", "e", 50, {})
    assert found.give(topic, publisher, TopicNames()) == found.former  # type: ignore[arg-type]


def test_files_that_are_refused(tmp_path: Path) -> None:
    """One that is missing is not made; one without a start, and one that a watch uses."""
    missing = tmp_path / "missing.db"
    with pytest.raises(GroupReplayError) as refused:
        handover(missing)
    read_remedy("streaming.run.handover: give --adopt the", str(refused.value))
    assert not missing.exists()
    StateFile(tmp_path / "empty.db").close()
    with pytest.raises(GroupReplayError, match="no state of a watch"):
        handover(tmp_path / "empty.db")
    path = left_by_a_watch(tmp_path / "used.db", Change())
    with closing(StateFile(path)) as used:
        used.claim(OWNER)
        assert used.write(Change())
        with pytest.raises(GroupReplayError, match="another process uses the state"):
            handover(path)


def test_a_log_that_has_lost_a_part(tmp_path: Path) -> None:
    """It is the same topic, and ``run`` gives its events the ids that the watch has given them since then."""
    path = left_by_a_watch(tmp_path / "state.db", Change())
    with closing(StateFile(path)) as file:
        file.begin_anew(msgspec.structs.replace(OWNER, event_era="e.1"))
    found = handover(path)
    topic = TopicIdentity("c", "__consumer_offsets", "e", 50, {})
    assert found.give(topic, Publisher(), TopicNames()).era == "e.1"  # type: ignore[arg-type]
