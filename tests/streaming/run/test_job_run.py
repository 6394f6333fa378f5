"""A run of an engine without a JVM: what the run owes the world is there, whatever applies the log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import BrokerClock, now_ms
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.contract.messages import JOB_KEY, OWNER_KEY
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.run.document_sync import KafkaDocuments, SyncRecord
from groupreplay.streaming.run.identity import first_identity
from groupreplay.streaming.run.interface import Engine, Store
from groupreplay.streaming.run.job_run import RunParts, run_until_stopped
from groupreplay.streaming.run.outage import Outage
from groupreplay.streaming.run.topic_owner import TopicOwner
from groupreplay.streaming.sinks.job_topic import JobTopic
from support.histories.raw_records import generation
from support.job.jobs import read_topic, topic_names, write_log
from support.job.small_engine import MemoryStore, SmallEngine


def test_a_run_loads_no_spark() -> None:
    """Who runs another engine needs neither pyspark nor a JVM."""
    program = (
        "import sys; import groupreplay.streaming.run.job_run; print({'pyspark', 'py4j'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.broker
def test_a_single_run_of_a_small_engine(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """It claims the topics, follows the log with heartbeats, keeps marks and documents, and ends by itself."""
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    topics, group_id = topic_names(unique("small")), unique("payments")
    settings = RunSettings(
        source=cluster,
        checkpoint="memory",
        topics=topics,
        trigger_seconds=0.2,
        once=True,
        probe=False,
        backfill_events=True,
    )
    source, stop, store = Connection(cluster), StopRequest(), MemoryStore()
    log = source.identify(OFFSETS_TOPIC)
    begun_ms = now_ms()
    write_log(broker.bootstrap_servers, [(1, *generation(group_id, 1), begun_ms)], log.partitions)
    partitions = ensure_topics(source, topics)
    engines: list[SmallEngine] = []

    def engine(place: Store, count: int) -> Engine:
        assert place is store
        engines.append(SmallEngine(settings, store, count))
        return engines[-1]

    lines: list[str] = []
    parts = RunParts(
        settings=settings,
        engine=engine,
        rules=RulesWatch(settings.rules),
        partitions=log.partitions,
        clock=BrokerClock(),
        owner=TopicOwner(
            messages=JobTopic(source, topics.job, partitions[topics.job]), stop=stop, show=lines.append
        ),
        location=store.location,
        outage=Outage(hindrance=lambda: None, stop=stop, show=lines.append),
        publisher=Publisher(cluster),
    )
    wanted = first_identity(log, f"{log.cluster_id}/{topics.probes}", begun_ms)
    run_until_stopped(parts, store, wanted, stop)
    job = [one for one in read_topic(broker.bootstrap_servers, topics.job) if one.key in (JOB_KEY, OWNER_KEY)]
    document = json.loads(job[-1].value or b"")
    assert job[0].key == OWNER_KEY
    assert (document["phase"], document["once"], document["restarts"]) == ("stopped", True, 0)
    assert document["caught_up_ms"] >= begun_ms
    assert document["counters"]["records"] == sum(one.records for one in engines[0].batches) > 0
    documents = [one.key for one in read_topic(broker.bootstrap_servers, topics.states)]
    assert group_id.encode() in documents
    assert document["counters"]["states"] == len(documents)
    assert store.marks is not None
    assert store.record == SyncRecord(topics=KafkaDocuments(cluster, cluster, topics).topics())
