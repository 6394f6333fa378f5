"""docs/platforms.md and the manifests for platforms agree with the code, and with the platforms' schemas."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

import groupreplay
from groupreplay.app.bundle.archive import LINES, BundleTarget, spark_release
from groupreplay.app.bundle.builder import Submission
from groupreplay.streaming.spark.session import submitted_conf
from support.job.captures import parsed
from support.paths import ROOT
from support.tools.kubernetes_schemas import pip_alone, strict

PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
SHELL = [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OPERATOR = "github.com/kubeflow/spark-operator/v2@v2.3.0"
CRD = "charts/spark-operator-chart/crds/sparkoperator.k8s.io_sparkapplications.yaml"

Document = dict[str, Any]


def documents(name: str) -> list[Document]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8")))


def objects(kind: str, name: str = "groupreplay.yaml") -> dict[str, Document]:
    """Name -> object of this kind in a manifest, by default that of the job in one pod."""
    return {one["metadata"]["name"]: one for one in documents(name) if one["kind"] == kind}


def workloads(name: str = "groupreplay.yaml") -> dict[str, Document]:
    """Name -> object of a manifest that has pods."""
    return {one["metadata"]["name"]: one for one in documents(name) if "template" in one["spec"]}


def databricks_job() -> Document:
    """The job for Databricks."""
    job: Document = json.loads((ROOT / "deploy" / "databricks" / "job.json").read_text(encoding="utf-8"))
    return job


def test_commands_of_the_program_are_valid() -> None:
    """Each line of groupreplay in the page has known flags and valid values, and names a line that is supported."""
    lines = [
        shlex.split(line)[1:]
        for block in SHELL
        for line in block.splitlines()
        if line.startswith("groupreplay ")
    ]
    contexts = [parsed(words) for words in lines]
    assert [context.info_name for context in contexts] == ["bundle", "bundle"]
    for context in contexts:
        assert context.params["python"] in spark_release(context.params["spark"]).supported.pythons


def test_submitted_commands_are_valid() -> None:
    """What stands behind job.py in each spark-submit line is a valid command, and the connector is of a known line."""
    submitted = [line for block in SHELL for line in block.splitlines() if line.startswith("spark-submit")]
    assert len(submitted) == 3
    for line in submitted:
        words = shlex.split(line)
        (at,) = [number for number, word in enumerate(words) if word.endswith("job.py")]
        assert parsed(words[at + 1 :]).info_name == "run"
        release = spark_release(words[words.index("--packages") + 1].rpartition(":")[2])
        assert words[words.index("--packages") + 1] == release.connector
        conf = dict(words[number + 1].split("=", 1) for number, word in enumerate(words) if word == "--conf")
        known = submitted_conf()
        assert {name: conf[name] for name in conf if name in known}.items() <= known.items()
        assert "spark.python.daemon.module" in conf


def test_the_table_knows_the_lines() -> None:
    """Each platform's Spark is of a line that an archive can be made for, or the user's own."""
    section = PAGE.partition("## What each platform has")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in section.splitlines() if row.startswith("| ")][2:]
    found = {re.match(r"\d+\.\d+", row[1])[0] for row in rows if re.match(r"\d", row[1])}  # type: ignore[index]
    assert found == set(LINES)
    assert {len(row) for row in rows} == {7}


def test_the_pods_run_valid_commands() -> None:
    """Both containers run a command with known flags, in the image of this version."""
    found = {}
    for name, workload in workloads().items():
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        found[name] = (parsed(container["args"]).info_name, container["image"])
    image = f"groupreplay:{groupreplay.__version__}"
    assert found == {"groupreplay": ("run", image), "groupreplay-serve": ("serve", image)}


def test_one_pod_owns_the_checkpoint() -> None:
    """One pod, never two of its name; the checkpoint is on the volume that outlives the pod, the login is a Secret."""
    job = workloads()["groupreplay"]
    assert (job["kind"], job["spec"]["replicas"]) == ("StatefulSet", 1)
    assert volume_of(job, "--checkpoint") == {"claim": "10Gi"}
    assert volume_of(job, "--command-config") == {
        "secret": {"secretName": "groupreplay-login", "defaultMode": 0o440}
    }


def volume_of(workload: Document, flag: str) -> Document:
    """Where the file or folder is that a flag of the container names; of a claim its size."""
    spec = workload["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    path = Path(container["args"][container["args"].index(flag) + 1])
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    name = mounts[str(path.parent)]
    claims = {
        one["metadata"]["name"]: {"claim": one["spec"]["resources"]["requests"]["storage"]}
        for one in workload["spec"].get("volumeClaimTemplates", [])
    }
    volumes = {one["name"]: {kind: one[kind] for kind in one.keys() - {"name"}} for one in spec["volumes"]}
    found: Document = {**volumes, **claims}[name]
    return found


def test_the_small_pod() -> None:
    """A valid command in the image of this version, one pod with a volume of its own; half a gigabyte."""
    (watch,) = workloads("watch.yaml").values()
    labels = watch["metadata"]["labels"]
    spec = watch["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == labels
    (container,) = spec["template"]["spec"]["containers"]
    assert parsed(container["args"]).info_name == "watch"
    assert container["image"] == f"groupreplay-watch:{groupreplay.__version__}"
    assert (watch["kind"], spec["replicas"]) == ("StatefulSet", 1)
    assert container["resources"]["limits"] == {"memory": "512Mi"}
    (service,) = objects("Service", "watch.yaml").values()
    (port,) = container["ports"]
    assert (service["spec"]["selector"], service["spec"]["ports"][0]["targetPort"]) == (labels, port["name"])
    words = container["args"]
    assert words[words.index("--listen") + 1] == f"0.0.0.0:{port['containerPort']}"
    kinds = [[*volume_of(watch, flag)] for flag in ("--state", "--command-config", "--auth-token-file")]
    assert kinds == [["claim"], ["secret"], ["secret"]]


@pytest.mark.parametrize(
    ("name", "file", "image"),
    [
        ("groupreplay", "groupreplay.yaml", "Dockerfile"),
        ("groupreplay-serve", "groupreplay.yaml", "Dockerfile"),
        ("groupreplay-watch", "watch.yaml", "watch.Dockerfile"),
    ],
)
def test_pods_are_restricted(name: str, file: str, image: str) -> None:
    """No root, no capability, no writable file system, no access to the API of Kubernetes; a limit of memory."""
    pod = workloads(file)[name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert "USER 10001" in (ROOT / "deploy" / image).read_text(encoding="utf-8")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    assert "/tmp" in {one["mountPath"] for one in container["volumeMounts"]}


def test_labels_and_ports_meet() -> None:
    """Each workload selects its own pods, and the Service the port of the pages, on which serve listens."""
    found = workloads()
    for workload in found.values():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"] == labels == workload["metadata"]["labels"]
    assert len({json.dumps(one["metadata"]["labels"]) for one in found.values()}) == 2
    service = objects("Service")["groupreplay-serve"]["spec"]
    pages = found["groupreplay-serve"]["spec"]["template"]
    assert service["selector"] == pages["metadata"]["labels"]
    (container,) = pages["spec"]["containers"]
    (port,) = container["ports"]
    assert service["ports"][0]["targetPort"] == port["name"]
    assert container["args"][container["args"].index("--listen") + 1] == f"0.0.0.0:{port['containerPort']}"
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}


def test_the_pages_have_a_key_and_room() -> None:
    """The token is a Secret of its own, and the history is on a volume that fits what it may take."""
    pages = workloads()["groupreplay-serve"]
    assert volume_of(pages, "--auth-token-file") == {
        "secret": {"secretName": "groupreplay-pages", "defaultMode": 0o440}
    }
    assert volume_of(pages, "--history-file") == {"emptyDir": {"sizeLimit": "2Gi"}}


def test_the_spark_application() -> None:
    """It has the connector of its Spark, the settings of ``bundle``, and a valid command."""
    (application,) = documents("spark-application.yaml")
    spec = application["spec"]
    release = spark_release(spec["sparkVersion"])
    assert spec["deps"] == {"packages": [release.connector]}
    assert parsed(spec["arguments"]).info_name == "run"
    submission = Submission(spark=release, target=BundleTarget("3.10", "x86_64"), archive="env.tar.gz")
    elsewhere = {
        "spark.pyspark.python",  # of the image
        "spark.executorEnv.PYTHONPATH",  # in the image
        "spark.driver.memory",  # has a field of its own, and so have these:
        "spark.driver.memoryOverhead",
        "spark.executor.memoryOverhead",
    }
    overheads = {f"spark.{one}.memoryOverhead": spec[one]["memoryOverhead"] for one in ("driver", "executor")}
    assert overheads.items() <= submission.conf.items()
    wanted = {name: value for name, value in submission.conf.items() if name not in elsewhere}
    assert spec["sparkConf"] == {"spark.jars.ivy": "/tmp/ivy", **wanted}


def test_the_image_for_spark() -> None:
    """The image has Spark's release, the archive for its Python in PYTHONPATH, and the program that is started."""
    text = (KUBERNETES / "spark.Dockerfile").read_text(encoding="utf-8")
    (application,) = documents("spark-application.yaml")
    (line,) = re.findall(r"^#   groupreplay (.*)$", text, re.MULTILINE)
    context = parsed(shlex.split(line))
    assert context.params["spark"] == application["spec"]["sparkVersion"]
    assert f"apache/spark:{context.params['spark']}-scala2.13-" in text
    assert application["spec"]["mainApplicationFile"] == "local:///opt/groupreplay/job.py"
    assert f"-t {application['spec']['image']} ." in text
    assert "COPY job.py /opt/groupreplay/job.py\nENV PYTHONPATH=/opt/groupreplay\n" in text
    assert f"ADD {context.params['output_file']} /opt/groupreplay/\n" in text


def test_the_databricks_job() -> None:
    """Dedicated access, the wheel of this version and its entry point, a valid command, our settings of the JVM."""
    (task,) = databricks_job()["tasks"]
    cluster = task["new_cluster"]
    assert cluster["data_security_mode"] == "SINGLE_USER"
    (library,) = task["libraries"]
    assert library["whl"].endswith(f"/groupreplay-{groupreplay.__version__}-py3-none-any.whl")
    wheel_task = task["python_wheel_task"]
    scripts = re.findall(
        r"^\[project.scripts\]\n(\w+) =", (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert [wheel_task["entry_point"]] == scripts
    assert parsed(wheel_task["parameters"]).info_name == "run"
    assert cluster["spark_conf"].items() <= submitted_conf().items()


def test_the_databricks_bundle() -> None:
    """It has the job of the JSON, and nothing else."""
    text = (ROOT / "deploy" / "databricks" / "databricks.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["resources"] == {"jobs": {"groupreplay": databricks_job()}}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("go") is None, reason="no Go, which fetches the operator's schema")
def test_the_operator_accepts_the_application() -> None:
    """The SparkApplication is valid by the operator's own definition, in which no other field is allowed."""
    fetched = subprocess.run(
        ["go", "mod", "download", "-json", OPERATOR], capture_output=True, text=True, check=True, cwd="/"
    )
    definition = yaml.safe_load(Path(json.loads(fetched.stdout)["Dir"], CRD).read_text(encoding="utf-8"))
    (schema,) = [
        one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["name"] == "v1beta2"
    ]
    validator = Draft7Validator(strict(schema))
    (application,) = documents("spark-application.yaml")
    assert [error.message for error in validator.iter_errors(application)] == []
    application["spec"]["driver"]["memorry"] = "1g"
    application["spec"]["executor"]["instances"] = "two"
    assert len(list(validator.iter_errors(application))) == 2


@pytest.mark.long
def test_databricks_accepts_the_job(tmp_path: Path) -> None:
    """Databricks' own classes read the job, and refuse an unknown field."""
    pip_alone(tmp_path, "databricks-bundles")
    read = "import json, sys; from databricks.bundles.jobs import Job; Job.from_dict(json.load(sys.stdin))"
    job = databricks_job()
    results = []
    for cluster in ({}, {"data_security": "SINGLE_USER"}):
        job["tasks"][0]["new_cluster"] |= cluster
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {read}"],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
        )
        results.append((done.returncode, done.stderr.splitlines()[-1:]))
    assert results == [(0, []), (1, ["ValueError: Unexpected field 'data_security' for class ClusterSpec"])]
