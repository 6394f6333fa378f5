"""Kafka client properties files: Java's syntax, both clients' words, and no secret shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.properties import (
    MASK,
    ClientProperties,
    is_secret,
    load_properties,
    parse_properties,
    redact,
)
from support.reachable import reachable_folder

JAAS = 'org.apache.kafka.common.security.{module} required username="alice" password="p\\"w d";'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb: 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# no\n  ! no\n\n a = 1 ", {"a": "1 "}),
        ("a=one \\\n    two\\\n   three", {"a": "one twothree"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        ("a=\\t\\n\\q\\u0041\\uD834\\uDD1E", {"a": "\t\nqA𝄞"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("empty\nalso=", {"empty": "", "also": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x=y:z", {"a": "x=y:z"}),
        ("a=# no comment", {"a": "# no comment"}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_java_syntax(text: str, expected: dict[str, str]) -> None:
    """Comments, separators, continuation lines and escapes read as ``java.util.Properties`` reads them."""
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"security.protocol": "SSL", "request.timeout.ms": "5000", "client.id": "x"},
            {"security.protocol": "SSL", "socket.timeout.ms": "5000", "client.id": "x"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "pem", "ssl.keystore.location": "/me.pem", "ssl.key.password": "x"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "x"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"},
        ),
        (
            {
                "ssl.truststore.certificates": "CA",
                "ssl.keystore.key": "K",
                "ssl.keystore.certificate.chain": "C",
            },
            {"ssl.ca.pem": "CA", "ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"ssl.endpoint.identification.algorithm": "HTTPS"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.format(module="plain.PlainLoginModule")},
            {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": 'p"w d'},
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": "…ScramLoginModule required username=bob password='pass';",
            },
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "bob", "sasl.password": "pass"},
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
                "sasl.jaas.config": "…OAuthBearerLoginModule required clientId='me' clientSecret='s';",
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
            },
        ),
        (
            {"sasl.jaas.config": "…Krb5LoginModule required keyTab='/k' principal='p@R' useKeyTab=true;"},
            {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "p@R"},
        ),
        ({"group.id": "mine", "bootstrap.servers": "h:1", "enable.auto.commit": "true"}, {}),
    ],
)
def test_words_of_librdkafka(settings: dict[str, str], expected: dict[str, str]) -> None:
    """Each Java setting that librdkafka has a word for is handed over under that word, the others are not."""
    assert ClientProperties(settings).for_librdkafka() == expected


def test_words_of_spark() -> None:
    """Spark gets the Java names with its prefix, without those that the job decides itself."""
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/t.jks",
        "bootstrap.servers": "h:1",
        "group.id": "mine",
        "value.deserializer": "x",
        "isolation.level": "read_uncommitted",
        "config.providers.file.class": "y",
    }
    assert ClientProperties(settings).for_spark() == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": "/t.jks",
    }


MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = ' required username="u" password="org.apache.kafka.x";'


@pytest.mark.parametrize("written", ["", "kafkashaded."])
@pytest.mark.parametrize("shaded", [False, True])
def test_classes_of_a_shaded_connector(written: str, *, shaded: bool) -> None:
    """One file serves both connectors: Kafka's classes have the names that the connector loads, all else is left."""
    own = f"{written}org.apache.kafka.a.B"
    settings = {
        "sasl.jaas.config": f"{written}{MODULE}{LOGIN}",
        "sasl.login.callback.handler.class": own,
        "metric.reporters": f"com.example.A, {own},{own}",
        "ssl.engine.factory.class": "com.example.C",
        "client.id": own,
    }
    prefix = "kafkashaded." if shaded else ""
    other = f"{prefix}org.apache.kafka.a.B"
    assert ClientProperties(settings).for_spark(shaded=shaded) == {
        "kafka.sasl.jaas.config": f"{prefix}{MODULE}{LOGIN}",
        "kafka.sasl.login.callback.handler.class": other,
        "kafka.metric.reporters": f"com.example.A, {other},{other}",
        "kafka.ssl.engine.factory.class": "com.example.C",
        "kafka.client.id": own,
    }


@pytest.mark.parametrize(
    ("settings", "what", "hint"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "a JKS trust store", "ssl.truststore.type=PEM"),
        (
            {"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"},
            "a PKCS12 trust store",
            "ssl.truststore.type=PEM",
        ),
        ({"ssl.keystore.location": "/k.jks"}, "a JKS key store", "ssl.keystore.type=PKCS12"),
        ({"sasl.mechanism": "DIGEST-MD5", "sasl.jaas.config": "x"}, "DIGEST-MD5", "SCRAM-SHA-512"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x y;"}, "no username", "before its semicolon"),
    ],
)
def test_what_librdkafka_cannot_read(settings: dict[str, str], what: str, hint: str) -> None:
    """Stores and logins that only Java can use are refused with the way out."""
    with pytest.raises(GroupReplayError) as caught:
        ClientProperties(settings).for_librdkafka()
    assert (what in caught.value.what, hint in str(caught.value.fix)) == (True, True)
    assert caught.value.exit_code is ExitCode.USAGE


def test_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``${env:…}`` and ``${file:…}`` are resolved as Kafka's config providers do, anywhere in a value."""
    monkeypatch.setenv("THE_USER", "alice")
    (tmp_path / "secrets.properties").write_text("db.password = s3cret\n")
    (tmp_path / "token").write_text("whole file\n")
    path = tmp_path / "client.properties"
    path.write_text(
        f"a=<${{env:THE_USER}}>\nb=${{file:{tmp_path}/secrets.properties:db.password}}\n"
        f"c=${{file:{tmp_path}/token}}\nd=${{unknown:x}}\n"
    )
    assert load_properties(path).settings == {
        "a": "<alice>",
        "b": "s3cret",
        "c": "whole file",
        "d": "${unknown:x}",
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a=${env:NOT_SET_ANYWHERE}", "setting a refers to an environment variable that is not set"),
        ("a=${file:nowhere:key}", "cannot read the file that setting a refers to, No such file or directory"),
        ("a=${file:SELF:key}", "setting a refers to the key key, which is missing"),
    ],
)
def test_references_to_nothing(tmp_path: Path, text: str, what: str) -> None:
    """A reference that cannot be resolved names the setting, never its value."""
    path = tmp_path / "client.properties"
    path.write_text(text.replace("SELF", str(path)))
    with pytest.raises(GroupReplayError) as caught:
        load_properties(path)
    assert caught.value.what == what


def test_no_such_file(tmp_path: Path) -> None:
    """A wrong path is said, with the reason."""
    with pytest.raises(GroupReplayError) as caught:
        load_properties(tmp_path / "no.properties")
    assert (caught.value.what, caught.value.where) == (
        "cannot read the client properties file, No such file or directory",
        str(tmp_path / "no.properties"),
    )


def test_secret_keys() -> None:
    """The key alone decides what is masked."""
    secret = (
        *("sasl.jaas.config", "kafka.sasl.jaas.config", "listener.name.x.plain.sasl.jaas.config"),
        *("ssl.key.password", "ssl.keystore.key", "ssl.keystore.location", "ssl.key.pem"),
        *("sasl.password", "sasl.oauthbearer.client.secret", "SSL.TRUSTSTORE.PASSWORD"),
    )
    plain = ("security.protocol", "ssl.truststore.location", "bootstrap.servers")
    assert [key for key in (*secret, *plain) if is_secret(key)] == [*secret]


def test_no_text_form_shows_a_secret(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """repr, redaction and the debug log name settings but no secret value."""
    secret = "hunter2"
    settings = {"sasl.password": secret, "ssl.keystore.key": secret, "unheard.of": secret, "client.id": "x"}
    monkeypatch.setattr(logging.getLogger("groupreplay"), "propagate", True)
    with caplog.at_level(logging.DEBUG, logger="groupreplay"):
        properties = ClientProperties({**settings, "unheard.of": "plain"})
        properties.for_librdkafka()
    assert redact(settings)["sasl.password"] == MASK
    assert secret not in repr(properties) + caplog.text
    assert "setting unheard.of of built-in defaults is not used by the Python client" in caplog.messages


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("security.protocol=PLAINTEXT\nssl.truststore.password=changeit", []),
        ("sasl.jaas.config=" + LOGIN.format("s"), ["login in client.properties"]),
        ("sasl.jaas.config=" + LOGIN.format("${env:LOGIN}"), []),
        (
            "sasl.jaas.config=" + LOGIN.format("${file:FOLDER/part.properties:key}"),
            ["login in part.properties"],
        ),
        ("ssl.key.password=x", ["login in client.properties"]),
        ("ssl.keystore.location=FOLDER/client.pem", ["private key in client.pem"]),
        ('sasl.jaas.config=Krb5LoginModule required keyTab="FOLDER/key.tab";', ["key table in key.tab"]),
    ],
)
def test_secrets_that_others_can_read(
    text: str, warned: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning for each file of a login that every user can read; not for a file without a secret."""
    monkeypatch.setenv("LOGIN", "s")
    with reachable_folder() as folder:
        files = {
            "client.properties": text.replace("FOLDER", str(folder)),
            "part.properties": "key=s",
            "client.pem": "key",
            "key.tab": "key",
        }
        for name, content in files.items():
            (folder / name).write_text(content)
            (folder / name).chmod(0o644)
        load_properties(folder / "client.properties")
        found = [
            message.partition("can read the ")[2].replace(f"{folder}/", "") for message in caplog.messages
        ]
        expected = [f"{one} (mode 0644): chmod 600 {one.rpartition(' ')[2]}" for one in warned]
        assert found == expected
        caplog.clear()
        for file in folder.iterdir():
            file.chmod(0o600)
        load_properties(folder / "client.properties")
        assert caplog.messages == []
