"""Tests of promtool for the alerts of conditions: each fires while its condition holds, and not before or after."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import yaml

from generators.alerts import LATER, OF_GROUPS, OF_JOB, RUNBOOK, Rule

Json = dict[str, Any]
_UP: Final = {"series": 'groupreplay_job_up{cluster="c"}', "values": "1x20"}
_GROUP: Final = {"cluster": "c", "consumergroup": "g"}


def _series(rule: Rule, values: str, condition_id: str, severity: str, **more: str) -> Json:
    """A series of a condition: ``60x3`` has held since minute 1."""
    labels = {"cluster": "c"} if rule.of_job else _GROUP
    return _written(
        rule.metric,
        {**labels, **rule.labels, "condition_id": condition_id, "severity": severity, **more},
        values,
    )


def _written(metric: str, labels: Mapping[str, str], values: str) -> Json:
    shown = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return {"series": f"{metric}{{{shown}}}", "values": values}


def _alert(
    rule: Rule, condition_id: str, severity: str, *, who: str = "", runbook: str = "", **more: str
) -> Json:
    """The alert as it must fire for such a series."""
    labels = {"cluster": "c"} if rule.of_job else _GROUP
    texts = {"group": "g", "cluster": "c", "what": "", **rule.labels}
    section = LATER.replace(".", "-").replace("_", "-") if "{" in rule.section else rule.section
    annotations = {
        "since": "1970-01-01 00:01:00 +0000 UTC",
        "page_url": f"https://groupreplay.example.com/{'' if rule.of_job else 'groups/g'}?cluster=c&at=60000",
        **({} if rule.of_job else {"who": who}),
        "summary": rule.alert.summary.format(**texts),
        "description": rule.alert.description.format(**texts),
        "runbook_url": runbook or f"{RUNBOOK}#{section}",
    }
    expected = {**labels, **rule.labels, "condition_id": condition_id, **more, "severity": severity}
    return {"exp_labels": expected, "exp_annotations": annotations}


def _case(rule: Rule, minute: int, *expected: Json) -> Json:
    return {"alertname": rule.name, "eval_time": f"{minute}m", "exp_alerts": list(expected)}


def _test(name: str, series: list[Json], cases: list[Json]) -> Json:
    return {"name": name, "interval": "1m", "input_series": series, "alert_rule_test": cases}


def _each_while_it_holds() -> Json:
    """From minute 1 to 3; every second one is an ERROR."""
    series, cases = [_UP], list[Json]()
    for number, rule in enumerate(OF_GROUPS):
        written, severity = (("WARN", "warning"), ("ERROR", "critical"))[number % 2]
        series.append(_series(rule, "_ 60x3 stale", rule.name, written))
        cases += [_case(rule, 0), _case(rule, 2, _alert(rule, rule.name, severity)), _case(rule, 5)]
    return _test("each condition of a group, while it holds", series, cases)


def _worse() -> Iterator[Json]:
    """A condition with a second name: what blocks it becomes known later, and both alerts stay the same ones."""
    for section, same in groupby(OF_GROUPS, key=lambda rule: rule.section):
        first, *others = same
        for worse in others:
            who, page = "blocked by pods-7@10.0.0.7", "https://wiki/groups#x"
            info, place = "kafka_consumergroup_condition_info", {**_GROUP, "condition_id": "i"}
            series = [
                _UP,
                _series(first, "_ _ 60x8", "i", "ERROR", team="money"),
                _series(worse, "_ _ _ _ _ _ 60x4 stale", "i", "ERROR", team="money"),
                _written(info, {**place, "who": "", "runbook": "docs/runbook.md#x"}, "_ _ 1x1 stale"),
                _written(info, {**place, "who": who, "runbook": page}, "_ _ _ _ 1x6"),
            ]
            early = _alert(first, "i", "critical", team="money")
            late = [
                _alert(rule, "i", "critical", who=who, runbook=page, team="money") for rule in (first, worse)
            ]
            cases = [_case(first, 1), _case(first, 3, early), _case(worse, 3), _case(first, 5, late[0])]
            cases += [_case(first, 7, late[0]), _case(worse, 7, late[1]), _case(first, 16), _case(worse, 16)]
            yield _test(f"{section} gets worse", series, cases)


def _unknown_while_the_job_is_down() -> Json:
    """The job is down from 4m to 6m and its exporter from 7m to 9m: an alert stays until the job is back."""
    over, holds = OF_GROUPS[0], OF_GROUPS[-1]
    series = [
        {**_UP, "values": "1x3 0 0 0 stale _ _ 1x5"},
        _series(over, "60x3 NaN NaN NaN stale _ _ _ _", "over", "WARN"),
        _series(holds, "60x3 NaN NaN NaN stale _ _ 60x5", "holds", "ERROR"),
    ]
    cases = list[Json]()
    for minute in (3, 6, 9):
        cases.append(_case(over, minute, _alert(over, "over", "warning")))
        cases.append(_case(holds, minute, _alert(holds, "holds", "critical")))
    cases += [_case(over, 10), _case(holds, 10, _alert(holds, "holds", "critical"))]
    return _test("nobody knows whether a condition is over while the job is down", series, cases)


def _in_an_incident() -> Json:
    """What begins with an incident has no alert of its own, also when it is open later; what was before keeps it."""
    before, after = OF_GROUPS[0], OF_GROUPS[1]
    incident = "kafka_consumergroup_incident_since_timestamp_seconds"
    series = [
        _UP,
        _series(before, "_ 60x10", "before", "WARN"),
        _series(after, "_ _ _ 180x10", "after", "ERROR"),
        _written(incident, {**_GROUP, "incident_id": "i"}, "_ _ _ _ 175x4 stale"),
    ]
    begun = {
        "since": "1970-01-01 00:03:00 +0000 UTC",
        "page_url": "https://groupreplay.example.com/groups/g?cluster=c&at=180000",
    }

    def of_after() -> Json:
        alert = _alert(after, "after", "critical")
        return {**alert, "exp_annotations": {**alert["exp_annotations"], **begun}}

    cases = [_case(before, 6, _alert(before, "before", "warning")), _case(after, 3, of_after())]
    cases += [_case(after, 6), _case(after, 10, of_after())]
    return _test("alerts of a group give way to that of the incident that it is in", series, cases)


def _of_the_job(rule: Rule) -> Json:
    """Also while the query says nothing; no other alert of the job fires for it."""
    up = {"series": 'groupreplay_query_up{cluster="c"}', "values": "1x4 NaN NaN 1x20"}
    cases = [_case(rule, 0)]
    cases += [_case(rule, minute, _alert(rule, "b", "critical")) for minute in (2, 6)]
    cases += [_case(rule, 8), *(_case(other, 2) for other in OF_JOB if other is not rule)]
    return _test(rule.name, [up, _series(rule, "_ 60x3 NaN NaN stale", "b", "ERROR")], cases)


def tests() -> str:
    """All tests, in YAML."""
    made = [
        _each_while_it_holds(),
        *_worse(),
        _unknown_while_the_job_is_down(),
        _in_an_incident(),
        *map(_of_the_job, OF_JOB),
    ]
    return "".join(textwrap.indent(_yaml(one), "  ") + "\n" for one in made)


def _yaml(test: Json) -> str:
    text: str = yaml.safe_dump([test], sort_keys=False, width=110, default_flow_style=None)
    return text
