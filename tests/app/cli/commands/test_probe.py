"""``groupreplay probe`` on the command line; with a broker in tests/integration/groups/test_prober_live.py."""

from __future__ import annotations

import json

import pytest

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary
from groupreplay.streaming.prober import service
from groupreplay.streaming.prober.prober import ProbeRound
from support.job.captures import invoke

ANSWER = GroupAnswer(
    cluster_id="c",
    group_id="g",
    taken_ms=1,
    state="PreparingRebalance",
    broker=7,
    protocol_type="consumer",
    protocol="range",
    members=(),
)


def taken(error: str | None) -> ProbeRound:
    """A round with one group; broker 8 answers, or has this error."""
    summary = RoundSummary(
        cluster_id="c",
        taken_ms=1,
        brokers={7: None, 8: error},
        rights="ok",
        partitions={},
        partition_count=0,
        groups=1,
    )
    return ProbeRound((ANSWER,), summary)


@pytest.mark.parametrize(("error", "code"), [(None, ExitCode.OK), ("timed out", ExitCode.CONNECTION)])
def test_once(monkeypatch: pytest.MonkeyPatch, error: str | None, code: ExitCode) -> None:
    """The answers are printed also when a broker is silent; the exit code says that the list is incomplete."""
    monkeypatch.setattr(service, "probe_once", lambda _: taken(error))
    result = invoke("probe", "--bootstrap-server", "h:1", "--once", "-o", "json")
    assert result.exit_code == code, result.stderr
    assert [(one["group_id"], one["broker"]) for one in json.loads(result.stdout)] == [("g", 7)]


def test_at_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --once the flags reach the prober: the sink is the source unless named."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(service, "probe", lambda *arguments: calls.append(arguments) or 143)
    words = ["probe", "--bootstrap-server", "h:1", "--interval", "3", "--probes-topic", "p"]
    assert [invoke(*words).exit_code, invoke(*words, "--sink-bootstrap-server", "s:1").exit_code] == [
        143,
        143,
    ]
    source, sink, topics = (
        Cluster(bootstrap_servers="h:1"),
        Cluster(bootstrap_servers="s:1"),
        TopicNames(probes="p"),
    )
    assert calls == [(source, source, topics, 3.0), (source, sink, topics, 3.0)]
