"""The Helm chart: what it makes of its values, what it refuses, and that nothing in it is told twice."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

import groupreplay
from support.job.captures import parsed
from support.paths import ROOT
from support.tools.helm_chart import (
    CHART,
    CLUSTER,
    MANIFESTS,
    Document,
    chart_digest,
    helm,
    manifests,
    notes,
    refusal,
    rendered,
)
from support.tools.kubernetes_schemas import (
    RELEASES,
    OperatorModels,
    kubernetes_errors,
    kubernetes_schemas,
)

VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
#: A checkpoint on S3, with a standby, keys of a Secret and a setting of Spark.
ON_S3: dict[str, Any] = {
    **CLUSTER,
    "job": {
        "replicas": 2,
        "checkpoint": {
            "volume": {"enabled": False},
            "s3": {"uri": "s3a://bucket/groupreplay", "secretName": "bucket-keys"},
        },
        "sparkConf": {"spark.hadoop.fs.s3a.endpoint.region": "eu-central-1"},
        "tmpSize": "4Gi",
    },
}
#: All that can be switched on, and every text and list that is empty by default.
EVERYTHING: dict[str, Any] = {
    "bootstrapServers": "a:9092,b:9094",
    "sink": {"bootstrapServers": "sink:9093", "login": {"secretName": "sink-login"}},
    "topicPrefix": "eu-",
    "rules": '[severity_cap]\n"rebalance.slow" = "WARN"\n',
    "pages": {"allowedHosts": ["groups.example.org"], "publicUrl": "https://groups.example.org/"},
    "image": {"repository": "registry.example.org/groupreplay", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"create": True, "annotations": {"role": "writer"}},
    "job": {
        "replicas": 2,
        "checkpoint": {"volume": {"storageClassName": "fast"}},
        "extraArgs": ["--trigger", "5"],
        "podAnnotations": {"team": "kafka"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "extraVolumes": [{"name": "key", "secret": {"secretName": "redact-key"}}],
        "extraVolumeMounts": [{"name": "key", "mountPath": "/etc/redact", "readOnly": True}],
    },
    "serve": {"extraArgs": ["--partition-metrics"]},
    "watch": {"enabled": True, "image": {"tag": "test"}, "volume": {"storageClassName": "fast"}},
    "networkPolicy": {
        "enabled": True,
        "ingressFrom": [{"podSelector": {}}],
        "extraEgress": [{"ports": [{"protocol": "TCP", "port": 8443}]}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "runbookUrl": "https://docs.example.org/runbook",
    },
}
#: Pages without a token, no login, no job.
METRICS_ONLY: dict[str, Any] = {
    **CLUSTER,
    "login": {"secretName": ""},
    "pages": {"secretName": ""},
    "job": {"enabled": False},
    "serve": {"metricsOnly": True},
}
CASES = {"defaults": CLUSTER, "on-s3": ON_S3, "everything": EVERYTHING, "metrics-only": METRICS_ONLY}
OF_OPERATOR = "monitoring.coreos.com/v1"


def objects(values: dict[str, Any]) -> dict[str, Document]:
    """``Kind name`` -> object."""
    return {f"{one['kind']} {one['metadata']['name']}": one for one in rendered(values)}


def container(document: Document) -> Document:
    """The only container of a pod."""
    (found,) = document["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_the_manifests_are_those_of_the_chart() -> None:
    """``deploy/kubernetes`` has what Helm makes of the chart; ``python -m golden.refresh_manifests`` writes it."""
    assert {name: (MANIFESTS / name).read_text(encoding="utf-8") for name in manifests()} == manifests()


def test_the_manifests_name_the_chart_that_they_are_of() -> None:
    """Where Helm is missing: the manifests were made after the last change of the chart."""
    for name in ("groupreplay.yaml", "watch.yaml"):
        assert f"({chart_digest()})" in (MANIFESTS / name).read_text(encoding="utf-8")


def test_the_chart_has_the_release() -> None:
    """Chart and image are of the release of the package."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (groupreplay.__version__,) * 2


def test_the_alerts_are_those_of_prometheus() -> None:
    """The chart's file of alerts is the one in ``deploy/prometheus``, from which ``make docs`` writes it."""
    rules = ROOT / "deploy" / "prometheus" / "groupreplay.rules.yml"
    assert (CHART / "files" / rules.name).read_bytes() == rules.read_bytes()


def test_the_schema_knows_each_value_and_no_other() -> None:
    """Every name in values.yaml is in the schema, which has no other one; the values are valid; nothing is open."""

    def names(schema: dict[str, Any], values: Any, path: str) -> None:
        schema = {**SCHEMA["$defs"].get(schema.get("$ref", "").rpartition("/")[2], {}), **schema}
        if "properties" not in schema:
            return
        assert schema["additionalProperties"] is False, path
        # Helm gives each chart the values `global` of the chart that it is part of.
        assert {*schema["properties"]} - {"global"} == {*values}, path
        for name in values:
            names(schema["properties"][name], values[name], f"{path}.{name}")

    names(SCHEMA, VALUES, "")
    Draft7Validator.check_schema(SCHEMA)
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(VALUES)] == []


def test_hadoops_client_is_that_of_sparks_hadoop() -> None:
    """The package for S3 has the release of Hadoop in the pyspark of the image, which the tests run with."""
    import pyspark

    locked = (ROOT / "deploy" / "requirements.txt").read_text(encoding="utf-8")
    if f"\npyspark=={pyspark.__version__} " not in locked:
        pytest.skip("another Spark than that of the image")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    release = jar.stem.removeprefix("hadoop-client-api-")
    assert VALUES["job"]["checkpoint"]["s3"]["packages"] == f"org.apache.hadoop:hadoop-aws:{release}"


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_pods_run_valid_commands(values: dict[str, Any]) -> None:
    """The words of each container are a command with known flags and valid values; what they name is mounted."""
    pods = [one for one in rendered(values) if "template" in one.get("spec", {})]
    assert pods
    for pod in pods:
        words = container(pod)["args"]
        assert parsed(words).info_name == words[0]
        mounts = {one["mountPath"]: one["name"] for one in container(pod)["volumeMounts"]}
        claims = pod["spec"].get("volumeClaimTemplates", [])
        volumes = {one["name"] for one in pod["spec"]["template"]["spec"]["volumes"]}
        assert volumes | {one["metadata"]["name"] for one in claims} == {*mounts.values()}
        for word in words:
            if word.startswith("/"):
                assert any(word.startswith(f"{path}/") for path in mounts)
        assert pod["spec"]["selector"]["matchLabels"] == pod["spec"]["template"]["metadata"]["labels"]


def test_a_checkpoint_on_s3() -> None:
    """No volume; Hadoop's client and the keys of a Secret; two pods, of which one waits, and a budget for them."""
    found = objects(ON_S3)
    job = found["StatefulSet groupreplay"]
    words = container(job)["args"]
    assert words[words.index("--checkpoint") + 1] == "s3a://bucket/groupreplay"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--spark-conf"] == [
        f"spark.jars.packages={VALUES['job']['checkpoint']['s3']['packages']}",
        "spark.jars.ivy=/tmp/ivy",
        "spark.hadoop.fs.s3a.endpoint.region=eu-central-1",
    ]
    assert container(job)["env"] == [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "bucket-keys", "key": name}}}
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    assert ("volumeClaimTemplates" in job["spec"], "--standby" in words, job["spec"]["replicas"]) == (
        False,
        True,
        2,
    )
    budget = found["PodDisruptionBudget groupreplay"]["spec"]
    assert budget == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": job["spec"]["template"]["metadata"]["labels"]},
    }


def test_one_job_has_no_budget() -> None:
    """With one pod a budget would hold up each drain of a node."""
    assert [*objects(CLUSTER)] == [
        "Service groupreplay-serve",
        "Deployment groupreplay-serve",
        "StatefulSet groupreplay",
    ]


def test_another_release_name_has_other_names() -> None:
    """Two releases in one namespace do not meet: names, and what selects pods."""
    found = rendered(CLUSTER, release="eu")
    assert {one["metadata"]["name"] for one in found} == {"eu-groupreplay", "eu-groupreplay-serve"}
    (service,) = (one for one in found if one["kind"] == "Service")
    assert service["spec"]["selector"]["app.kubernetes.io/instance"] == "eu"


def test_the_network_is_what_is_needed() -> None:
    """The ports of all brokers that are named, the name service, what is given; from outside the port of the pages."""
    policy = objects(EVERYTHING)["NetworkPolicy groupreplay"]["spec"]
    assert policy["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": "metrics"}], "from": [{"podSelector": {}}]}
    ]
    dns, brokers, more = ([one["port"] for one in rule["ports"]] for rule in policy["egress"])
    assert (dns, brokers, more) == ([53, 53], [9092, 9094, 9093], [8443])


def test_the_monitor_finds_both_services() -> None:
    """It selects the Services of serve and watch by their labels, and their port by its name."""
    found = objects(EVERYTHING)
    monitor = found["ServiceMonitor groupreplay"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    selected = [
        name
        for name, one in found.items()
        if one["kind"] == "Service" and wanted <= one["metadata"]["labels"].items()
    ]
    assert selected == ["Service groupreplay-serve", "Service groupreplay-watch"]
    for name in selected:
        assert [one["name"] for one in found[name]["spec"]["ports"]] == [
            monitor["spec"]["endpoints"][0]["port"]
        ]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_the_rule_has_all_alerts() -> None:
    """The PrometheusRule is the file of alerts, with the addresses of the values in place of the examples."""
    text = (CHART / "files" / "groupreplay.rules.yml").read_text(encoding="utf-8")
    text = text.replace("https://runbook.example.com/groupreplay", "https://docs.example.org/runbook")
    text = text.replace("https://groupreplay.example.com", "https://groups.example.org")
    assert objects(EVERYTHING)["PrometheusRule groupreplay"]["spec"] == yaml.safe_load(text)


def test_rules_are_a_file() -> None:
    """The rules of the values are what the job and watch read, byte for byte; other rules start other pods."""
    found = objects(EVERYTHING)
    assert found["ConfigMap groupreplay-rules"]["data"] == {"rules.toml": EVERYTHING["rules"]}
    changed = objects({**EVERYTHING, "rules": "# none\n"})
    for name in ("StatefulSet groupreplay", "StatefulSet groupreplay-watch"):
        words = container(found[name])["args"]
        assert words[words.index("--rules") + 1] == "/etc/groupreplay-rules/rules.toml"
        assert found[name]["spec"]["template"]["metadata"] != changed[name]["spec"]["template"]["metadata"]


def test_the_notes_name_what_is_missing(tmp_path: Path) -> None:
    """After an installation: each Secret that the pods wait for, and the way to the pages; no other Secret."""
    text = notes(CLUSTER, tmp_path / "defaults")
    assert re.findall(r"create secret generic (\S+) -n default --from-file=(\S+)", text) == [
        ("groupreplay-login", "client.properties=client.properties"),
        ("groupreplay-pages", "token=token"),
    ]
    assert "service/groupreplay-serve 9408:metrics" in text
    assert "create secret" not in notes(METRICS_ONLY, tmp_path / "metrics")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "no cluster is named: set bootstrapServers to the brokers, for example --set bootstrap"),
        ({"bootstrapServers": "broker"}, "bootstrapServers"),
        ({**CLUSTER, "jobb": {}}, "'jobb' not allowed"),
        ({**CLUSTER, "job": {"replica": 2}}, "'replica' not allowed"),
        ({**CLUSTER, "job": {"sparkConf": {"spark.cores.max": 8}}}, "want string"),
        ({**CLUSTER, "job": {"resources": {"limit": {}}}}, "'limit' not allowed"),
        (
            {**CLUSTER, "job": {"checkpoint": {"s3": {"uri": "s3a://bucket/folder"}}}},
            "the checkpoint of the job is on S3 and on a volume: set job.checkpoint.volume.enabled=false, or leave out",
        ),
        (
            {**CLUSTER, "job": {"checkpoint": {"volume": {"enabled": False}}}},
            "the job has no checkpoint: set job.checkpoint.volume.enabled=true, or job.checkpoint.s3.uri to",
        ),
        (
            {**CLUSTER, "pages": {"secretName": ""}},
            "the pages of serve need a token: set pages.secretName to a Secret that has one, or serve.metricsOnly=true",
        ),
        (
            {**CLUSTER, "job": {"enabled": False}, "serve": {"enabled": False}},
            "nothing is enabled: set job.enabled, serve.enabled or watch.enabled to true",
        ),
        (
            {**CLUSTER, "sink": {"login": {"secretName": "login"}}},
            "sink.login is set and no cluster for it: set sink.bootstrapServers, or leave out",
        ),
    ],
)
def test_bad_values_are_refused(values: dict[str, Any], sentence: str) -> None:
    """Nothing is rendered, and one sentence says what to do."""
    assert sentence in refusal(values)


@pytest.mark.long
def test_helm_accepts_the_chart() -> None:
    """``helm lint --strict`` finds no error and no warning; Go builds Helm where it is missing."""
    command = [helm(build=True), "lint", "--strict", str(CHART), "--set", "bootstrapServers=broker:9092"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.findall(r"\[(?:WARNING|ERROR)\].*", done.stdout) == []


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_kubernetes_accepts_the_objects(tmp_path: Path, release: str) -> None:
    """Each object of each set of values is valid by the strict schema of that release; a wrong field is not."""
    helm(build=True)
    with kubernetes_schemas(tmp_path) as schemas:
        for values in CASES.values():
            found = [one for one in rendered(values) if one["apiVersion"] != OF_OPERATOR]
            assert kubernetes_errors(schemas, release, found) == []
        (job,) = (one for one in found if one["kind"] == "Deployment")
        container(job)["volumeMount"] = []
        assert kubernetes_errors(schemas, release, found) == [
            "groupreplay-serve: Additional properties are not allowed ('volumeMount' was unexpected)"
        ]


@pytest.mark.long
def test_the_operator_accepts_its_objects(tmp_path: Path) -> None:
    """ServiceMonitor and PrometheusRule pass classes made from the operator's definitions unchanged."""
    helm(build=True)
    models = OperatorModels(tmp_path)
    found = [one for one in rendered(EVERYTHING) if one["apiVersion"] == OF_OPERATOR]
    assert len(found) == 2
    assert models.read(found) == found
    (monitor,) = (one for one in found if one["kind"] == "ServiceMonitor")
    monitor["spec"]["endpoints"][0]["prt"] = "metrics"
    assert models.read(found) != found
    monitor["spec"]["endpoints"][0]["interval"] = "15 seconds"
    assert "spec.endpoints.0.interval" in str(models.read(found))
