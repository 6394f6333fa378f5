"""The examples of docs/serve.md: each is answered as the OpenAPI document says."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from groupreplay.app.cli.program import COMMANDS, cli
from groupreplay.app.serve.offsets_log import commit_sample, group_logs
from groupreplay.app.serve.openapi import PATHS
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.streaming.config.settings import Cluster
from support.job.sink_messages import SINCE_MS, document, events, stuck
from support.paths import ROOT
from support.serve.asked_site import AskedSite
from support.serve.http_streams import FollowedStream, asked, served_over_http
from support.serve.written_clusters import messages, served_cluster, states, take

NOW = SINCE_MS + 400_000
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"curl -sN? 'http://127\.0\.0\.1:9408(/api/[^']+)'", PAGE)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedCluster]:
    """The groups of the examples; no broker answers."""

    def refuse(*_: object) -> None:
        raise group_logs.GroupReplayError("no broker answers")

    monkeypatch.setattr(commit_sample, "count_commits", refuse)
    monkeypatch.setattr(group_logs.LiveLogs, "read", refuse)
    group, told = stuck()
    with served_cluster(tmp_path, NOW) as made:
        take(made, states([("orders", document(group, "orders"))]), NOW)
        take(made, messages(events(told, "orders"), NOW), NOW)
        yield made


@pytest.mark.parametrize("path", sorted({one for one in EXAMPLES if "/stream" not in one}))
def test_an_example(cluster: WatchedCluster, path: str) -> None:
    """200, with the fields of the document."""
    assert AskedSite(NOW, cluster).get(path).status_code == 200


def test_a_cluster_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds up neither what is read from another cluster nor its own history, however many ask for it."""
    asking, answering = threading.Semaphore(0), threading.Event()

    def counts(self: commit_sample.CommitSample) -> commit_sample.CommitCounts:
        if self._cluster.bootstrap_servers == "silent:1":
            asking.release()
            assert answering.wait(60)
        return commit_sample.CommitCounts(0, 1, {})

    monkeypatch.setattr(commit_sample.CommitSample, "counts", counts)
    with served_cluster(tmp_path, NOW, "silent") as silent, served_cluster(tmp_path, NOW, "fine") as fine:
        silent.served = replace(silent.served, source=Cluster(bootstrap_servers="silent:1"))
        with served_over_http(NOW, silent, fine) as port, ThreadPoolExecutor(10) as many:
            waiting = [many.submit(asked, port, "/api/committers?cluster=silent") for _ in range(10)]
            try:
                assert asking.acquire(timeout=60)
                assert asked(port, "/api/committers?cluster=fine")[0] == 200
                assert asked(port, "/api/groups?cluster=silent")[0] == 200
            finally:
                answering.set()
            assert {one.result()[0] for one in waiting} == {200}


def test_the_example_of_a_stream(cluster: WatchedCluster) -> None:
    """It sends what comes."""
    (path,) = {one for one in EXAMPLES if "/stream" in one}
    with served_over_http(NOW, cluster) as port, FollowedStream(port, path.partition("?")[2]) as stream:
        stream.frame()
        take(cluster, messages(events(stuck(for_ms=190_000)[1], "other"), NOW, 9), NOW)
        assert stream.event()["event"]["severitytext"] in ("WARN", "ERROR")


def test_the_examples_are_complete() -> None:
    """Every path of the API has an example, and every flag in the page is one of a command."""
    found = {re.sub(r"^/api/groups/[^/]+", "/api/groups/{id}", one.partition("?")[0]) for one in EXAMPLES}
    assert found == {path.path for path in PATHS}
    commands = [cli.get_command(None, name) for name in COMMANDS]  # type: ignore[arg-type]
    flags = {flag for one in commands if one is not None for param in one.params for flag in param.opts}
    others = {"--from-file", "--now", "--build"}
    assert {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)} <= flags | others
