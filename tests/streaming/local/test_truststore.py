"""The trust store made from PEM files. That a JVM accepts it is proved in test_ivy."""

from __future__ import annotations

import hashlib
import ssl
import struct
from pathlib import Path

import pytest
import trustme

from groupreplay.streaming.local.truststore import CertificateFileError, jks, trust_options

pytestmark = pytest.mark.usefixtures("cache")


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
    assert (error.value.where, error.value.fix) == (f"PIP_CERT={path}", "correct or unset the variable")
