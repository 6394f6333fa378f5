"""A site that is asked without a network, and what it must answer by its own OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from groupreplay.app.serve.application import serve_application
from groupreplay.app.serve.openapi import openapi_document
from groupreplay.app.serve.watched_cluster import WatchedCluster

if TYPE_CHECKING:
    # What Starlette's client answers with; only types need it by its name.
    from httpx2 import Response

TOKEN = "a-token-of-the-tests"


class AskedSite:
    """The site of some clusters; every answer of the API is compared with the document."""

    def __init__(self, now_ms: int, *clusters: WatchedCluster, token: str | None = None, **more: Any) -> None:
        application = serve_application(clusters, lambda: now_ms, token=token, **more)
        self.client = TestClient(application, base_url="http://127.0.0.1", raise_server_exceptions=False)

    def get(self, path: str, **headers: str) -> Response:
        """The answer, checked if it is one of the API."""
        answer = self.client.get(path, headers=headers)
        if path.startswith("/api/") and not path.startswith("/api/openapi"):
            schema = _schema(urlsplit(path).path, answer.status_code)
            Draft202012Validator(schema).validate(answer.json())
        return answer

    def json(self, path: str, **headers: str) -> Any:
        """What a successful answer has."""
        answer = self.get(path, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


def _schema(path: str, status: int) -> Mapping[str, Any]:
    """The schema of an answer, with the components of the document around it."""
    document = openapi_document()
    if status != 200:
        return {"$ref": "#/components/schemas/Error", "components": document["components"]}
    pattern = re.sub(r"^/api/groups/[^/]+", "/api/groups/{id}", path)
    content = document["paths"][pattern]["get"]["responses"]["200"]["content"]
    return {**content["application/json"]["schema"], "components": document["components"]}
