"""The bill of materials (SBOM) of a release, as CycloneDX JSON.

``cyclonedx-py`` lists the environment in which the tests have run. Of that the bill has what the wheel and its extras
need, directly or through others. Added are the parts that pip does not see: the script of ECharts that the wheel
contains, and the jars that an installed groupreplay downloads (Spark's Kafka connector, and the broker of ``demo``).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from groupreplay.streaming.local import platforms
from groupreplay.streaming.local.broker import DEFAULT_VERSION

#: Extras of the wheel whose libraries the bill lists.
EXTRAS: Final = ("kafka", "spark", "serve", "logs", "mcp", "msk", "java", "svg")
LICENCES: Final = Path(__file__).with_name("jar_licences.json")
#: Sets of jars that an installed groupreplay downloads -> when. All others are for tests.
DOWNLOADED: Final[Mapping[str, str]] = {
    **{line.jar_set: f"run, with Spark {line.name}" for line in platforms.LINES},
    f"broker-{DEFAULT_VERSION}": "demo",
}
_PACKAGE: Final = "groupreplay"
_VERSION: Final = SchemaVersion.V1_6


def bill_of_materials(wheel: Path, project: Path, seconds: int) -> bytes:
    """The bill of a wheel whose libraries are installed beside this module; ``seconds``: the commit's time.

    Raises:
        ValueError: a library of the wheel is not installed, or the bill does not follow the schema of CycloneDX.
    """
    command = [
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--mc-type",
        "application",
        "--of",
        "JSON",
        "--no-validate",  # that is done below, with what is added
    ]
    command += ["--spec-version", _VERSION.to_version(), "--pyproject", str(project / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", *command, sys.executable], check=True, capture_output=True, text=True
    )
    bill = completed(json.loads(done.stdout), wheel, seconds)
    text = json.dumps(bill, indent=2, ensure_ascii=False) + "\n"
    error = JsonStrictValidator(_VERSION).validate_str(text)
    if error is not None:
        raise ValueError(f"the bill of materials does not follow CycloneDX {_VERSION.to_version()}: {error}")
    return text.encode()


def completed(bill: dict[str, Any], wheel: Path, seconds: int) -> dict[str, Any]:
    """The bill of an environment, reduced to the wheel's libraries, with its other parts and an identity of its own."""
    name, version = wheel.name.split("-")[:2]
    root = bill["metadata"]["component"]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    root |= {"version": version, "purl": f"pkg:pypi/{name}@{version}", "hashes": [_sha256(digest)]}
    libraries: dict[str, dict[str, Any]] = {canonicalize_name(one["name"]): one for one in bill["components"]}
    direct = needed(requirements(wheel), EXTRAS)
    edges = closure(direct)
    added = [*_scripts(wheel), *_jars(wheel)]
    bill["components"] = [libraries[one] for one in sorted(edges)] + added
    needs = {libraries[one]["bom-ref"]: {libraries[to]["bom-ref"] for to in edges[one]} for one in edges}
    needs |= {one["bom-ref"]: set() for one in added}
    needs[root["bom-ref"]] = {libraries[one]["bom-ref"] for one in direct} | {one["bom-ref"] for one in added}
    bill["dependencies"] = [{"ref": ref, "dependsOn": sorted(refs)} for ref, refs in sorted(needs.items())]
    bill["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, f"{root['purl']}#{digest}").urn
    bill["metadata"]["timestamp"] = datetime.fromtimestamp(seconds, timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    return bill


def requirements(wheel: Path) -> list[str]:
    """The lines ``Requires-Dist`` of a wheel."""
    (name,) = [one for one in _names(wheel) if one.endswith(".dist-info/METADATA")]
    return Parser().parsestr(_content(wheel, name).decode()).get_all("Requires-Dist", [])


def needed(lines: Iterable[str], extras: Iterable[str]) -> dict[str, set[str]]:
    """Names of the libraries that hold for this Python and these extras -> the extras that are asked of each."""
    found: dict[str, set[str]] = {}
    for one in map(Requirement, lines):
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.setdefault(canonicalize_name(one.name), set()).update(one.extras)
    return found


def closure(direct: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Every library that is needed directly or through others -> what it needs itself.

    The graph of ``cyclonedx-py`` does not serve: it also has what a library needs for extras that nobody asked for.

    Raises:
        ValueError: a library is not installed.
    """
    edges: dict[str, set[str]] = {}
    waiting = [(name, extra) for name, extras in direct.items() for extra in ("", *extras)]
    seen = set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            raise ValueError(
                f"{name} is not installed: the bill lists what the tests have run with"
            ) from None
        below = needed(lines, [extra])
        edges.setdefault(name, set()).update(below)
        waiting += [(one, asked) for one, extras in below.items() for asked in ("", *extras)]
    return edges


def _scripts(wheel: Path) -> Iterator[dict[str, Any]]:
    """ECharts, which the wheel contains with its licence."""
    echarts = json.loads(_content(wheel, f"{_PACKAGE}/app/report/web/echarts.json"))
    purl = f"pkg:npm/{echarts['package']}@{echarts['version']}"
    yield {
        **{"type": "library", "bom-ref": purl, "name": echarts["package"], "version": echarts["version"]},
        **{"purl": purl, "licenses": _licence(echarts["licence"]), "scope": "required"},
        "hashes": [_sha256(echarts["files"]["echarts.min.js"])],
        "properties": [{"name": "groupreplay:part", "value": "in the wheel, app/report/web/echarts.min.js"}],
    }


def _jars(wheel: Path) -> Iterator[dict[str, Any]]:
    """The jars that are downloaded when they are needed, each once."""
    lock = json.loads(_content(wheel, f"{_PACKAGE}/streaming/local/jars.json"))
    licences = {
        name: licence for licence, names in json.loads(LICENCES.read_text()).items() for name in names
    }
    users: dict[str, list[str]] = {}
    for name, user in DOWNLOADED.items():
        for coordinate in lock[name]:
            users.setdefault(coordinate, []).append(user)
    for coordinate in sorted(users):
        group, artifact, version = coordinate.split(":")[:3]
        purl = f"pkg:maven/{group}/{artifact}@{version}"
        digest = next(lock[name][coordinate] for name in DOWNLOADED if coordinate in lock[name])
        yield {
            **{"type": "library", "bom-ref": purl, "group": group, "name": artifact, "version": version},
            **{"purl": purl, "licenses": _licence(licences[f"{group}:{artifact}"]), "scope": "optional"},
            "hashes": [_sha256(digest)],
            "properties": [
                {"name": "groupreplay:part", "value": f"downloaded by {'; '.join(users[coordinate])}"}
            ],
        }


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def _content(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def _licence(expression: str) -> list[dict[str, Any]]:
    simple = " " not in expression
    return [{"license": {"id": expression}} if simple else {"expression": expression}]


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}
