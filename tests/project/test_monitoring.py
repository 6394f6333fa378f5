"""Alerts and dashboard: what they ask for is what the exporter says, and each alert fires when it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from groupreplay.state.conditions.conditions import CONDITIONS
from groupreplay.streaming.contract.output import CONDITIONS_KEY
from groupreplay.streaming.exporter.collector import WEDGED, Limits, measure
from groupreplay.streaming.exporter.metric_catalog import METERS, metrics_table
from groupreplay.streaming.job.heartbeat import JOB_KEY
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.histories.probed import START
from support.job.sink_messages import SINCE_MS, document, events, job_document, stable, stuck
from support.tools.monitoring_files import (
    GRAFANA,
    PROMETHEUS,
    ROOT,
    RULES,
    RULES_TEST,
    alerts,
    dashboard,
    queries,
    targets,
)
from support.tools.prometheus_tools import promtool


@pytest.fixture(scope="module")
def said() -> dict[str, set[str]]:
    """What the exporter really says about a job with something of everything: labels by metric."""
    picture = TopicsSnapshot()
    (calm, told), (sick, alarmed) = stable(), stuck(for_ms=700_000)
    expiring = {**msgspec.json.decode(document(calm)), "offsets": {"next_expiry_ms": START}}
    picture.take_state(b"calm", msgspec.json.encode(expiring))
    picture.take_state(b"sick", document(sick, "sick"))
    for value in [*events(told, "calm"), *events(alarmed, "sick")]:
        picture.take_event(value, START)
    picture.take_job(JOB_KEY, job_document(SINCE_MS))
    blind = [{"condition": "job.blind", "severity": "ERROR", "what": "no_rights"}]
    picture.take_job(CONDITIONS_KEY, msgspec.json.encode({"conditions": blind}))
    return {
        sample.name: set(sample.labels)
        for metric in measure(picture, SINCE_MS, Limits())
        for sample in metric.samples
    }


def test_the_exporter_can_say_everything(said: dict[str, set[str]]) -> None:
    """Every metric of the table, with its labels: so what is asked for below is held against real output."""
    assert said == {meter.name: set(meter.labels) for meter in METERS}


def asked_for(query: str) -> Iterator[tuple[str, str]]:
    """(metric, label) of each matcher of a query, and (metric, "") of each metric."""
    for name, matchers in re.findall(r"\b((?:kafka|groupreplay)_[a-z_]+)\b(?:\{([^}]*)\})?", query):
        yield name, ""
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            yield name, label


@pytest.mark.parametrize(("where", "query"), queries().items(), ids=queries())
def test_queries_ask_for_what_there_is(where: str, query: str, said: dict[str, set[str]]) -> None:
    """Each metric exists and has the labels that it is chosen, grouped, and shown by."""
    found = list(asked_for(query))
    assert found, where
    assert [
        (name, label) for name, label in found if name not in said or label not in {"", *said[name]}
    ] == []
    known = set().union(*(said[name] for name, _ in found))
    grouped = re.findall(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)", query)
    assert {label.strip() for labels in grouped for label in labels.split(",")} <= known


def test_conditions_that_are_asked_for_exist() -> None:
    """A misspelt name would be an alert that never fires."""
    known = {kind.NAME for kind in CONDITIONS} | {WEDGED}
    asked = {name for query in queries().values() for name in re.findall(r'condition!?="([^"]*)"', query)}
    assert len(asked) > 7
    assert asked - known == set()


def test_every_query_can_be_parsed(tmp_path: Path) -> None:
    """By Prometheus: each query of the dashboard as a rule."""
    rules = [{"record": f"q:{number}", "expr": query} for number, query in enumerate(queries().values())]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


def test_a_broken_query_would_be_refused(tmp_path: Path) -> None:
    """So the test above can fail."""
    path = tmp_path / "queries.yml"
    path.write_text(
        yaml.safe_dump({"groups": [{"name": "x", "rules": [{"record": "q:1", "expr": "sum(by)("}]}]})
    )
    with pytest.raises(AssertionError, match="parse error"):
        promtool("check", "rules", path)


def test_the_rules_are_valid() -> None:
    """And so is the configuration that loads them."""
    assert f"{len(alerts())} rules found" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("check", "config", PROMETHEUS / "prometheus.yml")


def test_each_alert_fires_and_does_not() -> None:
    """By promtool, on series that are written down beside the rules; every alert has both cases."""
    assert "SUCCESS" in promtool("test", "rules", RULES_TEST)
    cases: dict[str, set[bool]] = {}
    for test in yaml.safe_load(RULES_TEST.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            cases.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert cases == {rule["alert"]: {True, False} for rule in alerts()}


def test_each_alert_says_what_to_do() -> None:
    """A summary, a description, a severity, and the address of a section that the runbook has."""
    headings = re.findall(r"^##+ (.*)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert "severity" in rule["labels"]
        (anchor,) = re.findall(r"docs/runbook\.md#([a-z-]+)", rule["annotations"]["runbook_url"])
        assert anchor in anchors, rule["alert"]


def test_the_page_lists_them() -> None:
    """Every alert in its order, and the table of metrics as the code has it (``make docs`` writes it)."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in alerts()]
    assert metrics_table() in page


def test_the_dashboard_is_whole() -> None:
    """Ids are unique, no panel lies on another, every query is asked of the chosen data source."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        area = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & area, panel["title"]
        assert max(x for x, _ in area) < 24
        cells |= area
    assert {target["datasource"]["uid"] for _, target in targets()} == {"${datasource}"}


def test_the_dashboard_shows_what_it_should(said: dict[str, set[str]]) -> None:
    """States, rebalances, progress, conditions, expiry, events, the job; legends name labels that there are."""
    shown = {name for _, target in targets() for name, _ in asked_for(target["expr"])}
    wanted = {
        "group_state",
        "rebalances_total",
        "rebalance_in_progress_seconds",
        "condition",
        "offsets_expire_timestamp_seconds",
        "offsets_expired_total",
    }
    assert {f"kafka_consumergroup_{name}" for name in wanted} - shown == set()
    assert {"groupreplay_events_total", "groupreplay_job_up", "groupreplay_lag_offsets"} - shown == set()
    for panel, target in targets():
        labels = set().union(*(said[name] for name, _ in asked_for(target["expr"])))
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, panel["title"]


def test_variables_are_declared(said: dict[str, set[str]]) -> None:
    """Every variable of a query is one of the dashboard's or of Grafana's own."""
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    text = json.dumps(dashboard()["panels"])
    used = {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}
    assert used <= set(variables)
    for name in ("cluster", "group"):
        (found,) = re.findall(r"label_values\(([a-z_]+)(?:\{.*\})?, (\w+)\)", variables[name]["definition"])
        assert found[1] in said[found[0]]


def test_provisioning_finds_them() -> None:
    """Grafana is told of the data source of that type, and of a folder."""
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/groupreplay.yml").read_text())[
        "providers"
    ]
    assert provider["options"]["path"].startswith("/")
