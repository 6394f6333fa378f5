"""``serve``, with pages and without, with the rights to read three topics only, on a broker that checks them."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.kafka.rights import Right, serve_rights
from support.job.sink_messages import job_document
from support.kafka.clients import commit_once, make_topics, produce
from support.kafka.secured import PASSWORD, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until
from support.serve.serve_process import serving

pytestmark = [pytest.mark.broker, pytest.mark.long]

TOPICS = {name: f"exported-{name}" for name in ("events", "states", "job")}


def grant(guarded: SecuredBroker, *names: str) -> None:
    """Read and Describe on these of the topics, and nothing else."""
    guarded.allow_only(
        [Right(right, "topic", TOPICS[name], "") for name in names for right in ("Read", "Describe")]
    )


def readiness(address: str, path: str = "/readyz") -> tuple[int, str]:
    """What it answers when asked whether it is ready."""
    client = http.client.HTTPConnection(address, timeout=30)
    client.request("GET", path)
    answer = client.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("flags", [["--metrics-only"], []], ids=["metrics", "pages"])
def test_reading_is_enough(tmp_path: Path, flags: list[str]) -> None:
    """Without one of the topics it says which; with all three it is ready, and no group had to be allowed."""
    with secured_broker(tmp_path) as guarded:
        servers = guarded.broker.bootstrap_servers
        make_topics(servers, dict.fromkeys(TOPICS.values(), 1))
        produce(servers, TOPICS["job"], [(JOB_KEY, job_document(now_ms(), trigger_seconds=3_600))])
        words = [*flags, "--debug", "--command-config", str(guarded.properties(tmp_path))]
        for name, topic in TOPICS.items():
            words += [f"--{name}-topic", topic]
        grant(guarded, "events", "job")
        with serving(guarded.checked, tmp_path / "serve.log", *words) as (_, exporter):
            wait_until(lambda: TOPICS["states"] in readiness(exporter)[1])
            assert readiness(exporter)[0] == 503
            grant(guarded, *TOPICS)
            wait_until(lambda: readiness(exporter) == (200, "ok\n"))
            assert PASSWORD not in (tmp_path / "serve.log").read_text()


def test_its_user_reads_the_log_too(tmp_path: Path) -> None:
    """With the rights of its KafkaUser, and no other, it is ready, and has the history of a group from the log."""
    topics = TopicNames()
    with secured_broker(tmp_path) as guarded:
        servers = guarded.broker.bootstrap_servers
        names = (topics.events, topics.states, topics.job, topics.probes)
        make_topics(servers, dict.fromkeys((*names, "orders"), 1))
        produce(servers, topics.job, [(JOB_KEY, job_document(now_ms(), trigger_seconds=3_600))])
        commit_once(servers, "g")
        guarded.allow_only(serve_rights(topics))
        login = ("--command-config", str(guarded.properties(tmp_path)))
        with serving(guarded.checked, tmp_path / "serve.log", *login) as (_, pages):
            wait_until(lambda: readiness(pages) == (200, "ok\n"))
            wait_until(lambda: readiness(pages, "/api/groups/g/timeline")[0] == 200)
            assert "authori" not in (tmp_path / "serve.log").read_text()
