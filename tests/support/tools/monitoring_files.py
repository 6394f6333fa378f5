"""The alerts and the dashboard in ``deploy``, and every query in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from string import Template
from typing import Any

import yaml

from support.paths import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = PROMETHEUS / "groupreplay.rules.yml"
RULES_TEST = PROMETHEUS / "groupreplay.rules.test.yml"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
GRAFANA = ROOT / "deploy" / "grafana"
#: Values for the variables that Grafana replaces.
FILLED = {"__rate_interval": "5m", "__range": "6h", "cluster": ".*", "group": ".*", "severity": ".*"}


def alerts() -> list[dict[str, Any]]:
    """Every alert in the rules file."""
    content = yaml.safe_load(RULES.read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """The dashboard's JSON."""
    content: dict[str, Any] = json.loads((GRAFANA / "groupreplay.json").read_text())
    return content


def targets() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every query of the dashboard, with its panel."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel, target


def queries() -> dict[str, str]:
    """Every query of the alerts and the dashboard, by its alert or panel."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in alerts()}
    for panel, target in targets():
        query = Template(target["expr"]).safe_substitute(FILLED)
        found[f"panel {panel['title']} {target['refId']}"] = query
    return found
