"""Lag in a real Prometheus: what it scrapes is what Kafka's own tool says, and the alert comes and goes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from groupreplay.streaming.local.broker import EmbeddedBroker, free_ports
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.sinks.known_groups import group_label
from support.job.captures import GROUPREPLAY
from support.job.jobs import topic_names
from support.job.sink_messages import document, stable
from support.job.watch_process import WatchProcess
from support.kafka.clients import make_topics, new_consumer, produce
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.kafka_tool import TOOL
from support.kafka.waiting import wait_until
from support.serve.serve_process import serving
from support.tools.monitoring_files import RULES
from support.tools.prometheus_tools import prometheus_tool, promtool

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1_500)]

ALERT = "ConsumerGroupLagObjective"
OBJECTIVE = "5s"
#: The metrics are measured twice a minute.
PATIENCE_SECONDS = 240


class Measured:
    """``serve`` beside a prober, or ``watch``, with their metrics, and a Prometheus that scrapes them each second."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, exit_: ExitStack) -> None:
        self.servers, self._folder, self._exit = broker.bootstrap_servers, folder, exit_
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self._log = folder / "prometheus.log"

    def serve(self, group: str) -> None:
        """The metrics of ``serve``: the job has written the document of a group, with an objective from its rules."""
        topics = topic_names(f"lag-prometheus-{group}")
        make_topics(self.servers, {topics.events: 1, topics.states: 1, topics.job: 1})
        labels = {"lag_objective": OBJECTIVE}
        produce(self.servers, topics.states, [(group.encode(), document(stable()[0], group, labels))])
        probe = ["probe", "--bootstrap-server", self.servers, "--probes-topic", topics.probes]
        command = [*GROUPREPLAY, *probe, "--ends-interval", "1"]
        self._exit.enter_context(GuardedProcess(command, self._folder / "probe.log"))
        flags = ["--metrics-only", "--kafka-exporter-names", "--probes-topic", topics.probes]
        flags += ["--events-topic", topics.events, "--states-topic", topics.states, "--job-topic", topics.job]
        site = serving(self.servers, self._folder / "serve.log", *flags)
        self._scrape(self._exit.enter_context(site)[1])

    def watch(self) -> None:
        """The metrics of ``watch``, whose rules have an objective for all groups."""
        rules = self._folder / "rules.toml"
        rules.write_text(f'[[group]]\nmatch = ["*"]\nlabels = {{ lag_objective = "{OBJECTIVE}" }}\n')
        flags = ("--ends-interval", "1", "--probe-interval", "1", "--rules", str(rules))
        process = WatchProcess(self.servers, self._folder, flags)
        process.start()
        self._exit.callback(process.kill)
        self._scrape(f"127.0.0.1:{process.port}")

    def _scrape(self, exporter: str) -> None:
        self._prometheus = GuardedProcess(self._command(self._folder, exporter), self._log)
        self._exit.callback(self._prometheus.end, 15)

    def _command(self, folder: Path, exporter: str) -> list[str]:
        rules = folder / "rules.yml"
        # The alert waits for two minutes; the rules themselves are those that are installed.
        rules.write_text(re.sub(r"\bfor: \w+", "for: 2s", RULES.read_text()))
        config = folder / "prometheus.yml"
        scraped = [{"job_name": "groupreplay", "static_configs": [{"targets": [exporter]}]}]
        times = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config.write_text(
            yaml.safe_dump({"global": times, "rule_files": [str(rules)], "scrape_configs": scraped})
        )
        promtool("check", "config", config)
        promtool("check", "rules", rules)
        command = [prometheus_tool("prometheus"), f"--config.file={config}"]
        return [*command, f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={self._address}"]

    def ask(self, path: str, **words: str) -> Any:
        """What Prometheus' own API answers; None as long as it is not there."""
        assert self._prometheus.exit_code is None, self._log.read_text()
        try:
            with urlopen(f"http://{self._address}/api/v1/{path}?{urlencode(words)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, query: str) -> float | None:
        """The only value of a query; None: there is none."""
        series = (self.ask("query", query=query) or {"result": []})["result"]
        assert len(series) <= 1
        return float(series[0]["value"][1]) if series else None

    def alert(self, group: str) -> str | None:
        """``pending`` or ``firing``; None: neither."""
        states = [
            alert["state"]
            for alert in (self.ask("alerts") or {"alerts": []})["alerts"]
            if (alert["labels"]["alertname"], alert["labels"].get("consumergroup")) == (ALERT, group)
        ]
        return states[0] if states else None


@pytest.fixture
def measured(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Measured]:
    """Everything, ended hard when the test is over."""
    prometheus_tool("prometheus")
    with ExitStack() as exit_:
        yield Measured(broker, tmp_path, exit_)


def lag_of_tool(tool: Any, servers: str, group: str, topic: str) -> int:
    """The sum of ``kafka-consumer-groups.sh``."""
    output = tool.run(f"--bootstrap-server {servers} --describe --group {group} --timeout 60000")
    rows = [line.split() for line in output.splitlines()]
    return sum(int(row[5]) for row in rows if len(row) > 5 and row[:2] == [group, topic])


class Consumption:
    """A member that consumes when it is asked to, and lives on without a commit meanwhile."""

    def __init__(self, servers: str, group: str, topic: str, protocol: str) -> None:
        self.consumer = new_consumer(
            servers, group, topic, group_protocol=protocol, auto_offset_reset="earliest"
        )
        self._count = 0

    def up_to(self, total: int) -> None:
        """Consumes until it has had so many records, and commits."""

        def is_done() -> bool:
            message = self.consumer.poll(0.2)
            self._count += message is not None and message.error() is None
            return self._count >= total

        wait_until(is_done)
        self.consumer.commit(asynchronous=False)


@pytest.mark.parametrize(("command", "protocol"), [("serve", "classic"), ("watch", "consumer")])
def test_lag_of_a_consumer_that_stops(
    measured: Measured, unique: Callable[[str], str], command: str, protocol: str
) -> None:
    """The lag in Prometheus is that of Kafka's tool; its alert fires while a consumer stops, and ends behind it."""
    group, topic, servers = unique("g"), unique("t"), measured.servers
    make_topics(servers, {topic: 2})
    produce(servers, topic, [(str(n).encode(), b"x") for n in range(50)])
    if command == "serve":
        measured.serve(group)
    else:
        measured.watch()
    label = group_label(group)
    series = f'{{consumergroup="{label}", topic="{topic}"}}'

    def is_shown(records: int) -> bool:
        of_exporter = f"kafka_consumergroup_lag_sum{series}"
        shown = {measured.value(f"groupreplay_group_lag{series}")}
        return {*shown, measured.value(of_exporter) if command == "serve" else records} == {records}

    def wait_for(condition: Callable[[], bool]) -> None:
        wait_until(condition, PATIENCE_SECONDS, pause=1)

    member = Consumption(servers, group, topic, protocol)
    with Jvm(broker_jars()) as jvm, closing(member.consumer):
        tool = jvm.make(TOOL, "Tool")
        member.up_to(50)
        wait_for(lambda: is_shown(0))
        assert (measured.value(f"groupreplay_group_lag_seconds{series}"), measured.alert(label)) == (0, None)
        produce(servers, topic, [(str(n).encode(), b"y") for n in range(70)])
        wait_for(lambda: is_shown(70))
        assert lag_of_tool(tool, servers, group, topic) == 70
        wait_for(lambda: measured.alert(label) == "firing")
        member.up_to(120)
        assert lag_of_tool(tool, servers, group, topic) == 0
        wait_for(lambda: measured.alert(label) is None and is_shown(0))
