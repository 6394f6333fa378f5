"""The whole way of an alert: a rebalance that is really stuck, the job, the exporter, and Prometheus itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from groupreplay.streaming.local.broker import EmbeddedBroker, free_ports
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.sinks.known_groups import group_label
from support.job.jobs import RunningJob, running_job, topic_names
from support.job.sink_messages import document, stable
from support.kafka.clients import make_topics, produce
from support.kafka.polled_members import PolledMembers
from support.kafka.waiting import wait_until
from support.serve.serve_process import serving
from support.tools.monitoring_files import PROMETHEUS, alerts, queries
from support.tools.monitoring_files import RULES as ALERTS
from support.tools.prometheus_tools import prometheus_tool

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

LOWERED = ("--rule", "rebalance.stuck.threshold_ms=3000", "--rule", "rebalance.slow.threshold_ms=2000")
#: As unpleasant as a client can make it.
TOPIC = "alert-live-orders"
GROUP = 'alert "live"\n\\ {x} \x1b[31m'
#: What has no answer while a group is stuck and all else is well.
MAY_BE_EMPTY = {
    *(f"alert {alert['alert']}" for alert in alerts() if alert["alert"] != "ConsumerGroupRebalanceStuck"),
    "panel Next offsets to expire A",
    "panel Rebalances per hour, top 20 groups A",
    "panel Problems of the job A",
    # Nothing is written to the topic, and the first rebalance may be over before the first scrape.
    "panel Time lag beside rebalances, top 10 groups A",
    "panel Time lag beside rebalances, top 10 groups B",
}
#: A client in Java could even do this.
WORSE = "nul\x00\u202e" + "x" * 30_000


class Monitored:
    """A running job, its exporter and a Prometheus that scrapes it all the time."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, exit_: ExitStack) -> None:
        servers = broker.bootstrap_servers
        topics = topic_names("alert-live")
        make_topics(servers, {TOPIC: 4})
        self.members = PolledMembers(servers, timeout_ms=240_000)
        exit_.callback(self.members.close)
        flags = ("--probe-interval", "1", *LOWERED)
        self.job: RunningJob = exit_.enter_context(
            running_job(servers, folder / "checkpoint", topics, *flags)
        )
        words = ["--events-topic", topics.events, "--states-topic", topics.states, "--job-topic", topics.job]
        exporter = serving(servers, folder / "exporter.log", "--metrics-only", *words)
        _, self.exporter = exit_.enter_context(exporter)
        # Prometheus takes no 0: it would not say which one it got.
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._log = folder / "prometheus.log"
        self.prometheus = self._prometheus(folder)
        exit_.callback(self.prometheus.end, 15)

    def _prometheus(self, folder: Path) -> GuardedProcess:
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        # On a busy machine an answer takes more than a second, and Prometheus waits no longer than its interval.
        config["global"] = {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(ALERTS)]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [self.exporter]}]
        path = folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        command = [prometheus_tool("prometheus"), f"--config.file={path}"]
        command += [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={self.address}"]
        return GuardedProcess(command, self._log)

    def ask(self, path: str, **words: str) -> Any:
        """What Prometheus' own API answers; None as long as it is not there."""
        try:
            with urlopen(f"http://{self.address}/api/v1/{path}?{urlencode(words)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def alerts(self) -> dict[tuple[str, str], str]:
        """(alert, group) -> pending or firing."""
        return {
            (one["labels"]["alertname"], one["labels"].get("consumergroup", "")): one["state"]
            for one in (self.ask("alerts") or {"alerts": []})["alerts"]
        }

    def values(self, query: str) -> dict[str, float]:
        """The present values of a query, by group."""
        found = (self.ask("query", query=query) or {"result": []})["result"]
        return {one["metric"].get("consumergroup", ""): float(one["value"][1]) for one in found}

    def write_document(self, group_id: str) -> None:
        """A group that no client here could make."""
        produce(
            self.job.server, self.job.topics.states, [(group_id.encode(), document(stable()[0], group_id))]
        )

    def wait(self, condition: Callable[[], object]) -> None:
        """Polls the members meanwhile, and looks at the condition now and then."""

        def checked() -> bool:
            assert self.prometheus.exit_code is None, self._log.read_text()
            assert self.job.process.exit_code is None, self.job.process.tail()
            return bool(condition())

        self.members.wait_until(checked)


@pytest.fixture
def monitored(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Monitored]:
    """Everything, ended hard when the test is over."""
    prometheus_tool("prometheus")
    with ExitStack() as exit_:
        yield Monitored(broker, tmp_path, exit_)


def test_an_alert_fires_and_ends(monitored: Monitored) -> None:
    """While a member stays away the group is stuck and its alert fires; when it is back both are over.

    In the end the job is killed: that is an alert, too (pending at first), and what it said of groups is no
    longer claimed.
    """
    members, label = monitored.members, group_label(GROUP)
    stuck = ("ConsumerGroupRebalanceStuck", label)
    members.join("a", GROUP, TOPIC)
    members.join("b", GROUP, TOPIC)
    monitored.wait(lambda: members.owned("a", "b") == [2, 2])
    monitored.write_document(WORSE)
    state = "kafka_consumergroup_group_state"
    monitored.wait(lambda: monitored.values(state) == {label: 3, group_label(WORSE): 3})
    assert monitored.values("groupreplay_exporter_unreadable_total") == {"": 0}
    assert monitored.alerts().get(stuck) is None

    members.stuck.add("a")
    members.join("c", GROUP, TOPIC)
    monitored.wait(lambda: monitored.alerts().get(stuck) == "firing")
    lasting = "kafka_consumergroup_rebalance_in_progress_seconds >= 3"
    monitored.wait(lambda: monitored.values(state)[label] == 1 and label in monitored.values(lasting))

    answers = {where: monitored.ask("query", query=query) for where, query in queries().items()}
    assert [where for where, answer in answers.items() if answer is None] == []
    empty = {where for where, answer in answers.items() if not answer["result"]}
    assert empty <= MAY_BE_EMPTY

    before = monitored.values("kafka_consumergroup_rebalances_total")[label]
    members.stuck.clear()
    monitored.wait(lambda: stuck not in monitored.alerts() and monitored.values(state).get(label) == 3)
    monitored.wait(lambda: monitored.values("kafka_consumergroup_rebalances_total")[label] > before)

    monitored.job.kill()
    wait_until(lambda: ("GroupReplayJobDown", "") in monitored.alerts(), pause=0.5)
    assert monitored.values(f"{state} >= 0") == {}
