"""The OpenAPI document of the API; the tests compare every answer with it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from groupreplay import __version__
from groupreplay.app.serve.history.queries import SORTS
from groupreplay.state.events.event import Severity
from groupreplay.timeline.document import TIMELINE_FORM, TimelineDocument

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_WHOLE: Final[Json] = {"type": "integer"}
_YES_NO: Final[Json] = {"type": "boolean"}
_TIME: Final[Json] = {"type": "integer", "description": "Milliseconds since 1970 (UTC)."}
_SEVERITY: Final[Json] = {"type": "string", "enum": [*Severity.__members__]}
_COUNTS: Final[Json] = {"type": "object", "additionalProperties": {"type": "integer"}}


def _or_null(schema: Json) -> Json:
    return {"oneOf": [schema, {"type": "null"}]}


def _list(schema: Json) -> Json:
    return {"type": "array", "items": schema}


def _object(text: str = "", /, **properties: Json) -> Json:
    described = {"description": text} if text else {}
    return {
        "type": "object",
        **described,
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_SCHEMAS: Final[Mapping[str, Json]] = {
    "Error": _object("Why there is no answer.", error=_TEXT),
    "Condition": _object(
        "Something that holds now.",
        condition_id=_TEXT,
        name={"type": "string", "description": "For example rebalance.stuck; docs/events.md lists them."},
        severity=_SEVERITY,
        group_id=_or_null(_TEXT),
        since_ms=_or_null(_TIME),
        subject={"type": "string", "description": "The member, instance or partition; empty: the group."},
        summary={"type": "string", "description": "One sentence."},
        blockers=_list({"type": "object"}),
        suspects=_list({"type": "object"}),
        runbook=_TEXT,
    ),
    "Group": _object(
        "A group as the job sees it.",
        label={
            "type": "string",
            "description": "The id, or for an id that is empty, long or unsafe a text with a hash. For addresses.",
        },
        group_id=_TEXT,
        type={"type": "string", "description": "classic, consumer, share, streams or simple."},
        state=_TEXT,
        generation={**_or_null(_WHOLE), "description": "Generation, or group epoch."},
        members=_WHOLE,
        severity={**_or_null(_SEVERITY), "description": "The highest severity of its conditions."},
        risk={**_or_null(_TEXT), "description": "The name of its worst condition."},
        since_ms={**_or_null(_TIME), "description": "Since when it is in this state."},
        expires_ms={
            **_or_null(_TIME),
            "description": "Its first offset is not removed before; rounded down.",
        },
        offsets={"type": "integer", "description": "Committed partitions."},
        conditions=_list(_ref("Condition")),
        trouble={
            **_or_null(_object(name=_TEXT, at_ms=_TIME, severity=_SEVERITY)),
            "description": "The gravest event of the last 24 hours of the history that was no condition, such as a "
            "loss of offsets.",
        },
        rebalanced_ms={**_or_null(_TIME), "description": "The last completed rebalance in the history."},
        commits={
            **_or_null(_WHOLE),
            "description": "In the last sample of /api/committers, which is of commits_since_ms to commits_until_ms "
            "in /api/groups; null: none was taken, or the group's partition was not read.",
        },
        topics=_list(_TEXT),
    ),
    "Event": _object(
        "An event and its sentence.",
        event={"type": "object", "description": "The CloudEvent as the job wrote it (docs/events.md)."},
        text=_TEXT,
    ),
    "Job": _object(
        "The job's own health; null where it is not known.",
        up={
            **_or_null(_YES_NO),
            "description": "Heartbeats are fresh and a query reads the log; null: the job's topics cannot be read, or "
            "can be read again for less time than a job may be silent.",
        },
        silent={**_or_null(_YES_NO), "description": "Its heartbeat is late, or no single run has caught up."},
        query_running=_or_null(_YES_NO),
        phase=_or_null(_TEXT),
        once=_or_null(_YES_NO),
        version=_or_null(_TEXT),
        host=_or_null(_TEXT),
        trigger_seconds=_or_null({"type": "number"}),
        started_ms=_or_null(_TIME),
        heartbeat_ms=_or_null(_TIME),
        caught_up_ms=_or_null(_TIME),
        behind_ms=_or_null(_WHOLE),
        error=_or_null(_TEXT),
        conditions=_list(_object(name=_TEXT, severity=_TEXT, what=_or_null(_TEXT))),
        groups=_WHOLE,
        state_rows=_or_null(_WHOLE),
        lag_offsets=_or_null(_WHOLE),
        batch=_or_null(_object(seconds={"type": "number"}, rows=_WHOLE)),
        restarts=_or_null(_WHOLE),
        rules_error=_or_null(_TEXT),
        prober=_or_null(_object(round_ms=_TIME, groups=_WHOLE, brokers=_WHOLE, silent_brokers=_list(_TEXT))),
        bad_records=_COUNTS,
    ),
    "Answers": _object(
        "Whether the brokers answer, asked every few seconds.",
        answered_ms={**_or_null(_TIME), "description": "When everything that is read could be read last."},
        since_ms={**_or_null(_TIME), "description": "Since when without a gap, up to answered_ms."},
        error={**_or_null(_TEXT), "description": "Why not now; null: it can."},
    ),
    "Cluster": _object(
        name=_TEXT,
        cluster_id=_or_null(_TEXT),
        now_ms={
            "type": "integer",
            "description": "The present by the brokers' clock, as far as it is known.",
        },
        clock_off_ms={
            **_or_null(_WHOLE),
            "description": "How far this server's clock is ahead of the brokers'; more than 5 s is corrected in all "
            "times. null: no message has shown it yet.",
        },
        error={**_or_null(_TEXT), "description": "Why the job's topics cannot be read at this moment."},
        kafka={**_ref("Answers"), "description": "Of the cluster with the job's topics."},
        log_kafka={
            **_or_null(_ref("Answers")),
            "description": "Of the cluster with the offsets topic; null: it is the same one.",
        },
        known_until_ms={
            **_or_null(_TIME),
            "description": "Groups, conditions and events are known up to this time, by the job's clock; ages count to "
            "here. null: not known.",
        },
        caught_up_ms=_or_null(_TIME),
        job=_ref("Job"),
        conditions={**_COUNTS, "description": "Conditions of groups by severity."},
        history_ms={"type": "integer", "description": "How long events stay in the history."},
        history_since_ms={**_or_null(_TIME), "description": "When its oldest event happened."},
        history_until_ms={**_or_null(_TIME), "description": "When its newest event was written."},
        history_error=_or_null(_TEXT),
    ),
    "Strip": _object(
        group_id=_TEXT,
        spans={
            **_list({"type": "array", "minItems": 5, "maxItems": 5}),
            "description": "since_ms, until_ms, severity, condition, whether it holds.",
        },
        rebalances={
            **_list({"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}),
            "description": "Begin of a part of the time, completed rebalances in it.",
        },
        width_ms={"type": "integer", "description": "The length of such a part."},
    ),
    "Day": _object(
        day={"type": "string", "format": "date"},
        group_count=_WHOLE,
        offsets=_WHOLE,
        groups=_list(_object(group_id=_TEXT, expires_ms=_TIME, offsets=_WHOLE)),
    ),
    "Topic": _object(
        topic=_TEXT,
        reader_count=_WHOLE,
        readers=_list(
            _object(
                group_id=_TEXT,
                state=_TEXT,
                members=_WHOLE,
                severity=_or_null(_SEVERITY),
            )
        ),
    ),
}

_CURSOR: Final = _or_null(_TEXT)
#: Path -> what it answers, and its schema.
_ANSWERS: Final[Mapping[str, tuple[str, Json]]] = {
    "/api/clusters": (
        "The clusters that are served, and the health of their jobs.",
        _object(clusters=_list(_ref("Cluster")), now_ms=_TIME),
    ),
    "/api/groups": (
        "A page of groups; facets count those that match by state, type and worst condition (empty: none).",
        _object(
            groups=_list(_ref("Group")),
            total=_WHOLE,
            matching=_WHOLE,
            facets=_object(state=_COUNTS, type=_COUNTS, risk=_COUNTS),
            next=_CURSOR,
            commits_since_ms=_or_null(_TIME),
            commits_until_ms=_or_null(_TIME),
        ),
    ),
    "/api/groups/{id}": (
        "A group, and its document in group-states as the job wrote it when something else than commits changed: its "
        "commit times and log_position are of then.",
        _object(group=_ref("Group"), document={"type": "object"}),
    ),
    "/api/groups/{id}/timeline": (
        "What happened to a group, by default in the last day: the document of docs/report.md.",
        _ref(TimelineDocument.__name__),
    ),
    "/api/conditions": (
        "What holds now, the worst first, at most 2000; counts are of all by severity.",
        _object(conditions=_list(_ref("Condition")), counts=_COUNTS),
    ),
    "/api/events": (
        "Events of the history, newest first; next is the cursor of the following page.",
        _object(events=_list(_ref("Event")), next=_CURSOR),
    ),
    "/api/strips": (
        "What happened to groups, by default in the last day; without groups those with the worst conditions first.",
        _object(since_ms=_TIME, until_ms=_TIME, strips=_list(_ref("Strip"))),
    ),
    "/api/expiring": (
        "Groups whose first offset may be removed next, by day (UTC), by default of 14 days.",
        _object(days=_list(_ref("Day")), until_ms=_TIME),
    ),
    "/api/topics": (
        "Topics by name, and the groups that read them.",
        _object(topics=_list(_ref("Topic")), matching=_WHOLE),
    ),
    "/api/committers": (
        "The groups with the most commits in the last 5 minutes, counted in the offsets topic; error: why not.",
        _object(
            committers=_list(_object(group_id=_TEXT, commits=_WHOLE, per_s={"type": "number"})),
            since_ms=_TIME,
            until_ms=_TIME,
            complete=_YES_NO,
            error=_or_null(_TEXT),
        ),
    ),
}
_PARAMETERS: Final[Mapping[str, tuple[str, Json]]] = {
    "cluster": ("Name of the cluster, when several are served; by default the first.", _TEXT),
    "search": ("A part of a group's id, of a topic, or of a member's client id, instance id or host.", _TEXT),
    "type": ("For groups their type; for events a name such as rebalance.stuck, or a glob.", _TEXT),
    "state": ("State of the group, as Kafka names it.", _TEXT),
    "risk": ("Groups with this condition, with a condition of this severity, or with `any`.", _TEXT),
    "sort": ("Order of the groups.", {"type": "string", "enum": [*SORTS], "default": "risk"}),
    "limit": ("How many at most.", {"type": "integer", "minimum": 1, "maximum": 500}),
    "cursor": ("`next` of the answer before.", _TEXT),
    "since": ("Begin, included.", _TIME),
    "until": ("End, excluded.", _TIME),
    "group": ("Label of a group, or a glob.", _TEXT),
    "groups": ("Label of a group; may be repeated.", _list(_TEXT)),
    "min_severity": ("The least severity.", _SEVERITY),
}
_STREAM: Final = (
    "New events as server-sent events: `data` is an Event, `id` the place to resume from (`Last-Event-ID`). An event "
    "`reset` comes first, or when the history began again: what was read before may not be all."
)
_ERRORS: Final = {
    "400": "A parameter or the Host header is not accepted.",
    "401": "The token is missing or wrong.",
    "404": "There is no such group, cluster or path.",
    "429": "Too many requests, streams or readers of the log from this address.",
    "503": "The history gives no answer now, or too many streams or readers of the log are open.",
}


@lru_cache(1)
def openapi_document(endpoints: tuple[tuple[str, tuple[str, ...]], ...]) -> Json:
    """The document for paths with their parameters, as the application has them."""
    paths = {path: {"get": _operation(path, names)} for path, names in endpoints}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupreplay serve",
            "version": __version__,
            "description": "Consumer groups as the job sees them. Read-only.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of --auth-token-file; without that flag none is needed.",
                }
            },
            "schemas": {**_timeline(), **_SCHEMAS},
        },
    }


def _timeline() -> dict[str, Json]:
    """The schemas of a timeline and of its parts, by name."""
    _, parts = msgspec.json.schema_components((TimelineDocument,), ref_template="#/components/schemas/{name}")
    whole = parts[TimelineDocument.__name__]
    whole["properties"]["form"] = {"const": TIMELINE_FORM}
    return parts


def _operation(path: str, names: tuple[str, ...]) -> Json:
    is_stream = path.endswith("/stream")
    text, schema = (_STREAM, _TEXT) if is_stream else _ANSWERS[path]
    kind = "text/event-stream" if is_stream else "application/json"
    in_path = (
        [_parameter("id", "path", "Id or label of a group, percent-encoded.", _TEXT)]
        if "{id}" in path
        else []
    )
    in_query = [_parameter(name, "query", *_PARAMETERS[name]) for name in names]
    failures = {
        code: {"description": why, "content": {"application/json": {"schema": _ref("Error")}}}
        for code, why in _ERRORS.items()
    }
    return {
        "operationId": path.removeprefix("/api/").replace("/{id}", "_one").replace("/", "_"),
        "summary": text,
        "parameters": in_path + in_query,
        "responses": {"200": {"description": text, "content": {kind: {"schema": schema}}}, **failures},
    }


def _parameter(name: str, place: str, text: str, schema: Json) -> Json:
    return {"name": name, "in": place, "required": place == "path", "description": text, "schema": schema}
