"""All renderings of incidents across groups: events, text, report, ``explain``, ``/api/incidents``, metrics, pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec

from groupreplay.app.inspection.explain import incident_lines
from groupreplay.app.inspection.incidents import IncidentLog
from groupreplay.app.report.overview import AllStrips, all_strips, groups_overview
from groupreplay.app.serve.history.episode_queries import EpisodesQuery, episodes
from groupreplay.app.text.event_text import line_of
from groupreplay.app.text.webhook_formats import FORMATS
from groupreplay.state import Context
from groupreplay.state.output.envelope import cloud_event
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sinks.known_groups import OpenIncident
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.timeline.incident_signals import Item, LeaderSeen, document_items, event_items
from groupreplay.timeline.incidents import IncidentFinder
from support.pictures.timelines import SOURCE
from support.populations import CONTEXT, Population
from support.serve.written_clusters import messages, served_cluster, take
from support.simulated.renderings import SimulatedLog

Json = dict[str, Any]
_FOREVER_MS = 1 << 52


@dataclass(frozen=True, kw_only=True)
class IncidentRenderings:
    """One incident in each form; None: a form does not have it.

    ``events`` are its CloudEvents in order, ``parts`` the events of groups that the last one names, ``complete``
    whether that one names all of them.
    """

    story: str
    events: Sequence[Json]
    parts: Sequence[Json]
    complete: bool
    lines: Sequence[str]
    reported: Json | None
    explained: str
    served: Json | None
    metric: OpenIncident | None
    page: Json

    @property
    def last(self) -> Json:
        """The ``data`` of the last event."""
        data: Json = self.events[-1]["data"]
        return data


def of_population(folder: Path, story: str, population: Population) -> list[IncidentRenderings]:
    """Those of a story: the messages of a job, in no log."""
    leaders = [item for item in population.items if isinstance(item, LeaderSeen)]
    return list(_renderings(folder, story, population.bodies, population.documents, leaders, None, CONTEXT))


def of_log(folder: Path, log: SimulatedLog) -> list[IncidentRenderings]:
    """Those of a simulated log, as the commands and the server make them."""
    driver, bodies, documents = Replay(log.context, None), list[Json](), list[Json]()
    rows = list(driver.feed(log.rows()))
    for row in rows:
        if row.value is not None and row.output is Output.STATES:
            documents.append(json.loads(row.value))
    bodies = [json.loads(text) for text in events_in_order(iter(rows), Filter())]
    overview = all_strips(log.rows(), log.context, None, None, None)
    return list(_renderings(folder, log.scenario, bodies, documents, (), overview, log.context))


def _renderings(
    folder: Path,
    story: str,
    bodies: Sequence[Json],
    documents: Sequence[Json],
    leaders: Iterable[Item],
    overview: AllStrips | None,
    context: Context,
) -> Iterator[IncidentRenderings]:
    finder, log = IncidentFinder(runbook=context.policy.runbook), IncidentLog(context)
    finder.take(leaders)
    log.take(leaders)
    for body in bodies:
        finder.take(event_items(body))
        log.add(Output.EVENTS, body)
    for document in documents:
        finder.take(document_items(document))
        log.add(Output.STATES, document)
    told = [cloud_event(event, context, event.time_ms).value for event in finder.end()]
    reported = log.found(0, _FOREVER_MS) if overview is None else overview.incidents
    strips = AllStrips(since_ms=0, until_ms=_FOREVER_MS, strips=(), incidents=reported)
    drawn = {_id(one): one for one in _as_json(groups_overview(strips, (), SOURCE).incidents)}
    served, metrics = _served(folder, told), TopicsSnapshot()
    by_id: dict[str, list[bytes]] = {}
    for text in told:
        metrics.take_event(text, 0)
        by_id.setdefault(json.loads(text)["data"]["incident_id"], []).append(text)
    explained = {one.incident.incident_id: " ".join(incident_lines(one, 10_000)) for one in reported}
    for incident_id in {*by_id, *drawn, *served}:
        yield _of_one(
            by_id.get(incident_id, []),
            bodies,
            story=story,
            reported=drawn.get(incident_id),
            explained=explained.get(incident_id, ""),
            served=served.get(incident_id),
            metric=metrics.incidents.get(incident_id),
        )


def _of_one(texts: Sequence[bytes], bodies: Sequence[Json], **forms: Any) -> IncidentRenderings:
    """The renderings that follow from the events of an incident, beside its other ``forms``."""
    events = [json.loads(text) for text in texts]
    named = set(events[-1]["data"]["events"])
    page = FORMATS["pagerduty"](None)(texts[-1], "")
    assert page is not None
    return IncidentRenderings(
        events=events,
        parts=[one for one in bodies if not named.isdisjoint(_names(one))],
        complete=len(named) < 20,
        lines=[line_of(event).text for event in events],
        page=json.loads(page.body),
        **forms,
    )


def _names(body: Mapping[str, Any]) -> Iterator[str]:
    """The ids under which an incident may name an event."""
    if (condition_id := body["data"].get("condition_id")) is not None:
        yield condition_id
    else:
        yield body["id"]


def _as_json(incidents: object) -> list[Json]:
    found: list[Json] = json.loads(msgspec.json.encode(incidents))
    return found


def _id(one: Json) -> str:
    name: str = one["incident"]["incident_id"]
    return name


def _served(folder: Path, told: Sequence[bytes]) -> dict[str, Json]:
    """What ``/api/incidents`` answers, from the events as messages of the topic."""
    with served_cluster(Path(mkdtemp(dir=folder)), 0, age_ms=_FOREVER_MS) as cluster:
        take(cluster, messages(told, 0), 0)
        page = cluster.ask(lambda db: episodes(db, EpisodesQuery(since_ms=0, until_ms=_FOREVER_MS)))
    return {_id(one): one for one in _as_json(page.incidents)}
