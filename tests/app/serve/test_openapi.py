"""The OpenAPI document is valid, and names every path, parameter and answer. test_api.py compares the answers."""

from __future__ import annotations

from pathlib import Path

from openapi_spec_validator import validate

from groupreplay.app.serve.openapi import PATHS
from support.serve.asked_site import AskedSite
from support.serve.written_clusters import served_cluster


def test_the_document(tmp_path: Path) -> None:
    """A validator that nobody here wrote accepts it, and it has a description of everything."""
    with served_cluster(tmp_path, 0) as cluster:
        document = AskedSite(0, cluster).client.get("/api/openapi.json").json()
    validate(document)
    operations = {path: one["get"] for path, one in document["paths"].items()}
    assert {
        path: {name["name"] for name in one["parameters"]} - {"id"} for path, one in operations.items()
    } == {path.path: {*path.parameters} for path in PATHS}
    assert len({one["operationId"] for one in operations.values()}) == len(operations)
    assert all(one["description"] for operation in operations.values() for one in operation["parameters"])
    assert {code for one in operations.values() for code in one["responses"]} == {
        *("200", "400", "401", "404", "429", "503")
    }
