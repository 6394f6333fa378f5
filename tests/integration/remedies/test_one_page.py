"""One page for one condition: the exporter's metrics, a real Prometheus, a real Alertmanager, and who gets the page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.local.broker import free_ports
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.sinks.known_groups import OpenIncident
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import SINCE_MS, document, job_document, stable, stuck
from support.kafka.waiting import wait_until
from support.tools.monitoring_files import ALERTMANAGER, PROMETHEUS, RULES
from support.tools.prometheus_tools import alertmanager, prometheus_tool

Json = dict[str, Any]
SECONDS = 240
SLOW, STUCK, WEDGED = (f"ConsumerGroupRebalance{name}" for name in ("Slow", "Stuck", "Wedged"))


@dataclass
class Loopback:
    """One server with the exporter's page, and with the webhooks of the receivers; ``page`` None: it is down."""

    page: bytes | None = None
    told: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = outer.page
                self.send_response(503 if page is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(page or b"")

            def do_POST(self) -> None:
                outer.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing: the tests read what was told."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, receiver: str, label: str = "condition_id") -> list[Json]:
        """What a receiver was told about conditions, or by another label, in order."""
        return [one for one in self.told if one["receiver"] == receiver and one["groupLabels"].get(label)]

    def show(self, made: Any, groups: Sequence[str] = ("pay",), incident: OpenIncident | None = None) -> None:
        """The exporter's page for groups in this state."""
        picture = TopicsSnapshot(incidents={} if incident is None else {"i": incident})
        for group in groups:
            picture.take_state(group.encode(), document(made[0], group))
        picture.take_job(JOB_KEY, job_document(SINCE_MS))

        class Measured(Collector):
            def collect(self) -> Any:
                return measure(picture, SINCE_MS, Limits())

        registry = CollectorRegistry()
        registry.register(Measured())
        self.page = generate_latest(registry)


@pytest.fixture
def loopback(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Loopback]:
    """The server, with a Prometheus that scrapes it, and an Alertmanager that it tells."""
    prometheus, (pager, pager_folder) = prometheus_tool("prometheus"), alertmanager()
    with ExitStack() as exit_:
        made = Loopback()
        exit_.callback(made.server.shutdown)
        alerting, scraping = (f"127.0.0.1:{port}" for port in free_ports(2))
        config = yaml.safe_load(ALERTMANAGER.read_text())
        for route in (config["route"], *config["route"]["routes"]):
            # As before, the routes that wait for an incident wait longest.
            wait = getattr(request, "param", "1s") if route.get("group_wait") == "90s" else "1s"
            route.update(group_wait=wait, group_interval="1s")
        for receiver in config["receivers"]:
            name, *kinds = receiver
            for kind in kinds:
                del receiver[kind]
            url = f"http://{made.address}/{receiver[name]}"
            receiver["webhook_configs"] = [{"url": url, "send_resolved": True}]
        (tmp_path / "am.yml").write_text(yaml.safe_dump(config))
        command = [pager, f"--config.file={tmp_path / 'am.yml'}"]
        command += [f"--storage.path={tmp_path / 'am'}", f"--web.listen-address={alerting}"]
        command += ["--cluster.listen-address="]
        exit_.enter_context(GuardedProcess(command, tmp_path / "am.log", cwd=pager_folder))
        rules = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        rules["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        rules["rule_files"] = [str(RULES)]
        rules["scrape_configs"][0]["static_configs"] = [{"targets": [made.address]}]
        rules["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alerting]}]}]}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(rules))
        command = [prometheus, f"--config.file={tmp_path / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address={scraping}"]
        exit_.enter_context(GuardedProcess(command, tmp_path / "prometheus.log"))
        made.prometheus, made.alertmanager = scraping, alerting  # type: ignore[attr-defined]
        yield made


def scrapes(loopback: Loopback, query: str) -> float:
    """The present value of a query with one result; 0 without one."""
    from urllib.parse import urlencode

    address = loopback.prometheus  # type: ignore[attr-defined]
    try:
        with urlopen(f"http://{address}/api/v1/query?{urlencode({'query': query})}", timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return 0
    return float(found[0]["value"][1]) if found else 0


def firing(loopback: Loopback) -> set[str]:
    """The alerts in the last notification of the pager."""
    told = loopback.of("pager")
    return (
        {one["labels"]["alertname"] for one in told[-1]["alerts"] if one["status"] == "firing"}
        if told
        else set()
    )


def silenced(loopback: Loopback) -> set[str]:
    """The alerts that others silence now."""
    address = loopback.alertmanager  # type: ignore[attr-defined]
    with urlopen(f"http://{address}/api/v2/alerts", timeout=10) as answer:
        return {one["labels"]["alertname"] for one in json.load(answer) if one["status"]["inhibitedBy"]}


def test_one_condition_is_one_page(loopback: Loopback) -> None:
    """Stuck, then wedged, then nobody knows, then still wedged, then over: one page, resolved once, and at the end.

    The rebalance is also slow, which pages nobody. Without the exporter the page stays open.
    """
    loopback.show(stuck(for_ms=200_000))
    wait_until(lambda: firing(loopback) == {STUCK}, SECONDS, pause=0.2)
    wait_until(lambda: silenced(loopback) == {SLOW}, SECONDS, pause=0.2)
    loopback.show(stuck(for_ms=700_000))
    wait_until(lambda: WEDGED in firing(loopback), SECONDS, pause=0.2)
    wait_until(lambda: silenced(loopback) == {SLOW, STUCK}, SECONDS, pause=0.2)
    loopback.page = None
    # Longer than Alertmanager and Prometheus need to tell an end.
    wait_until(lambda: scrapes(loopback, "sum_over_time((1 - up)[1m:1s])") >= 8, SECONDS, pause=0.5)
    assert scrapes(loopback, "count(groupreplay_job_up)") == 0
    loopback.show(stuck(for_ms=700_000))
    wait_until(lambda: scrapes(loopback, "count(groupreplay_job_up)") == 1, SECONDS, pause=0.2)
    assert [one["status"] for one in loopback.of("pager")].count("resolved") == 0
    loopback.show(stable())
    wait_until(lambda: loopback.of("pager")[-1]["status"] == "resolved", SECONDS, pause=0.2)

    pages = loopback.of("pager")
    assert len({one["groupKey"] for one in pages}) == 1
    assert [one["status"] for one in pages].index("resolved") == len(pages) - 1
    (alert,) = pages[0]["alerts"]
    assert alert["annotations"]["since"] == "1970-01-01 01:40:10 +0000 UTC"
    assert alert["annotations"]["runbook_url"] == "https://runbook.example.com/groupreplay#rebalance-stuck"
    chat = {alert["labels"]["alertname"] for one in loopback.of("chat") for alert in one["alerts"]}
    # "Slow" may be told before the other one has come; no later.
    assert chat - {SLOW} == {STUCK, WEDGED}


@pytest.mark.parametrize("loopback", ["60s"], indirect=True)
@pytest.mark.long
def test_one_incident_is_one_page(loopback: Loopback) -> None:
    """Thirty groups are stuck, then an incident is known: its page alone is told, and one resolved when it is over."""
    groups = [f"g-{number}" for number in range(30)]
    incident = OpenIncident(
        severity="ERROR",
        since_ms=SINCE_MS,
        groups=frozenset(groups),
        text="30 groups were stuck in a rebalance",
        first="Look at broker 1.",
        runbook="r",
    )
    loopback.show(stuck(for_ms=200_000), groups)
    alerts = f'count(ALERTS{{alertname="{STUCK}", alertstate="firing"}})'
    wait_until(lambda: scrapes(loopback, alerts) == 30, SECONDS, pause=0.2)
    loopback.show(stuck(for_ms=200_000), groups, incident)
    wait_until(lambda: scrapes(loopback, alerts) == 0, SECONDS, pause=0.2)
    wait_until(lambda: loopback.of("pager", "incident_id"), SECONDS, pause=0.2)
    # Longer than the routes of conditions wait.
    wait_until(lambda: scrapes(loopback, "sum_over_time(up[80s:1s])") >= 70, 2 * SECONDS, pause=1.0)
    loopback.show(stable(), groups)
    wait_until(lambda: loopback.of("pager", "incident_id")[-1]["status"] == "resolved", SECONDS, pause=0.2)

    assert [*loopback.of("pager"), *loopback.of("chat")] == []
    assert loopback.of("chat", "incident_id") != []
    pages = loopback.of("pager", "incident_id")
    assert len({one["groupKey"] for one in pages}) == 1
    assert [one["status"] for one in pages].count("resolved") == 1
    assert incident.text in pages[0]["alerts"][0]["annotations"]["description"]
