"""Wrong settings of a client on a real broker with logins and TLS: each is named at once, and its remedy works."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
import trustme

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.kafka import clients
from groupreplay.streaming.kafka.rights import source_rights
from support.job.captures import invoke
from support.kafka.kafka_classes import java_command
from support.kafka.secured import PASSWORD, SecuredBroker
from support.remedies import read_remedy

pytestmark = pytest.mark.broker

#: librdkafka alone asks until the end of the request, which is farther away than what a busy machine takes. So long a
#: client that was refused goes on to connect, with the CPU that TLS takes, beside the tests behind it.
REQUEST_SECONDS, SOON_SECONDS = 75.0, 60.0


@pytest.fixture(autouse=True)
def readable(guarded: SecuredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may read the log."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", REQUEST_SECONDS)
    guarded.allow_only(source_rights(probe=True, ask_retention=True))


def listed(
    guarded: SecuredBroker, folder: Path, settings: str | None, address: str | None = None
) -> tuple[int, str]:
    """Exit code and stderr of ``list`` with these client properties; without them no file is named."""
    words: list[object] = ["list", "--bootstrap-server", address or guarded.checked]
    if settings is not None:
        (folder / "client.properties").write_text(settings)
        words += ["--command-config", folder / "client.properties"]
    begun = time.monotonic()
    result = invoke(*words)
    assert time.monotonic() - begun < SOON_SECONDS
    assert PASSWORD not in result.output
    return result.exit_code, result.stderr


def properties(guarded: SecuredBroker, folder: Path, **changed: str | None) -> str:
    """The user's settings, some of them changed, or left out where the new value is None."""
    lines = guarded.properties(folder).read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    settings |= {name.replace("_", "."): value for name, value in changed.items() if value is not None}
    gone = {name.replace("_", ".") for name, value in changed.items() if value is None}
    return "".join(f"{name}={value}\n" for name, value in settings.items() if name not in gone)


def test_a_wrong_password(guarded: SecuredBroker, tmp_path: Path) -> None:
    """The setting with the password is named; with the right one the command works."""
    right = properties(guarded, tmp_path)
    code, told = listed(guarded, tmp_path, right.replace(PASSWORD, "0ther"))
    assert code == ExitCode.CONNECTION
    assert told.startswith("error: the broker refused the login: ")
    read_remedy("streaming.kafka.client_errors: check the user and the password in sasl.jaas.config", told)
    assert listed(guarded, tmp_path, right)[0] == ExitCode.OK


@pytest.mark.parametrize("location", ["other.pem", None], ids=["another CA", "no CA"])
def test_a_certificate_that_is_not_trusted(
    guarded: SecuredBroker, tmp_path: Path, location: str | None
) -> None:
    """The settings of the file are named, not librdkafka's; with them the command works."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    other = None if location is None else str(tmp_path / location)
    kind = None if location is None else "PEM"
    wrong = properties(guarded, tmp_path, ssl_truststore_location=other, ssl_truststore_type=kind)
    code, told = listed(guarded, tmp_path, wrong)
    assert code == ExitCode.CONNECTION
    assert told.startswith("error: the broker's certificate is not trusted: ")
    read_remedy("streaming.kafka.client_errors: name the CA that signed it", told)
    assert "ssl.ca.location" not in told
    assert listed(guarded, tmp_path, properties(guarded, tmp_path))[0] == ExitCode.OK


@pytest.mark.parametrize("protocol", [None, "PLAINTEXT", "SASL_PLAINTEXT"])
def test_no_tls_to_a_port_for_tls(guarded: SecuredBroker, tmp_path: Path, protocol: str | None) -> None:
    """A forgotten --command-config, or a wrong protocol: the broker hangs up, and is asked whether it speaks TLS."""
    wrong = None if protocol is None else properties(guarded, tmp_path, security_protocol=protocol)
    code, told = listed(guarded, tmp_path, wrong)
    assert code == ExitCode.CONNECTION
    assert told.startswith(
        "error: the broker expects TLS at this address, and security.protocol is one without TLS"
    )
    read_remedy("streaming.kafka.client_errors: name a client properties file", told)
    assert listed(guarded, tmp_path, properties(guarded, tmp_path))[0] == ExitCode.OK


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_to_a_port_without(guarded: SecuredBroker, tmp_path: Path, protocol: str) -> None:
    """The other way round; the protocol that is named works there."""
    plain = guarded.broker.bootstrap_servers
    code, told = listed(guarded, tmp_path, properties(guarded, tmp_path, security_protocol=protocol), plain)
    assert code == ExitCode.CONNECTION
    assert told.startswith("error: the broker does not answer with TLS at this address: ")
    read_remedy("streaming.kafka.client_errors: set security.protocol=PLAINTEXT or SASL_PLAINTEXT", told)
    assert listed(guarded, tmp_path, "security.protocol=PLAINTEXT\n", plain)[0] == ExitCode.OK


def test_a_mechanism_that_the_broker_does_not_have(guarded: SecuredBroker, tmp_path: Path) -> None:
    """The broker names its own, and so does the error."""
    code, told = listed(guarded, tmp_path, properties(guarded, tmp_path, sasl_mechanism="PLAIN"))
    assert code == ExitCode.CONNECTION
    assert told.startswith("error: the broker does not know this kind of login: ")
    read_remedy("streaming.kafka.client_errors: set sasl.mechanism in the --command-config file", told)
    (mechanism,) = re.findall(r"supported mechanisms: ([\w-]+)", told)
    assert (
        listed(guarded, tmp_path, properties(guarded, tmp_path, sasl_mechanism=mechanism))[0] == ExitCode.OK
    )


def test_a_broker_that_wants_a_certificate(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Mutual TLS: the settings of the keystore are named; with a certificate of the CA the command works."""
    wrong = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={guarded.ca}\n"
    code, told = listed(guarded, tmp_path, wrong, guarded.mutual)
    assert code == ExitCode.CONNECTION
    assert told.startswith("error: the connection with TLS failed: ")
    read_remedy("streaming.kafka.client_errors: check security.protocol and the certificates", told)
    (store,) = re.findall(r"(ssl\.keystore\.)\*", told)
    right = f"{wrong}{store}type=PEM\n{store}location={guarded.client}\n"
    assert listed(guarded, tmp_path, right, guarded.mutual)[0] == ExitCode.OK


def test_a_login_where_none_is_expected(guarded: SecuredBroker, tmp_path: Path) -> None:
    """A listener without SASL."""
    plain = guarded.broker.bootstrap_servers
    wrong = properties(guarded, tmp_path, security_protocol="SASL_PLAINTEXT")
    code, told = listed(guarded, tmp_path, wrong, plain)
    assert code == ExitCode.CONNECTION
    assert told.startswith("error: the broker expects no login at this address: ")
    read_remedy("streaming.kafka.client_errors: set security.protocol=PLAINTEXT or SSL", told)
    assert listed(guarded, tmp_path, "security.protocol=PLAINTEXT\n", plain)[0] == ExitCode.OK
    # The port for logins, with the same login.
    assert listed(guarded, tmp_path, properties(guarded, tmp_path))[0] == ExitCode.OK


def test_one_broker_of_two_is_enough(guarded: SecuredBroker, tmp_path: Path) -> None:
    """A refused connection ends a command only when no other broker answers: here the first address is a wrong one."""
    addresses = f"{guarded.broker.bootstrap_servers},{guarded.checked}"
    assert listed(guarded, tmp_path, properties(guarded, tmp_path), addresses)[0] == ExitCode.OK


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no keytool")
def test_stores_of_java(guarded: SecuredBroker, tmp_path: Path) -> None:
    """The commands and settings that are printed for JKS stores: with them both clients, ours and Java's, connect."""
    secret = "changeit"
    store = ["-storetype", "JKS", "-storepass", secret]
    run_tool(
        [
            "keytool",
            "-importcert",
            "-noprompt",
            "-file",
            guarded.ca,
            "-keystore",
            "ca.jks",
            "-alias",
            "ca",
            *store,
        ],
        tmp_path,
    )
    key = ["-keyalg", "RSA", "-dname", "CN=me", "-keypass", secret]
    run_tool(["keytool", "-genkeypair", "-keystore", "client.jks", "-alias", "me", *key, *store], tmp_path)
    settings = {
        **dict(line.split("=", 1) for line in properties(guarded, tmp_path).splitlines()),
        **{"ssl.truststore.type": "JKS", "ssl.truststore.location": str(tmp_path / "ca.jks")},
        **{"ssl.truststore.password": secret, "ssl.keystore.location": str(tmp_path / "client.jks")},
        **{"ssl.keystore.password": secret, "ssl.key.password": secret},
    }

    def told() -> tuple[int, str]:
        return listed(guarded, tmp_path, "".join(f"{name}={value}\n" for name, value in settings.items()))

    for name, key in (
        ("ca.jks", "streaming.config.properties: export it (keytool"),
        ("client.jks", "streaming.config.properties: convert it (keytool"),
    ):
        code, remedy = told()
        read_remedy(key, remedy)
        assert (code, f"({tmp_path / name})" in remedy) == (ExitCode.USAGE, True)
        (command,) = re.findall(r"t it \((.*?)\), then set ", remedy)
        command = command.replace("FILE", name).replace("NAME", "ca")
        run_tool(["sh", "-c", command], tmp_path, answers=f"{secret}\n" * 3)
        settings |= {
            key: str(tmp_path / value) if key.endswith(".location") else value
            for key, value in re.findall(r"(ssl\.\w+\.\w+)=([\w.]+)", remedy)
        }
        settings |= dict.fromkeys(re.findall(r"(\S+) to the password", remedy), secret)
        for setting in re.findall(r"and remove (\S+)", remedy):
            del settings[setting]
    assert told()[0] == ExitCode.OK
    words = [
        "--list",
        "--bootstrap-server",
        guarded.checked,
        "--command-config",
        tmp_path / "client.properties",
    ]
    run_tool(java_command("org.apache.kafka.tools.TopicCommand", *words), tmp_path)
    settings["ssl.truststore.password"] = secret
    code, remedy = told()
    read_remedy("streaming.config.properties: remove it", remedy)
    assert code == ExitCode.USAGE


def run_tool(command: list[object] | list[str], folder: Path, answers: str = "") -> None:
    """Runs it to its end in the folder."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        input=answers,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_that_only_hangs_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reason and without TLS it may want a login, or be no broker: it passes, so it is waited for."""
    from groupreplay.streaming.base.errors import UnreachableError
    from groupreplay.streaming.config.settings import Cluster
    from support.kafka.waiting import in_background

    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)

        def hang_up(done: object) -> None:
            while not done.is_set():  # type: ignore[attr-defined]
                try:
                    connection = server.accept()[0]
                except TimeoutError:
                    continue
                connection.recv(4_096)
                connection.close()

        connection = clients.Connection(Cluster(bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}"))
        with in_background(hang_up), pytest.raises(UnreachableError) as caught:
            connection.identify("t")
    assert caught.value.what == "the broker ends connections and gives no reason"
    read_remedy("streaming.kafka.client_errors: check security.protocol and sasl.*", str(caught.value))
