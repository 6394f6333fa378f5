"""The alerts and the dashboard as they are shipped, and every query in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from support.paths import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = PROMETHEUS / "groupreplay.rules.yml"
RULES_TEST = PROMETHEUS / "groupreplay.rules.test.yml"
GRAFANA = ROOT / "deploy" / "grafana"
#: What Grafana puts in for its own variables.
FILLED = {"$__rate_interval": "5m", "$__range": "6h", "$cluster": ".*", "$group": ".*", "$severity": ".*"}


def alerts() -> list[dict[str, Any]]:
    """Every alert of the rules."""
    content = yaml.safe_load(RULES.read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """The dashboard."""
    content: dict[str, Any] = json.loads((GRAFANA / "groupreplay.json").read_text())
    return content


def targets() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every query of the dashboard, with its panel."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel, target


def filled(query: str) -> str:
    """The query with Grafana's variables filled in."""
    for name, text in FILLED.items():
        query = query.replace(name, text)
    return query


def queries() -> dict[str, str]:
    """Every query there is, by where it stands."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in alerts()}
    found |= {
        f"panel {panel['title']} {target['refId']}": filled(target["expr"]) for panel, target in targets()
    }
    return found
