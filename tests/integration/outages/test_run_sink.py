"""The sink is away, not writable, without a topic, or refuses a message: the job waits or repairs, and goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories.builders import generation, member
from support.job.jobs import (
    RunningJob,
    interleaved,
    last_batch,
    read_json,
    read_topic,
    running_job,
    topic_names,
    write_log,
)
from support.kafka.clients import set_configs
from support.kafka.three_brokers import three_brokers
from support.tools.written_load import compare_with_replay, written_load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 3
#: An hour; GROUPREPLAY_SINK_AWAY_SECONDS makes it shorter.
SINK_AWAY_SECONDS = float(os.environ.get("GROUPREPLAY_SINK_AWAY_SECONDS", "3600"))
TOPICS = topic_names("sink")


@contextmanager
def job_under_load(
    server: str, folder: Path, end: Callable[[RunningJob], object], log_server: str | None = None
) -> Iterator[RunningJob]:
    """A job in whose log something happens until the block ends; then ``end``. The process stays the same."""
    elsewhere = ["--bootstrap-server", log_server, "--sink-bootstrap-server", server] if log_server else []
    with running_job(server, folder / "checkpoint", TOPICS, "--member-events", *elsewhere) as job:
        job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
        pid = job.process.pid
        with written_load(log_server or server, PARTITIONS) as lives:
            job.wait_until(lambda: lives() > 5)
            yield job
            written = lives()
            job.wait_until(lambda: lives() > written + 5)
        end(job)
        assert (job.process.pid, job.process.exit_code) == (pid, None)


@pytest.mark.timeout(SINK_AWAY_SECONDS + 900)
def test_an_hour_without_the_sink(tmp_path: Path) -> None:
    """The sink is another cluster than the log: everything of that hour is written when it is back."""
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as log, EmbeddedBroker(offsets_partitions=1) as sink:
        servers = sink.bootstrap_servers, log.bootstrap_servers

        def compare(job: RunningJob) -> int:
            return compare_with_replay(job, "--sink-bootstrap-server", servers[0], log_server=servers[1])

        with job_under_load(servers[0], tmp_path, compare, servers[1]) as job:
            job.wait_caught_up()
            sink.stop()
            time.sleep(SINK_AWAY_SECONDS)  # what is tested is an outage of this length
            sink.start()
            back = time.monotonic()
            job.wait_caught_up()
            print(f"caught up {time.monotonic() - back:.1f} s after the sink was back")  # noqa: T201


def test_a_sink_that_takes_no_messages(tmp_path: Path) -> None:
    """Too few replicas are in sync for an hour or a minute: the brokers answer everything but writes."""
    with (
        three_brokers(PARTITIONS) as cluster,
        job_under_load(cluster.bootstrap_servers, tmp_path, compare_with_replay) as job,
    ):
        job.wait_caught_up()
        names, minimum = [TOPICS.events, TOPICS.states], {"min.insync.replicas": 3}
        set_configs(cluster.bootstrap_servers, ConfigResource.Type.TOPIC, names, minimum)
        cluster.nodes[3].kill()
        job.wait_until(lambda: has_printed(job, "the brokers accept no messages"))
        cluster.start(3)
        job.wait_caught_up()


@pytest.mark.parametrize("kinds", [("states", "dead_letters", "job", "events"), ("probes",)], ids=", ".join)
def test_output_topics_that_are_deleted(tmp_path: Path, kinds: Sequence[str]) -> None:
    """They are created again, and everything from then on is in them; documents are all written again."""
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
        created_ms = 0

        def compare(job: RunningJob) -> None:
            """Events of before went with their topic; without heartbeats there is no replay to compare with."""
            if "probes" not in kinds:
                compare_with_replay(job, since_ms=created_ms)
            said = {str(event["data"]["group_id"]) for event in job.events().values()}
            assert any(name.startswith("written-") for name in said)

        with job_under_load(server, tmp_path, compare) as job:
            quiet = {"quiet": [generation(1, member("one", [0]), at=0)]}
            write_log(server, interleaved(quiet, PARTITIONS, now_ms()), PARTITIONS)
            job.wait_until(lambda: "quiet" in job.documents())
            for name in (getattr(TOPICS, kind) for kind in kinds):
                admin.delete_topics([name])[name].result(30)
                # Nothing is written to some of them: they are looked for once a minute.
                job.wait_until(partial(has_printed, job, f"are created again: {name}"))
                job.wait_caught_up()
            created_ms = now_ms()
            job.wait_until(lambda: "quiet" in job.documents())


def has_printed(job: RunningJob, text: str) -> bool:
    """Whether it stands among the last lines of the job."""
    return text in job.process.tail(10_000)


def large_group(topics: int) -> dict[str, list[object]]:
    """A group with members that have long names."""
    members = [member(f"{number}-" + "x" * 200, [number]) for number in range(topics)]
    return {"large": [generation(1, *members, at=0)]}


def letters(server: str, topics: TopicNames) -> set[str]:
    """The kinds of dead letters."""
    return {str(letter["kind"]) for letter in read_json(server, topics.dead_letters)}


def test_messages_that_the_sink_refuses_as_too_large(tmp_path: Path) -> None:
    """They are shortened, also when the limit falls while the job runs; what cannot be shortened is a dead letter."""
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        kinds = [TOPICS.events, TOPICS.states, TOPICS.dead_letters]

        def none_is_too_large(job: RunningJob) -> None:
            messages = [one for name in kinds for one in read_topic(server, name)]
            assert max(len(one.key or b"") + len(one.value or b"") for one in messages) < 20_000
            assert job.status()["counters"]["unwritten"] == 0

        with job_under_load(server, tmp_path, none_is_too_large) as job:
            set_configs(server, ConfigResource.Type.TOPIC, kinds, {"max.message.bytes": 20_000})
            write_log(server, interleaved(large_group(150), PARTITIONS, now_ms()), PARTITIONS)
            job.wait_until(lambda: job.documents().get("large", {}).get("truncated"))
            assert job.documents()["large"]["member_count"] == 150
            job.wait_caught_up()
            set_configs(server, ConfigResource.Type.TOPIC, kinds, {"max.message.bytes": 17_000})
            larger = {"larger": large_group(100)["large"]}
            write_log(server, interleaved(larger, PARTITIONS, now_ms()), PARTITIONS)
            job.wait_until(lambda: job.documents().get("larger", {}).get("truncated"))
            job.wait_caught_up()
            name = "n" * 18_000
            write_log(server, interleaved({name: large_group(1)["large"]}, PARTITIONS, now_ms()), PARTITIONS)
            job.wait_until(lambda: letters(server, TOPICS) == {"too_large"})
            job.wait_caught_up()
            # The query that runs writes batches above this. It is cancelled, or its messages expire before that.
            set_configs(server, ConfigResource.Type.TOPIC, kinds, {"max.message.bytes": 9_000})
            many = {f"many-{number}": large_group(5)["large"] for number in range(40)}
            write_log(server, interleaved(many, PARTITIONS, now_ms()), PARTITIONS)
            job.wait_until(lambda: has_printed(job, "dead_letters: 9000 bytes"))
            job.wait_until(lambda: many.keys() <= job.documents().keys())
            job.wait_caught_up()
