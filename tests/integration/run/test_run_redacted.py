"""The running job with ``--redact``: what it writes of living members names nobody."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from groupreplay.state.policy.context import FIELDS, Redaction
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, read_topic, running_job, topic_names
from support.kafka.clients import make_topics, new_consumer
from support.kafka.waiting import wait_until
from support.tools.hidden_names import recognised

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

KEY = b"a key of sixteen bytes and more"
CLIENT, INSTANCE, HOST = "accounting-laptop", "till-17", "/127.0.0.1"


def written(job: RunningJob) -> bytes:
    """All bytes that the job has written for others to read."""
    topics = (job.topics.events, job.topics.states, job.topics.job, job.topics.dead_letters)
    messages = [one for topic in topics for one in read_topic(job.server, topic)]
    headers = b"".join(value for one in messages for value in one.headers.values())
    return headers + b"".join((one.key or b"") + (one.value or b"") for one in messages)


def test_nobody_is_named(tmp_path: Path) -> None:
    """Joins, a document of two members and their leaving: hashes by the key stand where names would stand."""
    redaction = Redaction(frozenset(FIELDS), KEY)
    (tmp_path / "key").write_bytes(KEY + b"\n")
    flags = ("--redact", ",".join(FIELDS), "--redact-key-file", str(tmp_path / "key"), "--member-events")
    with EmbeddedBroker(offsets_partitions=4) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 2})
        with running_job(server, tmp_path / "job", topic_names("redacted"), *flags) as job:
            job.wait_caught_up()
            with (
                closing(new_consumer(server, "g", "orders", client_id=CLIENT)) as first,
                closing(
                    new_consumer(server, "g", "orders", client_id=CLIENT, group_instance_id=INSTANCE)
                ) as second,
            ):

                def both() -> bool:
                    first.poll(0.1)
                    second.poll(0.1)
                    return bool(first.assignment() and second.assignment())

                wait_until(both)
                ids = [first.memberid(), second.memberid()]
                job.wait_until(lambda: both() and len(job.documents().get("g", {}).get("members", ())) == 2)
                members = job.documents()["g"]["members"]
            job.wait_until(lambda: any("member.left" in one["type"] for one in job.events().values()))
            bytes_written = written(job)
            assert job.stop() == 143
    assert sorted(one["member_id"] for one in members) == sorted(map(redaction.hide, ids))
    assert {one["client_id"] for one in members} == {redaction.hide(CLIENT)}
    assert {one["client_host"] for one in members} == {redaction.hide(HOST)}
    assert {one["instance_id"] for one in members} == {None, redaction.hide(INSTANCE)}
    named = [text for text in (CLIENT, INSTANCE, HOST[1:], *ids) if text.encode() in bytes_written]
    assert named == []
    # The host alone is in Kafka's notation with a slash.
    assert recognised(bytes_written, {CLIENT, INSTANCE, HOST, *ids}) == set()
