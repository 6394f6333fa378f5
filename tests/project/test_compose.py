"""Checks of docker-compose.yml and deploy/Dockerfile that need no Docker engine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from confluent_kafka.admin import AdminClient

import groupreplay
from groupreplay.app.serve.guard import read_token
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.jars import jar_paths
from support.job.captures import parsed
from support.kafka.kafka_classes import Jvm, java_command
from support.paths import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BROKER_PREFIX = "KAFKA_"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The content of docker-compose.yml, with YAML's merges applied."""
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def broker_environment(compose: dict[str, Any]) -> dict[str, str]:
    """The environment of the broker's container."""
    environment: dict[str, str] = compose["services"]["broker"]["environment"]
    return environment


def server_properties(environment: dict[str, str]) -> dict[str, str]:
    """The settings that Kafka's image derives from the environment: ``_`` is ``.``, ``__`` ``_``, ``___`` ``-``."""
    separators = {"___": "-", "__": "_", "_": "."}
    return {
        re.sub("_{1,3}", lambda found: separators[found[0]], name.removeprefix(BROKER_PREFIX).lower()): value
        for name, value in environment.items()
        if name.startswith(BROKER_PREFIX)
    }


def endpoints(text: str) -> dict[str, tuple[str, str]]:
    """``{"PLAINTEXT": ("broker", "19092")}`` for ``PLAINTEXT://broker:19092``."""
    found = {}
    for entry in text.split(","):
        name, _, address = entry.partition("://")
        host, _, port = address.rpartition(":")
        found[name] = (host, port)
    return found


def images(compose: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every image that is pulled or is a base, with the place that names it."""
    for name, service in compose["services"].items():
        yield f"service {name}", service["image"]
    for line in DOCKERFILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("FROM "):
            yield "Dockerfile", line.split()[1]


def test_the_file_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    """The file is valid according to the schema of the Compose specification."""
    jsonschema.validate(compose, get_builtin_schema("vendor.compose-spec"))


def test_the_schema_rejects_a_misspelt_key(compose: dict[str, Any]) -> None:
    """The schema rejects a misspelt key, so the test above can fail."""
    services = {"broker": {**compose["services"]["broker"], "enviroment": {}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": services}, get_builtin_schema("vendor.compose-spec"))


def test_every_image_is_pinned(compose: dict[str, Any]) -> None:
    """Each image has a full version as its tag; test_pins.py looks for its digest."""
    loose = [(where, image) for where, image in images(compose) if not re.search(r":v?\d+\.\d+\.\d+", image)]
    assert loose == []


def test_services_wait_for_reachable_conditions(compose: dict[str, Any]) -> None:
    """A service that must be healthy has a health check; a service that must complete is not restarted."""
    services = compose["services"]
    waits = [
        (name, other, wait["condition"])
        for name, service in services.items()
        for other, wait in service.get("depends_on", {}).items()
    ]
    assert waits == [
        ("offsets-topic", "broker", "service_healthy"),
        ("job", "broker", "service_healthy"),
        ("job", "offsets-topic", "service_completed_successfully"),
        ("exporter", "broker", "service_healthy"),
        ("exporter", "pages-key", "service_completed_successfully"),
        ("prometheus", "exporter", "service_healthy"),
        ("grafana", "prometheus", "service_healthy"),
        ("members", "broker", "service_healthy"),
    ]
    healthy = {other for _, other, condition in waits if condition == "service_healthy"}
    assert healthy <= {name for name, service in services.items() if "healthcheck" in service}
    assert "restart" not in services["offsets-topic"]


def test_ports_are_open_on_this_machine_only(compose: dict[str, Any]) -> None:
    """Published ports are bound to the loopback address, because the listeners have no security."""
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_containers_have_few_rights(compose: dict[str, Any]) -> None:
    """Every container drops all capabilities and cannot gain new ones; our containers have a read-only image."""
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "mem_limit" in service, name
        if "build" in service:
            assert service["read_only"] is True, name


def test_volumes_and_mounts_exist(compose: dict[str, Any]) -> None:
    """Each used volume is declared and the reverse; each mounted or built file exists."""
    named = set()
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith((".", "/")):
                assert (ROOT / source).exists(), source
            else:
                named.add(source)
        if "build" in service:
            assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert named == set(compose["volumes"])


def test_there_is_no_secret(compose: dict[str, Any]) -> None:
    """Neither file contains a password, a token or a key: that of the pages is made at the first start."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8") + DOCKERFILE.read_text(encoding="utf-8")
    made = ("secrets.token_hex(32)", "import os, secrets", "#token={open(path).read()}", "--auth-token-file")
    for words in made:
        assert text.count(words) == 1
        text = text.replace(words, "")
    assert re.findall(r"(?i)password|passwd|secret|token|jaas|private.key", text) == []


def test_the_key_of_the_pages(compose: dict[str, Any], tmp_path: Path) -> None:
    """It is made once, only its owner can read it, and the server takes it from where it was put."""
    services = compose["services"]
    (program,) = services["pages-key"]["command"]
    command = services["exporter"]["command"]
    place = command[command.index("--auth-token-file") + 1]
    assert place in program
    program = program.replace(place, str(tmp_path / "key"))
    first, again = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    key = read_token(tmp_path / "key")
    assert (first, again) == (f"http://localhost:9408/#token={key}\n",) * 2
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert services["pages-key"]["volumes"] == services["exporter"]["volumes"]


def test_listeners_agree(compose: dict[str, Any], broker_environment: dict[str, str]) -> None:
    """Each listener has a protocol; client listeners are advertised on their own ports, which clients use."""
    properties = server_properties(broker_environment)
    listeners, advertised = endpoints(properties["listeners"]), endpoints(properties["advertised.listeners"])
    controllers = {properties["controller.listener.names"]}
    assert set(advertised) == set(listeners) - controllers
    assert {name: port for name, (_, port) in advertised.items()} == {
        name: port for name, (_, port) in listeners.items() if name in advertised
    }
    protocols = dict(entry.split(":") for entry in properties["listener.security.protocol.map"].split(","))
    assert set(protocols) == set(listeners)
    assert properties["inter.broker.listener.name"] in advertised
    voter_address = properties["controller.quorum.voters"].partition("@")[2]
    hostname = compose["services"]["broker"]["hostname"]
    assert voter_address == f"{hostname}:{listeners[properties['controller.listener.names']][1]}"
    # From this machine: the published port is the advertised one.
    assert compose["services"]["broker"]["ports"] == [f"127.0.0.1:{advertised['PLAINTEXT_HOST'][1]}:9092"]
    assert advertised["PLAINTEXT_HOST"] == ("localhost", "9092")
    # From the other containers: every bootstrap server in the file is the inner listener.
    inner = ":".join(advertised["PLAINTEXT"])
    for name, service in compose["services"].items():
        if name in {"prometheus", "grafana", "pages-key"}:
            continue
        words = [*service.get("command", []), *service.get("healthcheck", {}).get("test", [])]
        servers = [words[i + 1] for i, word in enumerate(words) if word == "--bootstrap-server"]
        assert servers == [inner], name


@pytest.mark.parametrize(("service", "name"), [("job", "run"), ("exporter", "serve")])
def test_the_commands_are_valid(compose: dict[str, Any], service: str, name: str) -> None:
    """The flags of our services are valid for their commands."""
    words = compose["services"][service]["command"]
    assert parsed(words).info_name == name


def test_the_monitoring_services_find_each_other(compose: dict[str, Any]) -> None:
    """Grafana has Prometheus's address, Prometheus has the exporter's, and they mount the files in ``deploy``."""
    services = compose["services"]
    exporter, prometheus, grafana = (services[name] for name in ("exporter", "prometheus", "grafana"))
    listen = exporter["command"][exporter["command"].index("--listen") + 1]
    assert exporter["ports"] == [f"127.0.0.1:{listen.rpartition(':')[2]}:{listen.rpartition(':')[2]}"]
    assert f"http://127.0.0.1:{listen.rpartition(':')[2]}/healthz" in exporter["healthcheck"]["test"][-1]

    def mounts(service: dict[str, Any]) -> dict[str, str]:
        return {target: source for source, target, *_ in (one.split(":") for one in service["volumes"])}

    folder = ROOT / mounts(prometheus)["/etc/prometheus"]
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"exporter:{listen.rpartition(':')[2]}"]}]
    assert [(folder / name).is_file() for name in config["rule_files"]] == [True]
    provisioning = ROOT / mounts(grafana)["/etc/grafana/provisioning"]
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["url"] == f"http://prometheus:{prometheus['ports'][0].rpartition(':')[2]}"
    (provider,) = yaml.safe_load((provisioning / "dashboards/groupreplay.yml").read_text())["providers"]
    assert provider["options"]["path"].startswith("/")
    shown = mounts(grafana)[f"{provider['options']['path']}/groupreplay.json"]
    assert (ROOT / shown).samefile(ROOT / "deploy" / "grafana" / "groupreplay.json")


def test_grafana_has_no_login(compose: dict[str, Any]) -> None:
    """Anonymous users may view; the image's well-known login is disabled."""
    environment = compose["services"]["grafana"]["environment"]
    assert {name: environment[name] for name in environment if name.startswith("GF_AUTH_")} == {
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_AUTH_BASIC_ENABLED": "false",
        "GF_AUTH_DISABLE_LOGIN_FORM": "true",
    }


def test_the_checkpoint_outlives_the_container(compose: dict[str, Any]) -> None:
    """The checkpoint is on the job's volume."""
    job = compose["services"]["job"]
    checkpoint = job["command"][job["command"].index("--checkpoint") + 1]
    mounts = [volume.split(":")[1] for volume in job["volumes"]]
    assert [mount for mount in mounts if checkpoint.startswith(f"{mount}/")] == ["/var/lib/groupreplay"]


def test_the_members_command_is_valid(compose: dict[str, Any]) -> None:
    """The command of the demo's members is valid for the scenario's program."""
    members = compose["services"]["members"]
    assert members["entrypoint"][:2] == ["python", "-m"]
    command = [sys.executable, "-m", members["entrypoint"][2], *members["command"], "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def dockerfile_instructions() -> list[list[str]]:
    """The instructions as words, without comments and continuation characters."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [[line.split()[0], *shlex.split(line)[1:]] for line in joined.splitlines() if line.strip()]


def test_the_image_copies_the_sources_of_the_wheel() -> None:
    """Every copied path exists and is not ignored; the package has no link that leads out of what is copied."""
    copied = [
        source
        for name, *words in dockerfile_instructions()
        if name == "COPY" and not words[0].startswith("--from")
        for source in words[:-1]
    ]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    included = {
        line[1:]
        for line in (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    assert set(copied) == included
    assert "src" in copied
    assert [path for path in (ROOT / "src").rglob("*") if path.is_symlink()] == []


def test_the_image_does_not_run_as_root() -> None:
    """The last user is not root, and commands are lists, so that signals reach the program."""
    instructions = dockerfile_instructions()
    users = [words[0] for name, *words in instructions if name == "USER"]
    assert users[-1] not in {"root", "0"}
    starts = [words[0] for name, *words in instructions if name in {"ENTRYPOINT", "CMD"}]
    assert [word for word in starts if not word.startswith("[")] == []


def test_the_image_has_the_version_of_the_package(compose: dict[str, Any]) -> None:
    """The tag of our image is the version of groupreplay."""
    tags = {service["image"] for service in compose["services"].values() if "build" in service}
    assert tags == {f"groupreplay:{groupreplay.__version__}"}


@pytest.mark.broker
def test_kafkas_launcher_accepts_the_environment(broker_environment: dict[str, str], tmp_path: Path) -> None:
    """The entry point of Kafka's image writes a valid configuration and formats the storage.

    Only the data folder is different. The version is that of the pinned image.
    """
    defaults, mounted, final = (tmp_path / name for name in ("defaults", "mounted", "final"))
    for folder in (defaults, mounted, final):
        folder.mkdir()
    # The image has these files; their content is ignored when the environment has settings.
    for name in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        (defaults / name).touch()
    environment = {**broker_environment, "KAFKA_LOG_DIRS": str(tmp_path / "data")}
    command = java_command("kafka.docker.KafkaDockerWrapper", "setup", "--default-configs-dir", defaults)
    command += ["--mounted-configs-dir", str(mounted), "--final-configs-dir", str(final)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert (tmp_path / "data" / "meta.properties").is_file()
    lines = (final / "server.properties").read_text(encoding="utf-8").splitlines()
    written = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert written == {**server_properties(broker_environment), "log.dirs": str(tmp_path / "data")}


@pytest.mark.broker
def test_asking_about_a_group_creates_the_offsets_topic(compose: dict[str, Any]) -> None:
    """On a new broker the one-shot service succeeds, creates the topic, and creates no group."""
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"  # the class that the script in the image starts
    with EmbeddedBroker(wait_for_coordinator=False) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        before = set(admin.list_topics(timeout=10).topics)
        flags = compose["services"]["offsets-topic"]["command"][1:]
        flags[flags.index("--bootstrap-server") + 1] = broker.bootstrap_servers
        subprocess.run(java_command(tool, *flags), capture_output=True, check=True)
        assert (before, set(admin.list_topics(timeout=10).topics)) == (set(), {"__consumer_offsets"})
        assert admin.list_consumer_groups().result(10).valid == []


@pytest.mark.broker
def test_every_setting_is_known(broker_environment: dict[str, str], compose: dict[str, Any]) -> None:
    """Each KAFKA_ name is a setting that the pinned Kafka declares; Kafka would ignore unknown ones."""
    version = compose["services"]["broker"]["image"].partition("@")[0].rpartition(":")[2]
    with Jvm(jar_paths(f"broker-{version}")) as jvm:
        config = jvm.packages.org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF
        known = set(config.names())
    assert "offsets.topic.num.partitions" in known
    assert sorted(set(server_properties(broker_environment)) - known) == []
