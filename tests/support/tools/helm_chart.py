"""The chart in ``deploy/helm``, as Helm renders it, and the manifests that are made from it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from support.paths import ROOT
from support.tools.go_programs import go_program, place

CHART: Final = ROOT / "deploy" / "helm" / "groupreplay"
MANIFESTS: Final = ROOT / "deploy" / "kubernetes"
_HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.19.5"
#: What every rendering needs.
CLUSTER: Final = {"bootstrapServers": "broker:9092"}
#: Manifest -> values that it is made with, and what it is.
_MADE: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "groupreplay.yaml": (
        CLUSTER,
        "# The job, and its pages and metrics, on Kubernetes, without a Spark cluster: one pod runs\n"
        "# `groupreplay run`, which starts Spark in the pod. Image: deploy/Dockerfile.",
    ),
    "watch.yaml": (
        {**CLUSTER, "job": {"enabled": False}, "serve": {"enabled": False}, "watch": {"enabled": True}},
        "# `groupreplay watch` on Kubernetes: one small pod, which writes nothing to the cluster of Kafka. Image:\n"
        "# deploy/watch.Dockerfile.",
    ),
}

Document = dict[str, Any]


def helm(*, build: bool = False) -> str:
    """Helm of this machine or of the cache; with ``build`` Go builds it, in minutes. Skips the test without it."""
    if found := shutil.which("helm"):
        return found
    if build:
        return str(go_program(_HELM))
    if not place(_HELM).exists():
        pytest.skip("Helm is not on this machine: the long tests build it once, with Go")
    return str(place(_HELM))


def rendered_text(values: Mapping[str, Any], *, release: str = "groupreplay", chart: Path = CHART) -> str:
    """What ``helm template`` prints for these values; it must succeed."""
    done = _template(values, release, chart)
    assert done.returncode == 0, done.stderr
    return done.stdout


def notes(values: Mapping[str, Any], folder: Path) -> str:
    """What Helm prints after an installation. ``helm template`` leaves it out: a copy of the chart has it as data."""
    chart = Path(shutil.copytree(CHART, folder / "groupreplay"))
    (chart / "templates" / "NOTES.txt").rename(chart / "NOTES.txt")
    copied = '{"kind": "Notes", "text": {{ tpl (.Files.Get "NOTES.txt") . | toJson }}}'
    (chart / "templates" / "notes.yaml").write_text(copied)
    documents = yaml.safe_load_all(rendered_text(values, chart=chart))
    (text,) = (str(one["text"]) for one in documents if one and one["kind"] == "Notes")
    return text


def rendered(values: Mapping[str, Any], *, release: str = "groupreplay") -> list[Document]:
    """The objects that Helm makes of these values."""
    return [one for one in yaml.safe_load_all(rendered_text(values, release=release)) if one]


def refusal(values: Mapping[str, Any]) -> str:
    """What Helm says about values that it must refuse, in one line."""
    done = _template(values, "groupreplay")
    assert done.returncode != 0, done.stdout
    return " ".join(done.stderr.split())


def chart_digest() -> str:
    """Of all that decides what a manifest has; a manifest names that of the chart that it was made from."""
    files = [CHART / name for name in ("Chart.yaml", "values.yaml")] + sorted(CHART.glob("templates/*"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def manifests() -> dict[str, str]:
    """Name in ``deploy/kubernetes`` -> text."""
    return {name: _manifest(what, values) for name, (values, what) in _MADE.items()}


def _manifest(what: str, values: Mapping[str, Any]) -> str:
    text = re.sub(r"(?m)^---\n# Source: .*\n", "---\n", rendered_text(values))
    body = re.sub(r"(?m)\s+$", "", text.removeprefix("---\n"))
    how = (
        f"# Made from deploy/helm/groupreplay ({chart_digest()}) by `python -m golden.refresh_manifests`.\n"
        "# docs/platforms.md has the steps; the login and the token are Secrets that are made there."
    )
    return f"{what}\n{how}\n{body}\n"


def _template(
    values: Mapping[str, Any], release: str, chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    # A Helm that Go has built with no other flag takes itself for one of Kubernetes 1.20.
    command = [helm(), "template", release, str(chart), "--kube-version", "1.31", "--values", "-"]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
