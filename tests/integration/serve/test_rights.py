"""``serve``, with pages and without, with the rights to read three topics only, on a broker that checks them."""

from __future__ import annotations

import http.client
import re
import sys
from pathlib import Path

import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.kafka.rights import Right, serve_rights
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.sink_messages import job_document
from support.kafka.clients import commit_once, make_topics, produce
from support.kafka.secured import PASSWORD, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.long]

TOPICS = {name: f"exported-{name}" for name in ("events", "states", "job")}


def grant(guarded: SecuredBroker, *names: str) -> None:
    """Read and Describe on these of the topics, and nothing else."""
    guarded.allow_only(
        [Right(right, "topic", TOPICS[name], "") for name in names for right in ("Read", "Describe")]
    )


def readiness(exporter: GuardedProcess, path: str = "/readyz") -> tuple[int, str]:
    """What it answers when asked whether it is ready; what it printed as long as it does not answer."""
    found = re.findall(r"http://([\d.:]+)/", exporter.log.read_text())
    if not found:
        return 0, exporter.tail()
    client = http.client.HTTPConnection(found[0], timeout=30)
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
        command = [sys.executable, "-m", "groupreplay", "serve", *flags, "--listen", "127.0.0.1:0"]
        command += ["--bootstrap-server", guarded.checked, "--debug"]
        command += ["--command-config", str(guarded.properties(tmp_path))]
        for name, topic in TOPICS.items():
            command += [f"--{name}-topic", topic]
        grant(guarded, "events", "job")
        with GuardedProcess(command, tmp_path / "exporter.log") as exporter:
            wait_until(lambda: TOPICS["states"] in readiness(exporter)[1])
            assert readiness(exporter)[0] == 503
            grant(guarded, *TOPICS)
            wait_until(lambda: readiness(exporter) == (200, "ok\n"))
            assert PASSWORD not in exporter.log.read_text()


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
        command = [sys.executable, "-m", "groupreplay", "serve", "--listen", "127.0.0.1:0"]
        command += ["--bootstrap-server", guarded.checked]
        command += ["--command-config", str(guarded.properties(tmp_path))]
        with GuardedProcess(command, tmp_path / "serve.log") as pages:
            wait_until(lambda: readiness(pages) == (200, "ok\n"))
            wait_until(lambda: readiness(pages, "/api/groups/g/timeline")[0] == 200)
            assert "authori" not in pages.log.read_text()
