"""The paths of the API, and the OpenAPI document, which is made from them and from the structs of the answers.

The tests compare every answer with the document.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, get_type_hints

import msgspec

from groupreplay.app.serve.answers import Error, Event
from groupreplay.app.serve.api import Api
from groupreplay.app.serve.event_streams import event_feed
from groupreplay.app.serve.history.group_queries import SORTS
from groupreplay.state.events.event import Severity
from groupreplay.timeline.document import TIMELINE_FORM, TimelineDocument
from groupreplay.version import __version__

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiPath:
    """A path of the API with its parameters, and the function that answers; ``from_log``: from the offsets topic."""

    path: str
    parameters: tuple[str, ...]
    answer: Callable[..., Any]
    from_log: bool = False

    @property
    def returns(self) -> type:
        """The struct that is sent, or that each event of a stream is."""
        if self.answer is event_feed:
            return Event
        struct: type = get_type_hints(self.answer)["return"]
        return struct

    @property
    def text(self) -> str:
        """What is answered: the docstring of the function."""
        return _STREAM if self.answer is event_feed else " ".join((inspect.getdoc(self.answer) or "").split())


#: Paths without a part of a group.
ENDPOINTS: Final = (
    ApiPath("/api/clusters", (), Api.list_clusters),
    ApiPath(
        "/api/groups",
        ("cluster", "search", "type", "state", "risk", "sort", "limit", "cursor"),
        Api.list_groups,
    ),
    ApiPath("/api/conditions", ("cluster",), Api.list_conditions),
    ApiPath(
        "/api/incidents",
        ("cluster", "since", "until", "search", "min_severity", "limit", "cursor"),
        Api.list_incidents,
    ),
    ApiPath(
        "/api/events",
        ("cluster", "since", "until", "group", "type", "min_severity", "limit", "cursor"),
        Api.list_events,
    ),
    ApiPath(
        "/api/rebalances", ("cluster", "since", "until", "groups", "limit", "cursor"), Api.list_rebalances
    ),
    ApiPath("/api/strips", ("cluster", "since", "until", "groups", "limit"), Api.list_strips),
    ApiPath("/api/deployments", ("cluster",), Api.list_deployments),
    ApiPath("/api/expiring", ("cluster", "until"), Api.list_expiring),
    ApiPath("/api/topics", ("cluster", "search", "limit"), Api.list_topics),
    ApiPath("/api/committers", ("cluster", "limit"), Api.list_committers, from_log=True),
)
ONE_GROUP: Final = ApiPath("/api/groups/{id}", ("cluster",), Api.one_group)
TIMELINE: Final = ApiPath("/api/groups/{id}/timeline", ("cluster", "since", "until"), Api.timeline)
STREAM: Final = ApiPath("/api/events/stream", ("cluster", "group", "type", "min_severity"), event_feed)
PATHS: Final = (*ENDPOINTS, ONE_GROUP, TIMELINE, STREAM)

_TEXT: Final[Json] = {"type": "string"}
_TIME: Final[Json] = {"type": "integer", "description": "Milliseconds since 1970 (UTC)."}
_PARAMETERS: Final[Mapping[str, tuple[str, Json]]] = {
    "cluster": ("Name of the cluster, when several are served; by default the first.", _TEXT),
    "search": (
        "A part of a group's id, of a topic, of a name or host of a member, of a state or a condition.",
        _TEXT,
    ),
    "type": ("For groups their type; for events a name such as rebalance.stuck, or a glob.", _TEXT),
    "state": ("State of the group, as Kafka names it.", _TEXT),
    "risk": ("Groups with this condition, with a condition of this severity, or with `any`.", _TEXT),
    "sort": ("Order of the groups.", {"type": "string", "enum": [*SORTS], "default": "risk"}),
    "limit": ("How many at most.", {"type": "integer", "minimum": 1, "maximum": 500}),
    "cursor": ("`next` of the answer before.", _TEXT),
    "since": ("Begin, included.", _TIME),
    "until": ("End, excluded.", _TIME),
    "group": ("Label of a group, or a glob.", _TEXT),
    "groups": ("Label of a group; may be repeated.", {"type": "array", "items": _TEXT}),
    "min_severity": ("The least severity.", {"type": "string", "enum": [*Severity.__members__]}),
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
def openapi_document() -> Json:
    """The document of all paths."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupreplay serve",
            "version": __version__,
            "description": "Consumer groups as the job sees them. Read-only.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {}],
        "paths": {path.path: {"get": _operation(path)} for path in PATHS},
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of --auth-token-file; without that flag none is needed.",
                }
            },
            "schemas": _schemas(),
        },
    }


def _schemas() -> dict[str, Json]:
    """The schemas of the answers and of their parts, by name."""
    timeline = _components(TimelineDocument)
    timeline[TimelineDocument.__name__]["properties"]["form"] = {"const": TIMELINE_FORM}
    answers = _components(*(path.returns for path in PATHS if path != TIMELINE), Error)
    for schema in answers.values():
        schema.update(_closed(schema))
    assert not timeline.keys() & answers.keys(), "two schemas of one name"
    return {**timeline, **answers}


def _components(*kinds: type) -> dict[str, Json]:
    return msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")[1]


def _closed(schema: Json) -> Json:
    """An answer has every field, also one with a default, and no other."""
    if schema["type"] == "array":
        return {"items": False, "maxItems": len(schema["prefixItems"])}
    for field in schema["properties"].values():
        field.pop("default", None)
    return {"required": [*schema["properties"]], "additionalProperties": False}


def _ref(kind: type) -> Json:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _operation(path: ApiPath) -> Json:
    names = path.path.removeprefix("/api/").replace("/{id}", "_one").replace("/", "_")
    in_path = [_parameter("id", "path", "Id or label of a group, percent-encoded.", _TEXT)]
    in_query = [_parameter(name, "query", *_PARAMETERS[name]) for name in path.parameters]
    content = (
        {"text/event-stream": {"schema": _TEXT}}
        if path.answer is event_feed
        else {"application/json": {"schema": _ref(path.returns)}}
    )
    failures = {
        code: {"description": why, "content": {"application/json": {"schema": _ref(Error)}}}
        for code, why in _ERRORS.items()
    }
    return {
        "operationId": names,
        "summary": path.text,
        "parameters": (in_path if "{id}" in path.path else []) + in_query,
        "responses": {"200": {"description": path.text, "content": content}, **failures},
    }


def _parameter(name: str, place: str, text: str, schema: Json) -> Json:
    return {"name": name, "in": place, "required": place == "path", "description": text, "schema": schema}
