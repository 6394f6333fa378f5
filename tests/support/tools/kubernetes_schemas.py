"""The schemas of Kubernetes and of operators, from packages that carry them; for the long tests."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

#: Releases of Kubernetes: the oldest that vendors still supported in 2026, and the newest that has a schema.
RELEASES: Final = ("1.31", "1.37")
#: Models made from the definitions of the Prometheus Operator.
_OPERATOR_MODELS: Final = "cloudcoil-models-prometheus-operator==0.80.1.0"
_READ_AND_WRITE: Final = """
import json, sys
from cloudcoil.models.prometheus_operator import v1
documents = json.load(sys.stdin)
models = [getattr(v1, one["kind"]).model_validate(one) for one in documents]
json.dump([one.model_dump(by_alias=True, exclude_unset=True, mode="json") for one in models], sys.stdout)
"""

Document = dict[str, Any]


@contextmanager
def kubernetes_schemas(folder: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel of ``kubernetes-validate``, which contains the schemas of many releases."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*command, "kubernetes-validate"], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        yield opened


def kubernetes_errors(schemas: zipfile.ZipFile, release: str, found: Sequence[Document]) -> list[str]:
    """What the strict schema of this release refuses."""
    folder = f"kubernetes_validate/kubernetes-json-schema/v{release}.0-local-strict"
    definitions = json.loads(schemas.read(f"{folder}/_definitions.json"))
    errors = []
    for one in found:
        # apps/v1 Deployment: deployment-apps-v1; networking.k8s.io/v1 NetworkPolicy: networkpolicy-networking-v1
        group = one["apiVersion"].replace(".k8s.io", "").replace("/", "-")
        schema = json.loads(schemas.read(f"{folder}/{one['kind'].lower()}-{group}.json"))
        registry = Registry().with_resources(
            [(contents["$id"], Resource.from_contents(contents)) for contents in (schema, definitions)]
        )
        validator = Draft202012Validator(schema, registry=registry)
        errors += [f"{one['metadata']['name']}: {error.message}" for error in validator.iter_errors(one)]
    return errors


class OperatorModels:
    """The Prometheus Operator's resources as classes, in an environment of their own in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder)]
        subprocess.run([*command, _OPERATOR_MODELS], check=True, capture_output=True)

    def read(self, found: Sequence[Document]) -> list[Document] | str:
        """What the classes have kept of the objects: an unknown field is lost; the error if a value is invalid."""
        script = f"import sys; sys.path.insert(0, {str(self._folder)!r}); {_READ_AND_WRITE}"
        command = [sys.executable, "-I", "-c", script]
        done = subprocess.run(command, input=json.dumps(found), capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr
        kept: list[Document] = json.loads(done.stdout)
        return kept


def pip_alone(folder: Path, package: str) -> None:
    """A package alone in a folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", str(folder), package], check=True, capture_output=True)


def strict(schema: Any) -> Any:
    """The same schema, but objects with known properties may have no other ones, as the API server prunes them."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {name: strict(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        stricter.setdefault("additionalProperties", False)
    return stricter
