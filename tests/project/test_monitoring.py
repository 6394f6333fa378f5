"""Alerts and dashboard use only metrics that the exporter has, and each alert fires when it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import pytest
import yaml

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits
from groupreplay.app.exporter.metric_catalog import METERS, metrics_table
from groupreplay.state.conditions.rebalance_stuck import WEDGED
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events.event import Severity
from groupreplay.streaming.contract.messages import CONDITIONS_KEY, JOB_KEY
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.histories.probed import START
from support.incident_stories import incident_events
from support.job.measured import measured_lags
from support.job.sink_messages import SINCE_MS, document, events, job_document, stable, stuck
from support.paths import ROOT
from support.serve.asked_site import AskedSite
from support.serve.written_clusters import messages, served_cluster, take
from support.tools.monitoring_files import (
    ALERTMANAGER,
    PROMETHEUS,
    RULES,
    RULES_TEST,
    alerts,
    dashboard,
    queries,
    targets,
)
from support.tools.prometheus_tools import amtool, promtool

#: The address of the runbook in the alerts, which everybody replaces.
RUNBOOK = "https://runbook.example.com/groupreplay"


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The exporter's output for a job that has a value for every metric: labels by metric."""
    picture = TopicsSnapshot()
    (calm, calm_report), (sick, sick_report) = stable(), stuck(for_ms=700_000)
    expiring = {
        **msgspec.json.decode(document(calm, "calm")),
        "offsets": {"next_expiry_ms": START},
        "labels": {"lag_objective": "5m"},
    }
    picture.take_state(b"calm", msgspec.json.encode(expiring))
    picture.take_state(b"sick", document(sick, "sick"))
    for value in [*events(calm_report, "calm"), *events(sick_report, "sick")]:
        picture.take_event(value, START)
    picture.take_event(incident_events()[0], START)
    job = msgspec.json.decode(job_document(SINCE_MS))
    job["batch"]["state"]["loaded"] = 2
    picture.take_job(JOB_KEY, msgspec.json.encode(job))
    blind = [{"condition": "job.blind", "severity": "ERROR", "what": "no_rights", "condition_id": "b"}]
    picture.take_job(CONDITIONS_KEY, msgspec.json.encode({"conditions": blind}))
    limits = Limits(public_url="https://groups.example.com", kafka_exporter_names=True)
    return {
        sample.name: set(sample.labels)
        for metric in measure(picture, SINCE_MS, limits, lags=measured_lags(SINCE_MS))
        for sample in metric.samples
    }


def test_the_exporter_has_every_metric(exported: dict[str, set[str]]) -> None:
    """The output has every metric of the table with its labels, so the tests below compare with real output."""
    assert exported == {meter.name: set(meter.labels) for meter in METERS}


def used_in(query: str) -> Iterator[tuple[str, str]]:
    """(metric, label) of each matcher in a query, and (metric, "") of each metric."""
    for name, matchers in re.findall(r"\b((?:kafka|groupreplay)_[a-z_]+)\b(?:\{([^}]*)\})?", query):
        yield name, ""
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            yield name, label


@pytest.mark.parametrize(("where", "query"), queries().items(), ids=queries())
def test_queries_use_existing_metrics(where: str, query: str, exported: dict[str, set[str]]) -> None:
    """Each metric exists and has the labels by which the query selects and groups it."""
    found = list(used_in(query))
    assert found, where
    assert [
        (name, label) for name, label in found if name not in exported or label not in {"", *exported[name]}
    ] == []
    known = set().union(*(exported[name] for name, _ in found))
    grouped = re.findall(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)", query)
    assert {label.strip() for labels in grouped for label in labels.split(",")} <= known


def test_conditions_in_queries_exist() -> None:
    """Every condition in a query exists; an alert with a misspelt name would never fire."""
    known = {kind.NAME for kind in CONDITIONS} | {WEDGED}
    used = {name for query in queries().values() for name in re.findall(r'\bcondition!?="([^"]*)"', query)}
    assert len(used) > 7
    assert used - known == set()


def test_every_query_can_be_parsed(tmp_path: Path) -> None:
    """Prometheus parses each query, written as a rule."""
    rules = [{"record": f"q:{number}", "expr": query} for number, query in enumerate(queries().values())]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


def test_a_broken_query_is_rejected(tmp_path: Path) -> None:
    """Promtool rejects a broken query, so the test above can fail."""
    path = tmp_path / "queries.yml"
    path.write_text(
        yaml.safe_dump({"groups": [{"name": "x", "rules": [{"record": "q:1", "expr": "sum(by)("}]}]})
    )
    with pytest.raises(AssertionError, match="parse error"):
        promtool("check", "rules", path)


def test_the_rules_are_valid() -> None:
    """The rules and the configuration that loads them are valid."""
    assert f"{len(alerts())} rules found" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("check", "config", PROMETHEUS / "prometheus.yml")


def test_each_alert_fires_only_when_it_should() -> None:
    """Promtool's tests pass, and they have a case with and a case without each alert."""
    assert "SUCCESS" in promtool("test", "rules", RULES_TEST)
    cases: dict[str, set[bool]] = {}
    for test in yaml.safe_load(RULES_TEST.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            cases.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert cases == {rule["alert"]: {True, False} for rule in alerts()}


def test_every_condition_has_an_alert() -> None:
    """A condition that can be more than INFO has an alert of its own; the one for all others leaves out just these."""
    own = {name for rule in alerts() for name in re.findall(r'\bcondition="([^"]*)"', rule["expr"])}
    told = {kind.NAME for kind in CONDITIONS if kind.SEVERITY > Severity.INFO}
    assert told - own == set()
    (others,) = (rule["expr"] for rule in alerts() if rule["alert"] == "ConsumerGroupCondition")
    (left_out,) = set(re.findall(r'condition!~"([^"]*)"', others))
    of_groups = {name for name in own if not name.startswith("job.")}
    assert set(left_out.replace("[.]", ".").split("|")) == of_groups


def test_each_alert_has_its_annotations() -> None:
    """A summary, a description, a severity, and the address of an existing section of the runbook.

    That of a condition also has since when, and that of a group's condition who it is about.
    """
    headings = re.findall(r"^##+ (.*)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    sections = {heading.lower().replace(" ", "-") for heading in headings}
    for rule in alerts():
        of_condition = "condition_since_timestamp_seconds" in rule["expr"]
        of_group = of_condition and "kafka_consumergroup" in rule["expr"]
        more = ({"since", "page_url"} if of_condition else set()) | ({"who"} if of_group else set())
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"} | more
        assert "severity" in rule["labels"]
        url = rule["annotations"]["runbook_url"]
        (anchor,) = re.findall(re.escape(RUNBOOK) + r"#(\{\{ .* \}\}|[a-z-]+)", url.partition("{{ end }}")[0])
        assert anchor in sections or rule["alert"] == "ConsumerGroupCondition", rule["alert"]


def test_the_page_names_the_address_to_replace() -> None:
    """The address of the runbook in the alerts is an example, which the page shows how to replace."""
    assert f"s|{RUNBOOK}|" in (ROOT / "docs" / "monitoring.md").read_text()


def test_alertmanager_takes_its_configuration() -> None:
    """Amtool accepts the file, and routes incidents and conditions by their severity."""
    assert "SUCCESS" in amtool("check-config", ALERTMANAGER)
    routes = {
        ("alertname=ConsumerGroupIncident", "incident_id=i", "severity=critical"): "pager,chat",
        ("alertname=ConsumerGroupIncident", "incident_id=i", "severity=warning"): "chat",
        ("condition_id=i", "severity=critical"): "pager,chat",
        ("condition_id=i", "severity=warning"): "chat",
        ("alertname=GroupReplayJobDown", "severity=critical"): "pager",
        ("alertname=GroupReplayDeadLetters", "severity=warning"): "chat",
    }
    test = ("config", "routes", "test", f"--config.file={ALERTMANAGER}")
    assert {labels: amtool(*test, *labels).splitlines()[0] for labels in routes} == routes


def test_the_page_lists_alerts_and_metrics() -> None:
    """The page has every alert in order, and the table of metrics that ``make docs`` writes."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in alerts()]
    assert metrics_table() in page


def test_the_dashboard_is_valid() -> None:
    """Ids are unique, panels do not overlap, and every query uses the selected data source."""
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


def test_the_dashboard_shows_the_main_metrics(exported: dict[str, set[str]]) -> None:
    """It has states, rebalances, conditions, expiry, events and the job; labels in legends exist."""
    shown = {name for _, target in targets() for name, _ in used_in(target["expr"])}
    wanted = {
        *("group_state", "rebalances_total", "rebalance_in_progress_seconds", "condition"),
        *("offsets_expire_timestamp_seconds", "offsets_expired_total"),
    }
    assert {f"kafka_consumergroup_{name}" for name in wanted} - shown == set()
    assert {"groupreplay_events_total", "groupreplay_job_up", "groupreplay_lag_offsets"} - shown == set()
    for panel, target in targets():
        labels = set().union(*(exported[name] for name, _ in used_in(target["expr"])))
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, panel["title"]


def test_variables_are_declared(exported: dict[str, set[str]]) -> None:
    """Every variable in a query belongs to the dashboard or to Grafana."""
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    text = json.dumps(dashboard()["panels"])
    used = {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}
    assert used <= set(variables)
    for name in ("cluster", "group"):
        (found,) = re.findall(r"label_values\(([a-z_]+)(?:\{.*\})?, (\w+)\)", variables[name]["definition"])
        assert found[1] in exported[found[0]]


def test_rebalances_are_spans_of_an_annotation(tmp_path: Path) -> None:
    """The query of the annotation, as Grafana fills it in, is answered, and its columns are those of annotations."""
    (annotation,) = dashboard()["annotations"]["list"]
    target = annotation["target"]
    filled = {
        "${__from}": str(START - 60_000),
        "${__to}": str(START + 60_000),
        # Grafana joins several by |, and sends the variable's value for All as it is.
        "${group:pipe}": "orders|pay",
    }
    parameters = {one["key"]: filled[one["value"]] for one in target["url_options"]["params"]}
    _, told = stable()
    with served_cluster(tmp_path, SINCE_MS) as cluster:
        take(cluster, messages(events(told, "orders"), SINCE_MS), SINCE_MS)
        answer = AskedSite(SINCE_MS, cluster).json(f"{target['url']}?{urlencode(parameters)}")
    rows = answer[target["root_selector"]]
    spans = [{column["text"]: row[column["selector"]] for column in target["columns"]} for row in rows]
    assert [(span.keys(), span["title"]) for span in spans] == [
        ({"time", "timeEnd", "title", "text"}, "orders")
    ] * len(rows)
    assert rows
    assert all(span["time"] <= span["timeEnd"] < START + 60_000 for span in spans)
    (variable,) = [one for one in dashboard()["templating"]["list"] if one["name"] == "rebalances"]
    (source,) = yaml.safe_load((ROOT / "deploy" / "grafana" / "rebalances.yml").read_text())["datasources"]
    assert {variable["query"], annotation["datasource"]["type"], source["type"]} == {
        "yesoreyeram-infinity-datasource"
    }
    assert annotation["datasource"]["uid"] == "${rebalances}"


def test_the_dashboard_leads_to_the_page_of_a_group() -> None:
    """Every panel with a group has a link to its page at the moment that was clicked, in its cluster."""
    panels = {
        panel["title"]: [link["url"] for link in panel["fieldConfig"]["defaults"].get("links", [])]
        for panel in dashboard()["panels"]
        if any("consumergroup" in target.get("expr", "") for target in panel.get("targets", []))
        and panel["type"] != "stat"
    }
    table = (
        "${pages}/groups/${__data.fields.group:percentencode}"
        "?cluster=${__data.fields.cluster:percentencode}&at=${__to}"
    )
    series = (
        "${pages}/groups/${__field.labels.consumergroup:percentencode}"
        "?cluster=${__field.labels.cluster:percentencode}&at=${__value.time}"
    )
    assert panels == {
        "Active conditions by group": [table],
        "Next offsets to expire": [table],
        "States over time": [series],
        "Rebalances per hour, top 20 groups": [series],
        "Rebalances in progress": [series],
        "Time lag beside rebalances, top 10 groups": [series],
        "Conditions over time": [series],
    }
