"""The command ``probe``: what a person sees of a round, and when the answer is not the whole truth."""

from __future__ import annotations

import json
from collections.abc import Iterable
from unittest.mock import Mock, call

import msgspec
import pytest

from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.streaming.base.broker_clock import AppendedMessage
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary, decode_message
from groupreplay.streaming.kafka.publisher import MessageTooLargeError
from groupreplay.streaming.prober import service
from groupreplay.streaming.prober.prober import ProbeRound
from support.job.captures import invoke
from support.job.probes import asked, summed_up

BUSY = asked("g", "PreparingRebalance", at=7, members=["a", "b"])


def test_a_round_in_one_line() -> None:
    """How many, who answered, and what hides something."""
    well = "1970-01-01T00:00:01.000Z: 0 groups rebalancing, 1 of 1 brokers answered"
    assert service.round_line(summed_up(at=1_000)) == well
    ends = {0: (5, 4), 1: (5, 5)}
    summary = summed_up(at=1_000, brokers={1: None, 2: "x"}, partitions=ends, rights="missing")
    assert service.round_line(summary) == (
        "1970-01-01T00:00:01.000Z: 0 groups rebalancing, 1 of 2 brokers answered, "
        "1 partitions with an open transaction, rights missing"
    )


@pytest.fixture
def round_taken(monkeypatch: pytest.MonkeyPatch) -> list[RoundSummary]:
    """Stands in for the cluster: what a round comes to."""
    summaries = [summed_up(at=1)]
    monkeypatch.setattr(service, "probe_once", lambda _: ProbeRound((BUSY,), summaries[0]))
    return summaries


def test_once(round_taken: list[RoundSummary]) -> None:
    """The groups that are rebalancing, with coordinator and members; JSON has what would be written."""
    words = ("probe", "--bootstrap-server", "h:1", "--once")
    assert invoke(*words).stdout.splitlines() == [
        "GROUP\tBROKER\tSTATE\t#MEMBERS\tMEMBERS",
        "g\t1\tPreparingRebalance\t2\ta/h, b/h",
    ]
    (document,) = json.loads(invoke(*words, "-o", "json").stdout)
    assert document == json.loads(msgspec.json.encode(BUSY))


@pytest.mark.parametrize(
    ("summary", "exit_code", "lines"),
    [
        (summed_up(at=1, rights="missing"), 4, ["error: this login may not see all groups", GRANT_DESCRIBE]),
        (summed_up(at=1, brokers={4: "timed out"}), 3, ["a broker did not answer: timed out", "broker 4"]),
        (summed_up(at=1, rights="unknown"), 0, []),
    ],
)
def test_once_with_holes(
    round_taken: list[RoundSummary], summary: RoundSummary, exit_code: int, lines: list[str]
) -> None:
    """What was seen is printed, and then that something could not be."""
    round_taken[0] = summary
    result = invoke("probe", "--bootstrap-server", "h:1", "--once")
    assert (result.exit_code, len(result.stdout.splitlines())) == (exit_code, 2)
    assert [line for line in lines if line not in result.stderr] == []


def test_round_after_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flag reaches its place; the answers go to the watched cluster unless another is named."""
    probe = Mock(return_value=143)
    monkeypatch.setattr(service, "probe", probe)
    assert invoke("probe", "--bootstrap-server", "h:1").exit_code == 143
    words = "--sink-bootstrap-server s:1 --probes-topic p --interval 2"
    invoke("probe", "--bootstrap-server", "h:1", *words.split())
    source = Cluster(bootstrap_servers="h:1")
    assert probe.call_args_list == [
        call(source, source, TopicNames(), 10.0),
        call(source, Cluster(bootstrap_servers="s:1"), TopicNames(probes="p"), 2.0),
    ]
    assert invoke("probe", "--bootstrap-server", "h:1", "--interval", "0.5").exit_code == 2


def test_a_round_that_the_topic_refuses_is_written_in_parts() -> None:
    """The answer about a large group is shortened, and the summary still follows it."""
    large = asked("g", "PreparingRebalance", at=7, members=[f"{number:040}" for number in range(300)])
    summary = summed_up(at=8)
    written: list[tuple[bytes, bytes]] = []

    def publish(_: str, messages: Iterable[tuple[bytes, bytes]]) -> list[AppendedMessage]:
        sent = list(messages)
        if sum(len(value) for _, value in sent) > 5_000:
            raise MessageTooLargeError("too large")
        written.extend(sent)
        return [AppendedMessage(1.0, 2.0, 3)]

    publisher = Mock(publish=publish)
    assert service._written(publisher, "t", [large, summary]) == [AppendedMessage(1.0, 2.0, 3)] * 2
    answer, last = (decode_message(*one) for one in written)
    assert isinstance(answer, GroupAnswer)
    assert (answer.truncated, 0 < len(answer.members) < 300, last) == (True, True, summary)
