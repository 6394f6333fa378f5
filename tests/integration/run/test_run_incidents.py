"""The job finds what happens to many groups at once, from its own topics and a real broker."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import Json, RunningJob, running_job, topic_names
from support.kafka.clients import make_topics, new_consumer

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

ORDERS = [f"orders-reader-{number}" for number in range(12)]
OTHERS = [f"billing-reader-{number}" for number in range(12)]


def opened(job: RunningJob) -> list[Json]:
    """The data of the events ``incident.opened``."""
    events = job.events().values()
    return [event["data"] for event in events if "incident.opened" in event["type"]]


def test_a_deleted_topic_is_one_incident(tmp_path: Path) -> None:
    """Twelve groups lose their offsets of one topic: one incident names it, with the brokers' answer as its proof.

    The job that is killed then and started again ends the same one.
    """
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server, topics = broker.bootstrap_servers, topic_names("incidents")
        make_topics(server, {"orders": 1, "billing": 1})
        with running_job(server, tmp_path / "checkpoint", topics, "--probe-interval", "1") as job:
            job.wait_caught_up()
            for group in (*ORDERS, *OTHERS):
                with closing(new_consumer(server, group)) as consumer:
                    # Three commits: the loss of such a group is a warning.
                    for offset in (1, 2, 3):
                        place = TopicPartition(group.partition("-")[0], 0, offset)
                        consumer.commit(offsets=[place], asynchronous=False)
            job.wait_until(lambda: job.documents().keys() >= {*ORDERS, *OTHERS})
            admin = AdminClient({"bootstrap.servers": server})
            admin.delete_topics(["orders"])["orders"].result(30)
            job.wait_until(lambda: bool(opened(job)))
            (incident,) = opened(job)
            shared = incident["shared"][0]
            assert (incident["groups"], incident["group_count"]) == (sorted(ORDERS), len(ORDERS))
            assert (shared["kind"], shared["value"], shared["other_groups"]) == ("topic", "orders", 0)
            assert (incident["certainty"], incident["kinds"]) == ("proven", {"offsets.deleted": len(ORDERS)})
            job.kill()
            job.restart()
            job.wait_caught_up()
            job.wait_until(
                lambda: any("incident.resolved" in event["type"] for event in job.events().values())
            )
            assert {data["incident_id"] for data in opened(job)} == {incident["incident_id"]}
