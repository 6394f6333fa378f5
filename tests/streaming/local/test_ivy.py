"""Fetching by the Ivy inside pyspark, from a repository on loopback; certificates and proxies for its JVM."""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from groupreplay.streaming.local.ivy import (
    CertificateFileError,
    Coordinate,
    JarError,
    jks,
    network_options,
    retrieve,
    trust_options,
)
from support.reachable import reachable_folder
from support.remedies import read_remedy
from support.tools.maven_repository import MavenRepository, jar, serve

pytestmark = pytest.mark.usefixtures("cache")
#: Ivy is a JVM, and its jar comes with pyspark.
needs_ivy = pytest.mark.spark

APPLE = Coordinate.parse("org.example.fruit:apple_2.13:1.0")
SEED = Coordinate.parse("org.example:seed:0.1-rc1")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[MavenRepository]:
    """Serves apple, which needs seed, without TLS."""
    with serve(tmp_path) as served:
        served.add(str(APPLE), jar("apple"), needs=(str(SEED),))
        served.add(str(SEED), jar("seed"))
        yield served


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "staging"
    folder.mkdir()
    return folder


def fetch(staging: Path, settings: Path | None, *alone: Coordinate) -> Path:
    """The folder with these jars, fetched without what they need; nobody looks at the progress."""
    return retrieve(staging, [], alone, settings=settings, progress=lambda *_: None)


def contents(folder: Path) -> dict[Coordinate, bytes]:
    """What was fetched."""
    return {Coordinate.of_place(path): path.read_bytes() for path in folder.glob("*/*/*")}


@needs_ivy
def test_closure_and_alone(repository: MavenRepository, staging: Path) -> None:
    """A closure comes with what it needs, `alone` does not; every jar lies at its place; progress counts."""
    told: list[tuple[str, int, int]] = []
    fetched = retrieve(
        staging, [APPLE], [], settings=repository.settings, progress=lambda *step: told.append(step)
    )
    assert contents(fetched) == {APPLE: jar("apple"), SEED: jar("seed")}
    assert [step[1:] for step in told] == [(0, 1), (1, 1), (2, 2)]
    assert {step[0] for step in told} == {"", "apple_2.13-1.0.jar", "seed-0.1-rc1.jar"}


@needs_ivy
def test_alone_leaves_needs_out(repository: MavenRepository, staging: Path) -> None:
    """What is fetched alone comes without what its pom asks for."""
    assert contents(fetch(staging, repository.settings, APPLE)) == {APPLE: jar("apple")}


@needs_ivy
def test_settings_from_the_environment(
    repository: MavenRepository, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GROUPREPLAY_IVY_SETTINGS names the mirror where no argument does."""
    monkeypatch.setenv("GROUPREPLAY_IVY_SETTINGS", str(repository.settings))
    assert contents(fetch(staging, None, SEED)) == {SEED: jar("seed")}


@needs_ivy
def test_missing_jar_is_named(repository: MavenRepository, staging: Path, tmp_path: Path) -> None:
    """The error names what the repository lacks, by which settings it was sought, and what to do."""
    lacking = Coordinate.parse("org.example:pear:2.0")
    with pytest.raises(JarError) as error:
        fetch(staging, repository.settings, SEED, lacking)
    assert error.value.what == "jars could not be downloaded: org.example:pear:2.0"
    assert str(repository.settings) in (error.value.where or "")
    read_remedy("streaming.local.ivy: the repository does not have them", str(error.value))
    (tmp_path / "another").mkdir()
    with serve(tmp_path / "another") as another:
        another.add(str(SEED), jar("seed"))
        another.add(str(lacking), jar("pear"))
        assert fetch(staging, another.settings, SEED, lacking)


@needs_ivy
def test_missing_settings_file(repository: MavenRepository, tmp_path: Path, staging: Path) -> None:
    """A settings file that is not there is an error of its own, before any JVM is started; another one is used."""
    with pytest.raises(JarError) as error:
        fetch(staging, tmp_path / "absent.xml", SEED)
    assert error.value.where == str(tmp_path / "absent.xml")
    read_remedy("streaming.local.ivy: correct --ivy-settings", str(error.value))
    assert fetch(staging, repository.settings, SEED)


@needs_ivy
@pytest.mark.parametrize(("passwd", "warned"), [(' passwd="secret"', True), ("", False)])
def test_settings_with_a_login(
    repository: MavenRepository, staging: Path, passwd: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning if others can read the password in them, and none if there is no password."""
    with reachable_folder() as folder:
        settings = folder / "ivysettings.xml"
        login = f'<credentials host="repository.invalid" realm="r" username="u"{passwd}/><resolvers>'
        settings.write_text(repository.settings.read_text().replace("<resolvers>", login, 1))
        settings.chmod(0o644)
        assert contents(fetch(staging, settings, SEED)) == {SEED: jar("seed")}
        text = (
            f"every user of this machine can read the login in {settings} (mode 0644): chmod 600 {settings}"
        )
        assert caplog.messages == [text] * warned


@needs_ivy
def test_unreachable_repository(repository: MavenRepository, staging: Path, tmp_path: Path) -> None:
    """Where nobody listens, the advice is about proxy and mirror, not about the repository's contents."""
    (tmp_path / "gone").mkdir()
    with serve(tmp_path / "gone") as gone:
        settings = gone.settings
    with pytest.raises(JarError) as error:
        fetch(staging, settings, SEED)
    read_remedy("streaming.local.ivy: the repository could not be reached", str(error.value))
    assert fetch(staging, repository.settings, SEED)


@pytest.fixture(params=["any", "packaged"])
def java(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The Java that the machine offers, and the packaged one as on a machine without."""
    if request.param == "packaged":
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    return str(request.param)


@needs_ivy
def test_tls_with_the_certificate_only_in_ssl_cert_file(
    java: str, tmp_path: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose CA no JVM knows is trusted through SSL_CERT_FILE and refused without, by either Java."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    with serve(tmp_path, tls) as repository:
        repository.add(str(SEED), jar("seed"))
        with pytest.raises(JarError) as error:
            fetch(staging, repository.settings, SEED)
        read_remedy("streaming.local.ivy: the server's TLS certificate is not trusted", str(error.value))
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert contents(fetch(staging, repository.settings, SEED)) == {SEED: jar("seed")}


def test_silent_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no variable names certificates, Java keeps its own trust store."""
    assert trust_options() == []
    monkeypatch.setenv("SSL_CERT_FILE", "")
    assert trust_options() == []


def test_all_named_bundles_are_trusted_each_certificate_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is the union of the named files, in the cache under a name made of its content."""
    one, two = trustme.CA().cert_pem.bytes(), trustme.CA().cert_pem.bytes()
    (tmp_path / "one.pem").write_bytes(b"# a comment\n" + one)
    (tmp_path / "both.pem").write_bytes(one + two)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "both.pem"))
    options = trust_options()
    expected = jks([ssl.PEM_cert_to_DER_cert(pem.decode()) for pem in (one, two)])
    store = cache / "truststores" / f"{hashlib.sha256(expected).hexdigest()[:16]}.jks"
    assert options == [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=jks"]
    assert store.read_bytes() == expected


def test_jks_layout() -> None:
    """Magic, version, count; per entry tag, alias, date, kind, certificate; a salted SHA-1 at the end."""
    content = jks([b"DER"])
    body = (
        struct.pack(">III", 0xFEEDFEED, 2, 1)
        + struct.pack(">I", 2)
        + b"\x00\x04ca-0"
        + bytes(8)
        + b"\x00\x05X.509"
        + b"\x00\x00\x00\x03DER"
    )
    salt = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
    assert content == body + hashlib.sha1(salt + body).digest()


@pytest.mark.parametrize(
    "content", [None, b"", b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n"]
)
def test_unusable_file_is_named(
    tmp_path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, without certificates, broken: the error names variable, file and fix."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("PIP_CERT", str(path))
    with pytest.raises(CertificateFileError) as error:
        trust_options()
    assert error.value.where == f"PIP_CERT={path}"
    read_remedy("streaming.local.ivy: correct or unset the variable", str(error.value))
    trustme.CA().cert_pem.write_to_path(str(path))
    trust_options()
    monkeypatch.delenv("PIP_CERT")
    trust_options()


def test_proxy_variables_become_java_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM is told the proxies and exceptions that Python's tools know; credentials stay behind."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    monkeypatch.setenv("http_proxy", "http://other.example")
    monkeypatch.setenv("NO_PROXY", "localhost, .example.org")
    assert network_options() == [
        "-Dhttp.proxyHost=other.example",
        "-Dhttp.proxyPort=80",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example.org",
    ]
