"""Compares all renderings of an incident: what two of them tell differently, as sentences.

The last event of an incident is the measure. What it must say is counted here anew from the events of its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from groupreplay.state.phrases import timestamp_ms
from support.simulated.incident_renderings import IncidentRenderings, Json

_ORDER: Final = ("INFO", "WARN", "ERROR")
_PAGED: Final = {"INFO": "info", "WARN": "warning", "ERROR": "error"}
_SHOWN: Final = 200
_FIELDS: Final = (
    *("since_ms", "last_began_ms", "until_ms", "group_count", "groups", "kinds", "shared", "certainty"),
    *("text", "first", "command", "runbook", "events"),
)


def contradictions(incident: IncidentRenderings) -> list[str]:
    """Everything that is told in two ways, each with the story."""
    return [
        f"{incident.story}, {check.__name__.strip('_')}: {text}"
        for check in CHECKS
        for text in check(incident)
    ]


def _forms(incident: IncidentRenderings) -> Iterator[str]:
    """Severity and facts of the last event, in the document of the report and in the answer of the server."""
    severity = incident.events[-1]["severitytext"]
    for name, form in (("report", incident.reported), ("server", incident.served)):
        if form is None:
            yield f"{name} does not have it"
            continue
        if form["severity"] != severity:
            yield f"severity: event {severity}, {name} {form['severity']}"
        yield from (
            f"{field}: event {incident.last[field]}, {name} {form['incident'][field]}"
            for field in _FIELDS
            if form["incident"][field] != incident.last[field]
        )


def _begin_and_end(incident: IncidentRenderings) -> Iterator[str]:
    """Counted anew: the first begin, the last end, the highest severity, and the groups of what it names."""
    if not incident.complete:
        return
    begins, ends, open_ids = list[int](), list[int](), set[str]()
    for one in incident.parts:
        data, at_ms = one["data"], one["data"].get("since_ms") if "condition_id" in one["data"] else None
        begins.append(_ms(one) if at_ms is None else at_ms)
        if "condition_id" not in data:
            ends.append(_ms(one))
        elif data["status"] == "resolved":
            ends.append(_ms(one))
            open_ids.discard(data["condition_id"])
        else:
            open_ids.add(data["condition_id"])
    severity = max((one["severitytext"] for one in incident.parts), key=_ORDER.index)
    until_ms = None if open_ids else max(ends)
    groups = {one["data"]["group_id"] for one in incident.parts}
    told = incident.last
    for name, own, expected in (
        ("begin", told["since_ms"], min(begins)),
        ("end", told["until_ms"], until_ms),
        ("severity", incident.events[-1]["severitytext"], severity),
        ("groups", set(told["groups"]), groups),
    ):
        if own != expected:
            yield f"{name}: incident {own}, its events {expected}"


def _ms(body: Json) -> int:
    at_ms = timestamp_ms(body["time"])
    assert at_ms is not None
    return at_ms


def _counts(incident: IncidentRenderings) -> Iterator[str]:
    """The number of groups in each event: field, list, sentence, what happened to most."""
    for event in incident.events:
        data = event["data"]
        count = data["group_count"]
        if not data["text"].startswith(f"{count} groups ") or len(data["groups"]) != min(count, _SHOWN):
            yield f"{count} groups, {len(data['groups'])} names: {data['text']}"
        if max(data["kinds"].values()) > count:
            yield f"{count} groups: {data['kinds']}"


def _sentences(incident: IncidentRenderings) -> Iterator[str]:
    """The sentence, whether it lasts and how long it did: events, ``explain``, page of on-call."""
    last, line = incident.last, incident.lines[-1]
    lasts = last["until_ms"] is None
    shown = {"events": line, "explain": incident.explained}
    for name, text in shown.items():
        if last["text"] not in text or ("over after" in text) is lasts:
            yield f"{name}, {'it lasts' if lasts else 'it is over'}: {text}"
    if ("It still lasts" in incident.explained) is not lasts:
        yield f"explain: {incident.explained}"
    if not incident.explained.startswith(incident.events[-1]["severitytext"]):
        yield f"severity of explain: {incident.explained}"
    if last["first"] not in incident.explained or last["command"] not in incident.explained:
        yield f"what to do first: {incident.explained}"


def _alerts(incident: IncidentRenderings) -> Iterator[str]:
    """What is open is open in metrics and on the pager, under one id and with one severity."""
    event, last, metric = incident.events[-1], incident.last, incident.metric
    is_open = event["type"] == "groupreplay.incident.opened.v1"
    action = incident.page["event_action"]
    if (metric is not None, action) != (is_open, "trigger" if is_open else "resolve"):
        yield f"{event['type']}: metric {metric}, pager {action}"
    if incident.page["dedup_key"] != last["incident_id"]:
        yield f"pager: {incident.page['dedup_key']}"
    if metric is not None:
        own = (metric.severity, metric.since_ms, metric.text, metric.first, metric.runbook)
        told = (event["severitytext"], *(last[name] for name in ("since_ms", "text", "first", "runbook")))
        if own != told:
            yield f"metric {own}, event {told}"
        payload = incident.page["payload"]
        if payload["severity"] != _PAGED[event["severitytext"]] or last["text"] not in payload["summary"]:
            yield f"pager {payload}"
    elif not is_open and last["until_ms"] is None:
        yield "it is resolved, and has no end"


CHECKS: Final[tuple[Callable[[IncidentRenderings], Iterator[str]], ...]] = (
    *(_forms, _begin_and_end, _counts, _sentences, _alerts),
)
