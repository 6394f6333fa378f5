"""The bill of materials (SBOM) of a release, as CycloneDX JSON.

``cyclonedx-py`` lists what pip installs for the wheel with its extras. Added are the parts that pip does not see: the
script of ECharts that the wheel contains, and the jars that an installed groupreplay downloads (Spark's Kafka connector,
and the broker of ``demo``).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from groupreplay.streaming.local import spark_lines
from groupreplay.streaming.local.broker import DEFAULT_VERSION

#: Extras of the wheel whose libraries the bill lists.
EXTRAS: Final = ("spark", "java", "svg")
LICENCES: Final = Path(__file__).with_name("jar_licences.json")
#: Sets of jars that an installed groupreplay downloads -> when. All others are for tests.
DOWNLOADED: Final[Mapping[str, str]] = {
    **{line.jar_set: f"run, with Spark {line.name}" for line in spark_lines.LINES},
    f"broker-{DEFAULT_VERSION}": "demo",
}
_PACKAGE: Final = "groupreplay/streaming"
_VERSION: Final = SchemaVersion.V1_6


def install(wheel: Path, environment: Path) -> Path:
    """Installs the wheel with its extras into a new environment; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install"]
    subprocess.run([*pip, f"{wheel}[{','.join(EXTRAS)}]"], check=True)
    return python


def bill_of_materials(wheel: Path, python: Path, project: Path, seconds: int) -> bytes:
    """The bill of a wheel that is installed in the environment of ``python``; ``seconds``: the commit's time.

    Raises:
        ValueError: the bill does not follow the schema of CycloneDX.
    """
    command = ["cyclonedx_py", "environment", "--output-reproducible", "--mc-type", "application"]
    command += ["--spec-version", _VERSION.to_version(), "--of", "JSON", "--pyproject", str(project / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", *command, str(python)], check=True, capture_output=True, text=True
    )
    bill = completed(json.loads(done.stdout), wheel, seconds)
    text = json.dumps(bill, indent=2, ensure_ascii=False) + "\n"
    error = JsonStrictValidator(_VERSION).validate_str(text)
    if error is not None:
        raise ValueError(f"the bill of materials does not follow CycloneDX {_VERSION.to_version()}: {error}")
    return text.encode()


def completed(bill: dict[str, Any], wheel: Path, seconds: int) -> dict[str, Any]:
    """The bill of an environment with the wheel's version, its other parts, and an identity of its own."""
    name, version = wheel.name.split("-")[:2]
    root = bill["metadata"]["component"]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    root |= {"version": version, "purl": f"pkg:pypi/{name}@{version}", "hashes": [_sha256(digest)]}
    # The environment has the wheel itself, too; the bill is about it.
    itself = {one["bom-ref"] for one in bill["components"] if one["name"] == name}
    added = [*_scripts(wheel), *_jars(wheel)]
    bill["components"] = [one for one in bill["components"] if one["bom-ref"] not in itself] + added
    needs: dict[str, set[str]] = {
        one["ref"]: {ref for ref in one.get("dependsOn", ()) if ref not in itself}
        for one in bill["dependencies"]
        if one["ref"] not in itself
    }
    required = {ref for one in bill["dependencies"] if one["ref"] in itself for ref in one.get("dependsOn", ())}
    needs[root["bom-ref"]] = needs.get(root["bom-ref"], set()) | required | {one["bom-ref"] for one in added}
    needs |= {one["bom-ref"]: set() for one in added}
    bill["dependencies"] = [{"ref": ref, "dependsOn": sorted(refs)} for ref, refs in sorted(needs.items())]
    bill["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, f"{root['purl']}#{digest}").urn
    bill["metadata"]["timestamp"] = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return bill


def _scripts(wheel: Path) -> Iterator[dict[str, Any]]:
    """ECharts, which the wheel contains with its licence."""
    echarts = json.loads(_content(wheel, f"{_PACKAGE}/report/web/echarts.json"))
    purl = f"pkg:npm/{echarts['package']}@{echarts['version']}"
    yield {
        **{"type": "library", "bom-ref": purl, "name": echarts["package"], "version": echarts["version"]},
        **{"purl": purl, "licenses": _licence(echarts["licence"]), "scope": "required"},
        "hashes": [_sha256(echarts["files"]["echarts.min.js"])],
        "properties": [{"name": "groupreplay:part", "value": "in the wheel, streaming/report/web/echarts.min.js"}],
    }


def _jars(wheel: Path) -> Iterator[dict[str, Any]]:
    """The jars that are downloaded when they are needed, each once."""
    lock = json.loads(_content(wheel, f"{_PACKAGE}/local/jars.json"))
    licences = {name: licence for licence, names in json.loads(LICENCES.read_text()).items() for name in names}
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
            "properties": [{"name": "groupreplay:part", "value": f"downloaded by {'; '.join(users[coordinate])}"}],
        }


def _content(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def _licence(expression: str) -> list[dict[str, Any]]:
    simple = " " not in expression
    return [{"license": {"id": expression}} if simple else {"expression": expression}]


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}

