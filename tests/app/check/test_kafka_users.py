"""``check -o kafkauser``: the logins as resources of Strimzi have the rights that ``check`` prints as commands."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from groupreplay.app.check import CheckSettings
from groupreplay.app.check.kafka_users import UNNAMED, kafka_users, manifest
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
from groupreplay.streaming.kafka.rights import (
    CREATE,
    Right,
    grant_line,
    serve_rights,
    sink_rights,
    source_rights,
    watch_rights,
)
from groupreplay.streaming.local.ivy import Coordinate, retrieve
from support.job.captures import invoke
from support.kafka.kafka_classes import Jvm

PLAIN = CheckSettings(source=Cluster(bootstrap_servers="my-cluster-kafka-bootstrap.kafka.svc:9092"))
APART = replace(
    PLAIN,
    sink=Cluster(
        bootstrap_servers="broker:9093",
        properties={"security.protocol": "SSL", "ssl.key.password": "hunter2"},
    ),
    topics=TopicNames(events="eu-events"),
)
STRIMZI = Coordinate.parse("io.strimzi:api:0.49.0")

Acl = tuple[str, str, str, str]


def documents(settings: CheckSettings) -> list[dict[str, Any]]:
    """The users."""
    return list(yaml.safe_load_all(manifest(settings)))


def acls(document: dict[str, Any]) -> set[Acl]:
    """(kind, name, pattern, operation) of each rule of a user; the cluster has no name."""
    return {
        (
            rule["resource"]["type"],
            rule["resource"].get("name", ""),
            rule["resource"].get("patternType", "literal"),
            operation,
        )
        for rule in document["spec"]["authorization"]["acls"]
        for operation in rule["operations"]
    }


def printed(right: Right, cluster: Cluster) -> Acl:
    """The same of the kafka-acls.sh command that ``check`` prints for a right."""
    words = shlex.split(grant_line(right, cluster))
    after = {word: words[at + 1] for at, word in enumerate(words[:-1])} | {words[-1]: ""}
    pattern = {"prefixed": "prefix"}.get(after.get("--resource-pattern-type", ""), "literal")
    (kind,) = [kind for kind in ("topic", "group", "cluster") if f"--{kind}" in after]
    return kind, after[f"--{kind}"], pattern, after["--operation"]


def test_the_job_has_the_rights_that_check_prints() -> None:
    """The user of ``run`` has what the kafka-acls.sh commands grant, those for the prober included; no other right."""
    topics = TopicNames()
    rights = [*source_rights(probe=True, ask_retention=True, ends=True), *sink_rights(topics), CREATE]
    run, serve, watch = documents(PLAIN)
    assert acls(run) == {printed(right, PLAIN.source) for right in rights}
    assert acls(serve) == {printed(right, PLAIN.source) for right in serve_rights(topics)}
    assert acls(watch) == {printed(right, PLAIN.source) for right in watch_rights()}


def test_who_only_reads_may_not_write() -> None:
    """``serve`` and ``watch`` have no right that the job does not have, and none that changes anything."""
    run, *readers = map(acls, documents(PLAIN))
    for reader in readers:
        assert reader <= run
        assert {operation for *_, operation in reader} == {"Read", "Describe", "DescribeConfigs"}


def test_each_cluster_has_its_users() -> None:
    """With the topics on another cluster run and serve have a user on each; the two together have the same rights."""
    found = [
        (
            one["metadata"]["name"],
            one["metadata"]["labels"]["strimzi.io/cluster"],
            one["spec"]["authentication"]["type"],
        )
        for one in documents(APART)
    ]
    assert found == [
        ("groupreplay", "my-cluster", "scram-sha-512"),
        ("groupreplay", UNNAMED, "tls"),
        ("groupreplay-serve", "my-cluster", "scram-sha-512"),
        ("groupreplay-serve", UNNAMED, "tls"),
        ("groupreplay-watch", "my-cluster", "scram-sha-512"),
    ]
    on_log, on_topics, *_ = documents(APART)
    (run, *_) = documents(replace(APART, sink=None))
    assert acls(on_log) | acls(on_topics) == acls(run)
    assert ("topic", "__consumer_offsets", "literal", "Read") not in acls(on_topics)
    assert ("topic", "eu-events", "literal", "Write") not in acls(on_log)


@pytest.mark.parametrize(
    ("properties", "authentication"),
    [
        ({}, {"type": "scram-sha-512"}),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}, {"type": "scram-sha-512"}),
        ({"security.protocol": "ssl"}, {"type": "tls"}),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, None),
        ({"sasl.mechanism": "PLAIN"}, None),
    ],
)
def test_strimzi_makes_what_the_login_is(
    properties: dict[str, str], authentication: dict[str, str] | None
) -> None:
    """A password or a certificate by the client properties; of a token or another password the rights only."""
    source = Cluster(bootstrap_servers="broker:9092", properties=properties)
    for document in documents(CheckSettings(source=source)):
        assert document["spec"].get("authentication") == authentication
        assert document["spec"]["authorization"]["acls"]


def test_flags_spare_rights() -> None:
    """Without the prober and with a given retention nobody grants what they need."""
    spared = replace(PLAIN, probe=False, ends=False, retention=RetentionFlags(retention_minutes=60))
    without, with_all = (set(kafka_users(one)[0].rights) for one in (spared, PLAIN))
    assert without < with_all
    assert {(right.kind, right.name, right.operation) for right in with_all - without} == {
        ("group", "*", "Describe"),
        ("group", "*", "DescribeConfigs"),
        ("topic", "*", "Describe"),
        ("cluster", "", "DescribeConfigs"),
    }


def test_the_command_asks_no_broker() -> None:
    """It prints the users of a cluster that is not there, at once, and says which name is missing."""
    answer = invoke("check", "--bootstrap-server", "127.0.0.1:1", "-o", "kafkauser")
    assert (answer.exit_code, answer.stdout) == (
        0,
        manifest(CheckSettings(source=Cluster(bootstrap_servers="127.0.0.1:1"))),
    )
    assert f'"127.0.0.1:1"; replace {UNNAMED} by the name of its Kafka resource.' in answer.stdout
    assert "hunter2" not in manifest(APART)


@pytest.mark.long
def test_strimzi_reads_the_users(tmp_path: Path) -> None:
    """Strimzi's own classes read each user and write it back unchanged; an unknown operation or field is noticed."""
    jars = retrieve(tmp_path, [STRIMZI], [], settings=None, progress=lambda *_: None)
    with Jvm(sorted(jars.rglob("*.jar"))) as jvm:
        mapper = jvm.packages.com.fasterxml.jackson.databind.ObjectMapper()
        user = jvm.packages.java.lang.Class.forName("io.strimzi.api.kafka.model.user.KafkaUser")

        def back(document: dict[str, Any]) -> dict[str, Any]:
            read = mapper.readValue(json.dumps(document), user)
            spec = read.getSpec()
            rules = spec.getAuthorization().getAcls()
            # Strimzi keeps a field that it does not know beside its own.
            for part in (read, spec, spec.getAuthentication(), spec.getAuthorization(), *rules):
                assert dict(part.getAdditionalProperties()) == {}
            for rule in rules:
                assert dict(rule.getResource().getAdditionalProperties()) == {}
            written: dict[str, Any] = json.loads(mapper.writeValueAsString(read))
            return written

        for document in [*documents(PLAIN), *documents(APART)]:
            written = back(document)
            for rule in document["spec"]["authorization"]["acls"]:
                if rule["resource"].get("patternType") == "literal":
                    del rule["resource"]["patternType"]  # Strimzi's default, which it leaves out
            assert written == document
        document["spec"]["authorization"]["acls"][0]["operations"] = ["Look"]
        assert back(document) != document
        document["spec"]["authorization"]["acls"][0]["operationz"] = ["Read"]
        with pytest.raises(AssertionError):
            back(document)
